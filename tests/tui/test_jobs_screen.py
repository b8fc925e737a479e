import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from textual.widgets import OptionList

from agent.job import JobView
from tests.tui.fake_session import FakeSession, Opener
from tests.tui.harness import press, resize, rows, running, screen_text, settle, type_in, until
from tui.app import ClawApp
from tui.screens.jobs import JobOutputScreen, JobsScreen, job_line, output_lines, output_rows, state_text
from tui.widgets.pager import Pager

STARTED = int(time.mktime((2026, 11, 30, 14, 3, 0, 0, 0, -1)) * 1000)
SERVER = JobView(3, "npm run dev", "running", "", STARTED, 125.0, "/cache/job-3.txt", "one\nready on [b]3000[/b]\n")
FAILED = JobView(2, "make -j\n# all", "exited", "exit code 2", STARTED, 4.2, "", "\x1b[31mno rule\x1b[0m\r\n")
KILLED = JobView(1, "sleep 9", "cancelled", "ended by the user", STARTED, 61.0, "", "")
JOBS = (SERVER, FAILED, KILLED)


@asynccontextmanager
async def listed(*jobs: JobView, size: tuple[int, int] = (80, 24)) -> AsyncIterator[tuple[ClawApp, FakeSession]]:
    async with running(Opener(running_jobs=jobs), size=size) as (app, opener):
        await type_in(app, "/jobs")
        await until(lambda: isinstance(app.screen, JobsScreen) and rows(app))
        await settle(app)
        yield app, opener.session


# ------------------------------------------------------------------ what is said


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (SERVER, "running for 2 m 05 s, since 14:03"),
        (FAILED, "exit code 2, after 4 s"),
        (KILLED, "ended by the user, after 1 m 01 s"),
        (replace(KILLED, ending="lost: \x1b[2Jgone"), "lost: ␛[2Jgone, after 1 m 01 s"),
    ],
)
def test_how_a_job_stands_is_said_in_a_few_clean_words(job: JobView, said: str) -> None:
    assert state_text(job) == said


def test_a_line_has_command_state_and_the_last_thing_it_said() -> None:
    text = job_line(SERVER).plain
    assert text == "  3 npm run dev\n    running for 2 m 05 s, since 14:03  ready on [b]3000[/b]"
    assert job_line(FAILED).plain == "  2 make -j # all\n    exit code 2, after 4 s  no rule"
    styles = [{str(span.style) for span in job_line(job).spans} for job in JOBS]
    assert ["$error" in style for style in styles] == [False, True, False]


@pytest.mark.parametrize(
    ("recent", "lines"),
    [
        ("", [""]), ("a\n\n", ["a"]), ("10%\r99%\n", ["99%"]), ("\x1b[31mred\x1b[0m\x1b[2J", ["red␛[2J"]), ("a\tb", ["a   b"]),
    ],
)  # fmt: skip
def test_output_is_clean_and_progress_keeps_its_last_state(recent: str, lines: list[str]) -> None:
    assert output_lines(recent) == lines


def test_the_output_s_rows_begin_with_the_whole_command_and_the_file() -> None:
    texts = [row.text for row in output_rows(SERVER)]
    assert texts[:3] == ["npm run dev", "running for 2 m 05 s, since 14:03", "All of it: /cache/job-3.txt"]
    assert texts[4:] == ["one", "ready on [b]3000[/b]"]
    assert [row.text for row in output_rows(FAILED)][:2] == ["make -j", "# all"]


# ------------------------------------------------------------------ the screen


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (20, 6)])
async def test_jobs_are_listed_newest_first_at_any_size(size: tuple[int, int]) -> None:
    async with listed(*JOBS, size=size) as (app, _):
        text = screen_text(app)
        assert "npm run dev" in text and "running for" in text and "\x1b" not in text
        assert all(len(row) <= size[0] for row in rows(app)) and text.count("running") == 1
        await press(app, "k")
        await until(lambda: "End job 3" in screen_text(app) and " n" in screen_text(app))
        if size == (80, 24):
            assert text.index("npm run dev") < text.index("make -j") < text.index("sleep 9")
            assert "Enter shows the output · k ends it · Esc" in text


async def test_nothing_in_the_background_is_said() -> None:
    async with listed() as (app, session):
        await until(lambda: "Nothing runs in the background." in screen_text(app))
        await press(app, "k", "enter", "down")
        assert session.calls == [] and isinstance(app.screen, JobsScreen)
        await press(app, "escape")
        assert not isinstance(app.screen, JobsScreen)


async def test_it_is_live_and_the_marked_job_stays_marked() -> None:
    async with listed(*JOBS) as (app, session):
        await press(app, "down")
        screen = app.screen
        assert isinstance(screen, JobsScreen) and screen.marked == FAILED
        session.running_jobs = (replace(SERVER, number=4, command="fresh one"), *JOBS)
        await until(lambda: "fresh one" in screen_text(app))
        assert screen.marked == FAILED and screen.query_one(OptionList).highlighted == 2


async def test_k_asks_and_only_y_ends_the_job() -> None:
    question = "End job 3 (npm run dev) and all it started? y ends it, n keeps it."
    async with listed(*JOBS) as (app, session):
        for key in ("n", "x", "escape", "enter"):
            await press(app, "k")
            await until(lambda: question in screen_text(app))
            await press(app, key)
            await until(lambda: "End job" not in screen_text(app))
            assert session.calls == [] and isinstance(app.screen, JobsScreen)
        await press(app, "k", "y")
        await until(lambda: session.calls == [("kill job", "3")])


async def test_a_job_that_has_ended_is_not_asked_about() -> None:
    async with listed(*JOBS) as (app, session):
        await press(app, "down", "k")
        await until(lambda: "Job 2 has ended already." in screen_text(app))
        await press(app, "y")
        assert session.calls == []


async def test_why_a_job_could_not_be_ended_is_said() -> None:
    async def fails(number: int) -> None:
        raise RuntimeError(f"no job [b]{number}[/b]")

    async with running() as (app, _):
        app.push_screen(JobsScreen(lambda: JOBS, fails))
        await until(lambda: isinstance(app.screen, JobsScreen) and "npm" in screen_text(app))
        await press(app, "k", "y")
        await until(lambda: "Job 3 was not ended: no job [b]3[/b]" in screen_text(app))


async def test_enter_shows_the_output_as_it_comes_and_follows_its_end() -> None:
    long = "".join(f"line {n}\n" for n in range(200))
    async with listed(replace(SERVER, recent=long), FAILED) as (app, session):
        await press(app, "enter")
        await until(lambda: isinstance(app.screen, JobOutputScreen) and "line 199" in screen_text(app))
        session.running_jobs = (replace(SERVER, recent=f"{long}more\n"), FAILED)
        await until(lambda: "more" in screen_text(app))
        await press(app, "home")
        await until(lambda: "npm run dev" in screen_text(app))
        pager = app.screen.query_one(Pager)
        session.running_jobs = (replace(SERVER, recent=f"{long}more\nand more\n", seconds=130), FAILED)
        await until(lambda: "2 m 10 s" in screen_text(app))
        assert pager.scroll_offset.y == 0, "who reads at the top is not moved"
        await press(app, "escape")
        assert isinstance(app.screen, JobsScreen)


async def test_a_job_that_is_kept_no_more_leaves_what_was_shown() -> None:
    async with listed(*JOBS) as (app, session):
        await press(app, "enter")
        await until(lambda: isinstance(app.screen, JobOutputScreen) and "ready on" in screen_text(app))
        session.running_jobs = ()
        screen = app.screen
        assert isinstance(screen, JobOutputScreen)
        screen.look_again()
        await asyncio.sleep(0)
        assert "ready on" in screen_text(app)


async def test_a_terminal_that_shrinks_keeps_the_list() -> None:
    async with listed(*JOBS) as (app, _):
        await resize(app, 30, 8)
        assert any("npm run dev" in row for row in rows(app))

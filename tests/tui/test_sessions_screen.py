"""The list of sessions over files that are really there: found, looked at, opened, given a title, deleted."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from agent.config.layers import load_config
from agent.config.paths import Paths
from agent.events import Event, Notice
from agent.store import sessions
from agent.store.base import SessionMeta
from agent.store.index import SessionIndex
from agent.store.session_file import SessionFile
from agent.transcript import Assistant, Entry, Payload, Setting, User
from providers.types import TextBlock, Usage
from tests.fakes.session_kit import Approver, Desk
from tests.tui.fake_session import Opener
from tests.tui.harness import click, late_key, press, resize, running, screen_text, settle, until
from tests.tui.test_app_literal import ALL, CONTROLS, is_clean
from tui.app import ClawApp
from tui.bridge import SessionSummary, Target
from tui.launch.arguments import Arguments
from tui.launch.screen_mode import Screens
from tui.launch.sessions_on_disk import SessionsOnDisk
from tui.launch.startup import Startup
from tui.screens.session_texts import preview_rows
from tui.screens.sessions import SessionsScreen
from tui.session_seam import SessionHit, SessionPreview
from tui.widgets.session_list import Columns, SessionList

OWN = Path("/project")


class Disk:
    """Sessions of a home, the last added being the newest."""

    def __init__(self, root: Path) -> None:
        env = {"CLAW_HOME": str(root), "HOME": str(root)}
        self.paths = Paths.from_env(env)
        loaded = load_config(self.paths, root, env, ())
        startup = Startup(Arguments(), env, self.paths, OWN, OWN, loaded, {}, "test")
        self.stored = SessionsOnDisk(startup)
        self._number = 0

    def add(self, *payloads: Payload | str, project: Path = OWN) -> str:
        self._number += 1
        id_ = f"20260101-{self._number:06}-abcd"
        store = SessionFile(self.file(id_), SessionMeta(id_, str(project), 1))
        written = [User((TextBlock(p),)) if isinstance(p, str) else p for p in payloads]
        store.append([Entry(k, k - 1 or None, 1_000 + k, p) for k, p in enumerate(written, 1)])
        store.close()
        os.utime(store.path, (self._number, self._number))
        return id_

    def file(self, id_: str) -> Path:
        return self.paths.sessions / f"{id_}.db"

    async def list_sessions(self) -> Sequence[SessionSummary]:
        return await asyncio.to_thread(self.stored.list_now)

    @asynccontextmanager
    async def picking(self, size: tuple[int, int] = (110, 38)) -> AsyncIterator[tuple[ClawApp, Opener]]:
        """The application with the list open and all of it read."""
        launch: dict[str, Any] = {"list_sessions": self.list_sessions, "stored_sessions": lambda: self.stored}
        async with running(size=size, **launch) as (app, opener):
            app.overlays.pick_session()
            await until(lambda: isinstance(app.screen, SessionsScreen) and app.screen.is_mounted)
            await at_rest(app)
            yield app, opener


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def reply(text: str) -> Assistant:
    return Assistant((TextBlock(text),), "p", "m", "anthropic", "f", None, Usage(10), "end_turn", cost_usd=0.25)


def selected(app: ClawApp) -> str:
    session = app.screen.query_one(SessionList).selected
    return session.id if session is not None else ""


async def at_rest(app: ClawApp) -> None:
    """Until everything that was asked of the disk has been answered and drawn."""
    await until(lambda: all(worker.is_finished for worker in app.workers))
    await settle(app)


async def typed(app: ClawApp, text: str) -> None:
    app.screen.query_one("#filter", Input).insert_text_at_cursor(text)
    await settle(app)
    await at_rest(app)


# --------------------------------------------------------------------------- looking and opening


async def test_the_projects_sessions_are_shown_with_age_entries_cost_and_end(disk: Disk) -> None:
    old = disk.add("Repair the parser", reply("It is repaired."))
    other = disk.add("Elsewhere", project=Path("/home/me/other"))
    new = disk.add("Why is it slow?", reply("The loop."), "And now?", reply("Quick."))
    async with disk.picking() as (app, opener):
        shown = screen_text(app)
        assert "Why is it slow?" in shown and "Repair the parser" in shown and "Elsewhere" not in shown
        assert "4 entries" in shown and "$0.500" in shown and "1970-01-01" in shown and selected(app) == new
        await until(
            lambda: "> And now?" in screen_text(app) and "Quick." in screen_text(app) and new in screen_text(app)
        )
        await press(app, "down")
        await until(lambda: "It is repaired." in screen_text(app))
        await press(app, "tab")
        assert "Elsewhere" in screen_text(app) and "other" in screen_text(app) and selected(app) == old
        await press(app, "up", "enter")
        await until(lambda: opener.targets[-1] == Target("resume", other))


async def test_keys_count_that_come_before_the_list(disk: Disk) -> None:
    ids = [disk.add(f"session {n}") for n in range(4)]
    for keys, expected in (("down up up down down", ids[1]), ("down " * 9, ids[0])):
        gate = asyncio.Event()

        async def late(gate: asyncio.Event = gate) -> Sequence[SessionSummary]:
            await gate.wait()
            return await disk.list_sessions()

        async with running(size=(110, 38), list_sessions=late, stored_sessions=lambda: disk.stored) as (app, _):
            app.overlays.pick_session()
            await until(lambda: isinstance(app.screen, SessionsScreen) and "Looking" in screen_text(app))
            await press(app, *keys.split())
            gate.set()
            await until(lambda: "session 0" in screen_text(app))
            await at_rest(app)
            assert selected(app) == expected


async def test_a_session_is_found_by_a_word_in_it_and_titles_come_first(disk: Disk) -> None:
    in_text = disk.add("Something", reply("x " * 400 + "the zucchini is here" + " y" * 400))
    in_title = disk.add("Plant a zucchini")
    disk.add("Nothing of the kind")
    foreign = disk.add("zucchini abroad", project=Path("/other"))
    async with disk.picking() as (app, opener):
        await typed(app, "ZUCCHINI")
        assert selected(app) == in_title and "2 of 3" in screen_text(app)
        await press(app, "down")
        assert selected(app) == in_text
        await until(lambda: "found: …" in screen_text(app) and "the zucchini is here" in screen_text(app))
        await press(app, "tab")
        assert "3 of 4" in screen_text(app) and "zucchini abroad" in screen_text(app)
        await typed(app, " abroad")
        assert selected(app) == foreign
        await typed(app, " nowhere")
        assert "Nothing holds that." in screen_text(app)
        await press(app, "enter")
        assert isinstance(app.screen, SessionsScreen), "nothing is opened where nothing is selected"
        await press(app, "escape")
        assert opener.targets == [Target()]


async def test_no_sessions_is_said_and_where_others_are(disk: Disk) -> None:
    async with disk.picking() as (app, _):
        assert "No earlier session in this project." in screen_text(app)
    disk.add("Elsewhere", project=Path("/other"))
    async with disk.picking() as (app, _):
        assert "No earlier session in this project. Tab looks at all projects." in screen_text(app)
        assert "Elsewhere" not in screen_text(app), "what was shown while its project was unknown is gone"
        await press(app, "tab", "enter")
        await until(lambda: not isinstance(app.screen, SessionsScreen))


async def test_T94_what_another_claw_has_open_is_told(disk: Disk) -> None:
    id_ = disk.add("question")
    store, _ = sessions.open_session(disk.file(id_), lambda text: None)
    try:
        async with disk.picking() as (app, _):
            await until(lambda: f"open in another claw · {id_}" in screen_text(app))
    finally:
        store.close()


async def test_T92_what_cannot_be_read_is_told_in_its_place(disk: Disk) -> None:
    id_ = disk.add("question")
    disk.stored.index.complete()
    stamp = disk.file(id_).stat()
    disk.file(id_).write_bytes(b"g" * stamp.st_size)
    os.utime(disk.file(id_), ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    async with disk.picking() as (app, _):
        await until(lambda: "cannot be read" in screen_text(app) and "question" in screen_text(app))


async def test_a_click_selects_and_a_second_one_opens(disk: Disk) -> None:
    first, _ = disk.add("first"), disk.add("second")
    async with disk.picking() as (app, opener):
        await click(app, SessionList, (10, 1))
        assert selected(app) == first
        await click(app, SessionList, (10, 1))
        await until(lambda: opener.targets[-1] == Target("resume", first))


# --------------------------------------------------------------------------- as it is found


class Slow:
    """Gives what it is asked for when the test says so."""

    def __init__(self) -> None:
        self.go = {name: threading.Event() for name in ("refresh", "search", "preview")}
        self.asked: list[str] = []

    def refresh(self) -> Iterator[Sequence[SessionSummary]]:
        for number in (1, 2):
            assert self.go["refresh"].wait(40)
            yield [SessionSummary(str(number), f"title {number}", "now", project="/p", is_own=number == 1)]

    def search(self, words: str) -> Sequence[SessionHit]:
        self.asked.append(words)
        assert self.go["search"].wait(40)
        return [SessionHit("2", f"about {words}")]

    def preview(self, session_id: str) -> SessionPreview:
        self.asked.append(session_id)
        assert self.go["preview"].wait(40)
        return SessionPreview((("user", f"end of {session_id}"),))

    def rename(self, session_id: str, title: str) -> None:
        raise ValueError("[it] cannot be done")

    def delete(self, session_id: str) -> None:
        raise OSError("[it] is in use")


async def unknown_sessions() -> Sequence[SessionSummary]:
    return [SessionSummary(str(number), "", "now", is_known=False) for number in (1, 2)]


async def test_the_list_is_there_at_once_and_titles_come_as_they_are_read() -> None:
    slow = Slow()
    async with running(list_sessions=unknown_sessions, stored_sessions=lambda: slow, size=(80, 24)) as (app, _):
        app.overlays.pick_session()
        await until(lambda: "▸ …" in screen_text(app) and "title 1" not in screen_text(app))
        assert len(app.screen.query_one(SessionList)._sessions) == 2
        slow.go["refresh"].set()
        await until(lambda: "title 1" in screen_text(app))
        await until(lambda: len(app.screen.query_one(SessionList)._sessions) == 1)
        for event in slow.go.values():
            event.set()


async def test_answers_that_come_too_late_are_dropped() -> None:
    slow = Slow()
    slow.go["refresh"].set()
    async with running(list_sessions=unknown_sessions, stored_sessions=lambda: slow, size=(80, 24)) as (app, _):
        app.overlays.pick_session()
        await until(lambda: "title 1" in screen_text(app) and slow.asked == ["1"])
        await press(app, "tab", "down")
        await until(lambda: slow.asked == ["1", "2"])
        slow.go["preview"].set()
        await until(lambda: "end of 2" in screen_text(app))
        app.screen.query_one("#filter", Input).insert_text_at_cursor("ab")
        await until(lambda: "ab" in slow.asked)
        app.screen.query_one("#filter", Input).insert_text_at_cursor("c")
        await until(lambda: "abc" in slow.asked)
        slow.go["search"].set()
        await until(lambda: "found: about abc" in screen_text(app))
        assert "about ab " not in screen_text(app)


async def test_what_fails_is_said_literally() -> None:
    slow = Slow()
    for event in slow.go.values():
        event.set()
    async with running(list_sessions=unknown_sessions, stored_sessions=lambda: slow, size=(80, 24)) as (app, _):
        app.overlays.pick_session()
        await until(lambda: "end of 1" in screen_text(app))
        await press(app, "f2", "x", "enter")
        await until(lambda: "[it] cannot be done" in screen_text(app))
        await press(app, "ctrl+d")
        await until(lambda: "for good?" in screen_text(app))
        await late_key(app, "y")
        await until(lambda: "[it] is in use" in screen_text(app))


# --------------------------------------------------------------------------- title and deletion


async def test_a_title_is_given_kept_and_taken_back(disk: Disk) -> None:
    id_ = disk.add("first line")
    async with disk.picking() as (app, _):
        await press(app, "f2")
        field = app.screen.query_one(Input)
        assert field.value == "first line"
        field.value = "  A  [new] title "
        await press(app, "enter")
        await until(lambda: "A [new] title" in screen_text(app))
        assert sessions.load(disk.file(id_)).entries[-1].payload == Setting(title="A [new] title")
        await press(app, "ctrl+r", "escape")
        assert isinstance(app.screen, SessionsScreen) and len(sessions.load(disk.file(id_)).entries) == 2
        await press(app, "f2")
        app.screen.query_one(Input).value = ""
        await press(app, "enter")
        await until(lambda: "A [new] title" not in screen_text(app) and "first line" in screen_text(app))


async def test_the_session_that_is_open_here_is_named_through_it_and_never_deleted(disk: Disk) -> None:
    id_ = disk.add("mine")
    launch: dict[str, Any] = {"list_sessions": disk.list_sessions, "stored_sessions": lambda: disk.stored}
    async with running(Opener(id=id_), size=(110, 38), **launch) as (app, opener):
        app.overlays.pick_session()
        await until(lambda: "open here" in screen_text(app) and f"open here · {id_}" in screen_text(app))
        await press(app, "f2")
        app.screen.query_one(Input).value = "named"
        await press(app, "enter")
        await until(lambda: ("title", "named") in opener.session.calls)
        await press(app, "ctrl+d")
        assert isinstance(app.screen, SessionsScreen) and "cannot be deleted" in screen_text(app)
    assert disk.file(id_).exists()


async def test_deleting_asks_first_and_no_is_marked(disk: Disk) -> None:
    kept, gone = disk.add("kept"), disk.add("gone")
    async with disk.picking() as (app, _):
        for keys in (["n"], ["escape"], ["enter"]):
            await press(app, "ctrl+d")
            await until(lambda: "Delete this session for good?" in screen_text(app) and gone in screen_text(app))
            await late_key(app, "y", -10)
            assert "Delete this session" in screen_text(app), "too early to be meant"
            for key in keys:
                await late_key(app, key)
            await until(lambda: isinstance(app.screen, SessionsScreen))
            assert disk.file(gone).exists()
        await press(app, "ctrl+d")
        await until(lambda: "for good?" in screen_text(app))
        await late_key(app, "y")
        await until(lambda: not disk.file(gone).exists() and selected(app) == kept)


async def test_the_title_command_names_the_session(disk: Disk) -> None:
    async with running() as (app, opener):
        app.send("/title A better [name]")
        await until(lambda: "The title is: A better [name]" in screen_text(app))
        assert ("title", "A better [name]") in opener.session.calls


# --------------------------------------------------------------------------- drawing


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (20, 6), (60, 15), (200, 60)])
async def test_every_size_shows_the_list_and_stays_usable(disk: Disk, size: tuple[int, int]) -> None:
    for number in range(7):
        disk.add(f"question {number} 你好", reply("answer"))
    async with disk.picking(size) as (app, opener):
        assert "▸" in screen_text(app) and "que" in screen_text(app)
        await press(app, *["pagedown"] * 6)
        assert selected(app).endswith("000001-abcd") and "▸" in screen_text(app)
        await resize(app, 80, 24)
        assert "question 0" in screen_text(app) and "Enter open" in screen_text(app)
        await press(app, "enter")
        await until(lambda: len(opener.targets) == 2)


async def test_B24_titles_projects_and_texts_are_shown_literally(disk: Disk) -> None:
    hostile = f"{ALL}{CONTROLS}"
    disk.add(hostile, reply(f"zebra {hostile}"), Setting(title=hostile), project=Path(f"/{ALL.replace('/', '')}"))
    async with disk.picking((200, 60)) as (app, _):
        await press(app, "tab")
        await until(lambda: screen_text(app).count("[red]x") >= 3)
        assert is_clean(screen_text(app))
        await typed(app, "zebra")
        await until(lambda: "found:" in screen_text(app))
        assert is_clean(screen_text(app))
        await press(app, "f2")
        assert is_clean(screen_text(app))
        await press(app, "escape", "ctrl+d")
        await until(lambda: "for good?" in screen_text(app))
        assert is_clean(screen_text(app)) and app.is_running


@pytest.mark.parametrize("width", [1, 20, 36, 60, 72, 96, 140])
@pytest.mark.parametrize("with_project", [True, False])
def test_columns_fill_the_row_and_the_title_has_the_rest(width: int, with_project: bool) -> None:
    columns = Columns.at(width, with_project=with_project)
    shown = [part for part in columns[1:] if part]
    assert columns.title >= 1 and (width < 20 or 2 + columns.title + sum(shown) + 2 * len(shown) == width)


def test_the_preview_says_what_was_found_before_how_it_ended() -> None:
    preview = SessionPreview((("user", "a\nb"), ("assistant", "c" * 9_999)))
    rows = preview_rows(preview, "here it is")
    assert [row.text for row in rows[:5]] == ["found: here it is", "", "> a", "  b", ""]
    assert len(rows[5].text) < 2_000 and rows[5].text.endswith("…")
    assert preview_rows(SessionPreview(fault="gone\nlook"), "")[0].text == "gone"


# --------------------------------------------------------------------------- with a real session


async def test_T99_old_sessions_go_at_the_start_by_the_setting_alone_and_it_is_told_once(desk: Desk) -> None:
    disk = Disk(desk.home)
    old, busy, young = disk.add("old"), disk.add("old and open"), disk.add("young")
    os.utime(disk.file(young))
    store, _ = sessions.open_session(disk.file(busy), lambda text: None)
    os.utime(disk.file(busy), (1, 1))
    try:
        assert await notices_of_a_start(desk) == [] and disk.file(old).exists(), "never without the setting"
        config = desk.home / "config" / "config.toml"
        config.write_text(f"{config.read_text()}[limits]\nretention_days = 30\n")
        told = await notices_of_a_start(desk)
        assert len(told) == 1 and "1 session was deleted" in told[0] and "30 days" in told[0]
        assert not disk.file(old).exists() and disk.file(busy).exists() and disk.file(young).exists()
    finally:
        store.close()


async def notices_of_a_start(desk: Desk) -> list[str]:
    """What is told about deleted sessions by a claw that opens two sessions one after the other."""
    told: list[str] = []

    def emit(event: Event) -> None:
        if isinstance(event, Notice) and "deleted" in event.text:
            told.append(event.text)

    screens = Screens(desk.startup())
    for _ in range(2):
        session = await screens.open(Target("new"), emit, Approver())
        await until(lambda: all(task.get_name() != "delete old sessions" for task in asyncio.all_tasks()))
        await session.close()
    return told


async def test_a_title_is_recorded_survives_a_resume_and_is_in_the_index_when_the_session_closes(desk: Desk) -> None:
    desk.wire.otherwise(lambda body: "Yes.")
    async with desk.open() as talk:
        with pytest.raises(RuntimeError, match="said in it"):
            talk.session.set_title("too early")
        await talk.session.prompt("first line")
        assert talk.session.title == "first line"
        talk.session.set_title(" A \n title ")
        assert talk.session.title == "A title"
    index = SessionIndex(desk.folder, desk.home / "data" / "index.db")
    listing = index.listing()
    assert listing.waiting == () and [info.title for info in listing.sessions] == ["A title"]
    assert listing.sessions[0].project == str(desk.project.resolve()) and listing.sessions[0].tokens > 0
    async with desk.open(talk.path) as again:
        assert again.session.title == "A title"
        again.session.set_title("Another")
        await again.session.prompt("more")
    assert [info.title for info in index.listing().sessions] == ["Another"]
    assert desk.wire.refusals == []

"""The queue, commands of the user's own, the search of the history, the draft and the editor, from the composer."""

from pathlib import Path

import pytest

from tests.tui.fake_session import Opener
from tests.tui.harness import press, running, screen_text, type_in, until
from tests.tui.test_composer import composer_of
from tests.tui.test_drafts import left_behind
from tests.tui.test_editor import script
from tui.composing.history import PromptHistory
from tui.widgets.queue import QueueView, queue_rows


async def test_alt_enter_waits_for_the_end_of_the_turn_and_each_gets_its_own() -> None:
    async with running() as (app, opener):
        await type_in(app, "first")
        for text in ("second", "third"):
            composer_of(app).put(text)
            await press(app, "alt+enter")
        await type_in(app, "now")
        await until(lambda: "⇥ second" in screen_text(app) and "↳ now" in screen_text(app))
        opener.session.queued = ()
        opener.session.end()
        await until(lambda: opener.session.calls[-1] == ("prompt", "second"))
        opener.session.end()
        await until(lambda: opener.session.calls[-1] == ("prompt", "third"))
        opener.session.end()
        await until(lambda: not app.current.busy)
        assert [call for call in opener.session.calls if call[0] == "prompt"] == [
            ("prompt", "first"), ("prompt", "second"), ("prompt", "third"),
        ]  # fmt: skip
        await until(lambda: app.query_one(QueueView).texts == ())


async def test_alt_enter_sends_at_once_where_nothing_runs() -> None:
    async with running() as (app, opener):
        composer_of(app).put("first")
        await press(app, "alt+enter")
        await until(lambda: opener.session.calls)
        assert opener.session.calls == [("prompt", "first")]


async def test_up_takes_the_newest_waiting_message_back_and_only_from_an_empty_field() -> None:
    async with running() as (app, opener):
        await type_in(app, "first")
        for text in ("second", "third"):
            composer_of(app).put(text)
            await press(app, "alt+enter")
        await press(app, "x", "up")
        assert composer_of(app).text == "third" and opener.session.later == ["second", "third"]
        composer_of(app).put("")
        await press(app, "up")
        assert composer_of(app).text == "third" and opener.session.later == ["second"]
        await press(app, "!", "alt+enter")
        assert opener.session.later == ["second", "third!"]


async def test_an_interruption_leaves_them_waiting() -> None:
    async with running() as (app, opener):
        await type_in(app, "first")
        composer_of(app).put("second")
        await press(app, "alt+enter", "escape")
        await until(lambda: not app.current.busy)
        assert opener.session.later == ["second"] and opener.session.calls[-1] == ("interrupt",)


async def test_what_waits_for_the_session_can_be_taken_back_too() -> None:
    opener = Opener()
    opener.gate.clear()
    async with running(opener, opened=False) as (app, _):
        await type_in(app, "too early")
        await until(lambda: "↳ too early" in screen_text(app))
        await press(app, "up")
        assert composer_of(app).text == "too early"
        opener.gate.set()
        await until(lambda: app.current.session is not None and not app.current.busy)
        assert opener.session.calls == []


@pytest.mark.parametrize(("typed", "call"), [("!ls -la", ("shell", "ls -la")), ("!!env", ("shell aside", "env"))])
async def test_a_command_runs_and_starts_no_turn(typed: str, call: tuple[str, str]) -> None:
    async with running() as (app, opener):
        await type_in(app, typed)
        await until(lambda: ("shell ended",) in opener.session.calls)
        assert opener.session.calls == [call, ("shell ended",)]
        await until(lambda: "[b]some[/b] output" in screen_text(app) or "● !" in screen_text(app))


async def test_escape_ends_a_command_before_a_turn_and_messages_wait_for_it() -> None:
    async with running() as (app, opener):
        opener.session.read.clear()
        await type_in(app, "!sleep 60")
        await until(lambda: "running your command" in screen_text(app))
        await type_in(app, "what came of it?")
        assert opener.session.calls == [("shell", "sleep 60")]
        await press(app, "escape")
        await until(lambda: ("prompt", "what came of it?") in opener.session.calls)
        assert opener.session.calls[1] == ("shell interrupted",)
        await type_in(app, "!in the turn")
        await press(app, "escape")
        await until(lambda: opener.session.calls[-1] == ("shell interrupted",))
        assert opener.session.running
        await press(app, "escape")
        assert opener.session.calls[-1] == ("interrupt",)


async def test_commands_run_one_after_the_other_also_those_before_the_session() -> None:
    opener = Opener()
    opener.gate.clear()
    async with running(opener, opened=False) as (app, _):
        await type_in(app, "!one")
        await type_in(app, "!!two")
        opener.gate.set()
        await until(lambda: opener.sessions and len(opener.session.calls) == 4)
        assert opener.session.calls == [
            ("shell", "one"), ("shell ended",), ("shell aside", "two"), ("shell ended",),
        ]  # fmt: skip


async def test_ctrl_r_searches_the_history(tmp_path: Path) -> None:
    for text in ("fix the [b]parser[/b]", "first\nsecond \x1b[31m", "fix the tests", "fix the tests 12"):
        PromptHistory(tmp_path / "history").save(text)
    async with running(history_file=tmp_path / "history", cwd=tmp_path) as (app, _):
        await app.workers.wait_for_complete()
        await press(app, "ctrl+r")
        await until(lambda: "first second ␛[31m  +1 line" in screen_text(app))
        await press(app, *"fix", "ctrl+r")
        await until(lambda: "first second" not in screen_text(app) and "fix the [b]parser[/b]" in screen_text(app))
        await press(app, "enter")
        assert composer_of(app).text == "fix the tests"
        await press(app, "ctrl+r", *"nothing", "escape")
        assert composer_of(app).text == "fix the tests"


async def test_the_draft_of_a_killed_claw_is_back_and_goes_when_it_is_sent(tmp_path: Path) -> None:
    left_behind(tmp_path / "drafts", str(tmp_path), "half a thought")
    async with running(history_file=tmp_path / "history", cwd=tmp_path) as (app, opener):
        await until(lambda: composer_of(app).text == "half a thought")
        await press(app, "!")
        (path,) = (tmp_path / "drafts").glob("*.json")
        await until(lambda: path.read_text() == '"half a thought!"')
        await press(app, "enter")
        await until(lambda: opener.session.calls == [("prompt", "half a thought!")])
        await until(lambda: not path.exists())


@pytest.mark.parametrize("body", ["exit 3", 'rm "$1"'])
async def test_a_failing_editor_keeps_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    monkeypatch.setenv("VISUAL", str(script(tmp_path / "bin" / "ed", body)))
    (tmp_path / "project").mkdir()
    async with running(cwd=tmp_path / "project") as (app, _):
        composer_of(app).put("my text")
        await press(app, "ctrl+g")
        await until(lambda: "!" in screen_text(app))
        assert composer_of(app).text == "my text"


def test_what_waits_for_the_turn_is_marked() -> None:
    assert queue_rows(("a", "b"), 20, 1) == [" ↳ a", " ⇥ b"]
    assert queue_rows(("a", "b", "c", "d"), 20, 3) == [" ↳ a", " ⇥ b", "   and 2 more"]
    assert queue_rows(("a",), 1, 1) == [" ⇥ a"]

import asyncio

import pytest
from textual.widgets import Input, OptionList

from agent.events import CompactionFinished, CompactionProgress, CompactionStarted
from agent.replay import replay
from agent.transcript import Compaction, Entry
from tests.tui.fake_session import FakeEditor, Opener
from tests.tui.harness import press, running, screen_text, settle, type_in, until
from tui.context_commands import CompactWish, PinWish, compact_wish, pin_wish
from tui.screens.context import ContextScreen
from tui.screens.instructions import InstructionsScreen
from tui.screens.pick_message import message_lines


@pytest.mark.parametrize(
    ("argument", "wish"),
    [
        ("", CompactWish()),
        ("the tests", CompactWish(focus="the tests")),
        ("preview", CompactWish("preview")),
        ("Preview the tests", CompactWish("preview", focus="the tests")),
        ("previews of films", CompactWish(focus="previews of films")),
        ("edit", CompactWish("edit")),
        ("edit  keep names", CompactWish("edit", focus="keep names")),
        ("from", CompactWish(where="from")),
        ("from 12", CompactWish(where="from", key=12)),
        ("from #12 names", CompactWish(where="from", key=12, focus="names")),
        ("from the parser on, all", CompactWish(focus="from the parser on, all")),
        ("from 12th street", CompactWish(focus="from 12th street")),
        ("up to", CompactWish(where="up to")),
        ("up  to 7", CompactWish(where="up to", key=7)),
        ("up to the end", CompactWish(focus="up to the end")),
        ("upto 7", CompactWish(focus="upto 7")),
        ("preview from 3", CompactWish("preview", "from", 3)),
        ("edit up to", CompactWish("edit", "up to")),
    ],
)
def test_M10_each_form_of_compact_is_told_from_a_focus(argument: str, wish: CompactWish) -> None:
    assert compact_wish(argument) == wish


@pytest.mark.parametrize(
    ("argument", "wish"),
    [
        ("", PinWish()),
        ("12", PinWish(key=12)),
        ("#12", PinWish(key=12)),
        ("12 apples", PinWish(text="12 apples")),
        ("never touch x", PinWish(text="never touch x")),
        ("@src/a.py", PinWish(path="src/a.py")),
        ("@src/a.py:3-14", PinWish(path="src/a.py", lines=(3, 14))),
        ("@src/a.py:3", PinWish(path="src/a.py", lines=(3, 3))),
        ('@"my notes.md":2-4', PinWish(path="my notes.md", lines=(2, 4))),
        ("@my notes.md", PinWish(path="my notes.md")),
        ("@", PinWish(text="@")),
        ("@a\nb", PinWish(text="@a\nb")),
        ("mail me@example.org", PinWish(text="mail me@example.org")),
    ],
)
def test_pin_takes_a_text_a_file_lines_of_it_or_an_entry(argument: str, wish: PinWish) -> None:
    assert pin_wish(argument) == wish


@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("/compact", ("compact", "")),
        ("/compact the tests", ("compact", "the tests")),
        ("/compact from 3", ("compact", "", "from 3")),
        ("/compact up to 7 keep names", ("compact", "keep names", "up to 7")),
    ],
)
async def test_M10_compact_passes_focus_and_span_on(command: str, call: tuple[str, ...]) -> None:
    async with running() as (app, opener):
        await type_in(app, command)
        await until(lambda: call in opener.session.calls)
        await until(lambda: "Compacted 90.0k → 12.0k (by hand, $0.012) · /undo compact" in screen_text(app))


@pytest.mark.parametrize("slip", ["prevew", "edti", "Previw"])
async def test_a_mistyped_form_of_compact_starts_nothing(slip: str) -> None:
    async with running() as (app, opener):
        await type_in(app, f"/compact {slip}")
        await until(lambda: f"There is no /compact {slip}." in screen_text(app))
        assert opener.session.calls == []


@pytest.mark.parametrize(("where", "marker"), [("from", "all behind it"), ("up to", "all before this message")])
async def test_without_a_key_the_message_is_picked_among_the_users_own(where: str, marker: str) -> None:
    async with running() as (app, opener):
        await type_in(app, f"/compact {where}")
        await until(lambda: marker in screen_text(app))
        text = screen_text(app)
        assert "and the tests" in text and "repair the [parser]" in text and "I will look." not in text
        await press(app, "down", "enter")
        await until(lambda: ("compact", "", f"{where} 3") in opener.session.calls)
        await type_in(app, f"/compact {where}")
        await until(lambda: marker in screen_text(app))
        await press(app, "escape")
        await settle(app)
        assert len(opener.session.calls) == 1 and len(app.screen_stack) == 1


def test_the_newest_message_stands_first_in_the_picker() -> None:
    lines = message_lines(FakeEditor().pieces())
    assert [line[0] for line in lines] == ["7", "3"]


async def test_what_is_dropped_or_absent_is_not_offered() -> None:
    editor = FakeEditor(parts=())
    async with running(Opener(editor=editor)) as (app, opener):
        await type_in(app, "/compact from")
        await until(lambda: "No message of yours stands in the window." in screen_text(app))
        await press(app, "enter")
        assert opener.session.calls == []


@pytest.mark.parametrize(
    ("command", "call", "tokens"),
    [
        ("/pin", ("plan", "pin", ()), 12),
        ("/pin 4", ("plan", "pin", (4,)), 30),
        ("/pin never touch [x]", ("plan_pin_text", "never touch [x]"), 64),
        ("/pin @src/a.py:3-9", ("plan_pin_file", "src/a.py", 3, 9), 64),
        ("/pin @src/a.py", ("plan_pin_file", "src/a.py", None, None), 64),
    ],
)
async def test_pin_asks_nothing_and_says_when_it_counts_and_what_it_takes(
    command: str, call: tuple[object, ...], tokens: int
) -> None:
    async with running() as (app, opener):
        await type_in(app, command)
        await until(lambda: "It takes effect at the next compaction." in screen_text(app))
        calls = opener.session.editor.calls
        assert calls[0] == call and calls[1][:2] == ("apply", "pin") and len(app.screen_stack) == 1
        assert f"about {tokens} tokens. /undo pin" in screen_text(app)


async def test_a_refused_pin_says_why_and_changes_nothing() -> None:
    async with running(Opener(editor=FakeEditor(refusal="the pins alone would not fit [b]"))) as (app, opener):
        await type_in(app, "/pin")
        await until(lambda: "Nothing was pinned: the pins alone would not fit [b]" in screen_text(app))
        assert [call[0] for call in opener.session.editor.calls] == ["plan"]


@pytest.mark.parametrize(
    ("command", "newest", "undone"),
    [
        ("/undo pin", "pin", True),
        ("/undo pin", "unpinning", True),
        ("/undo pin", "drop", False),
        ("/undo drop", "drop", True),
        ("/undo drop", "pin", False),
        ("/undo edit", "shortening", True),
        ("/undo edit", "", True),
    ],
)
async def test_undo_takes_back_only_what_was_named(command: str, newest: str, undone: bool) -> None:
    async with running(Opener(editor=FakeEditor(last=newest))) as (app, opener):
        await type_in(app, command)
        said = "The newest pin is undone." if undone else f"the newest edit is a {newest}"
        await until(lambda: said in screen_text(app))
        assert opener.session.editor.calls == ([("undo",)] if undone else [])


async def test_M9_undo_compact_says_what_happened() -> None:
    async with running() as (app, opener):
        await type_in(app, "/undo compact")
        await until(lambda: "The compaction counts no longer." in screen_text(app))
        assert opener.session.calls == [("undo",)]


async def test_undo_alone_asks_which() -> None:
    async with running(Opener(editor=FakeEditor(last="drop"))) as (app, opener):
        await type_in(app, "/undo")
        await until(lambda: "the last compaction" in screen_text(app) and "the last edit, a drop" in screen_text(app))
        await press(app, "escape")
        assert opener.session.calls == [] and opener.session.editor.calls == []
        await type_in(app, "/undo")
        await until(lambda: isinstance(app.focused, Input))
        await press(app, "down", "enter")
        await until(lambda: opener.session.editor.calls == [("undo",)])


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("/undo everything", "What can be undone: /undo compact"),
        ("/instructions show", "/instructions reload reads them again"),
        ("/history ", "/history WORDS"),
        ("/memroy", "Did you mean /memory?"),
        ("/hystory x", "Did you mean /history?"),
        ("/pni", "Did you mean /pin?"),
    ],
)
async def test_an_unknown_word_is_answered_with_what_there_is(command: str, hint: str) -> None:
    async with running() as (app, opener):
        await type_in(app, command)
        await until(lambda: hint in screen_text(app))
        assert opener.session.calls == [] and opener.session.editor.calls == []


@pytest.mark.parametrize(
    "command",
    [
        "/compact",
        "/compact preview",
        "/compact edit",
        "/compact from 3",
        "/undo compact",
        "/undo",
        "/instructions reload",
    ],
)
async def test_the_window_is_left_alone_while_a_turn_runs(command: str) -> None:
    async with running() as (app, opener):
        await type_in(app, "go")
        await until(lambda: opener.session.running)
        await type_in(app, command)
        await until(lambda: "Not while it works" in screen_text(app))
        assert opener.session.calls == [("prompt", "go")] and len(app.screen_stack) == 1


@pytest.mark.parametrize(
    "command",
    ["/compact", "/compact preview", "/pin x", "/undo", "/cost", "/history x", "/instructions", "/context", "/memory"],
)
async def test_before_a_session_is_open_every_command_says_so(command: str) -> None:
    opener = Opener()
    opener.gate.clear()
    async with running(opener, opened=False) as (app, _):
        await type_in(app, command)
        await until(lambda: "The session is not open yet." in screen_text(app))
        assert len(app.screen_stack) == 1
        opener.gate.set()


@pytest.mark.parametrize("command", ["/compact", "/compact preview", "/undo compact", "/undo edit", "/pin x"])
async def test_a_failing_session_is_told_and_nothing_breaks(command: str) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("boom [b]")

    def fail_at_once(*_: object) -> None:
        raise RuntimeError("boom [b]")

    async with running() as (app, opener):
        session, editor = opener.session, opener.session.editor
        for name in ("compact", "undo_compaction"):
            setattr(session, name, fail)
        for target, name in ((session, "preview_compaction"), (editor, "undo"), (editor, "plan_pin_text")):
            setattr(target, name, fail_at_once)
        await type_in(app, command)
        await until(lambda: "boom [b]" in screen_text(app))
        await type_in(app, "still there?")
        await until(lambda: ("prompt", "still there?") in session.calls)


async def test_instructions_open_and_r_reads_them_again() -> None:
    async with running() as (app, opener):
        await type_in(app, "/memory")
        await until(lambda: isinstance(app.screen, InstructionsScreen) and app.screen.is_drawn)
        assert "AGENTS.md" in screen_text(app)
        await press(app, "escape")
        await type_in(app, "/instructions reload")
        await until(lambda: "Read again: 1 file." in screen_text(app))
        assert opener.session.calls == [("reload",)]


async def test_context_opens_on_the_session_that_is_open() -> None:
    async with running() as (app, _):
        await type_in(app, "/context")
        await until(lambda: isinstance(app.screen, ContextScreen) and "src/a.py" in screen_text(app))
        await press(app, "escape")
        await until(lambda: len(app.screen_stack) == 1)


async def test_M7_calls_for_a_summary_are_counted_in_the_working_line() -> None:
    async with running() as (app, opener):
        emit = opener.session.emit
        emit(CompactionProgress(1, 8))  # of a summary in the background
        emit(CompactionStarted("auto", 90_000))
        await until(lambda: "compacting" in screen_text(app))
        assert "of 8" not in screen_text(app)
        emit(CompactionProgress(2, 8))
        await until(lambda: "summarising 3 of 8" in screen_text(app))
        emit(CompactionProgress(8, 8))
        await until(lambda: "summarising 8 of 8" in screen_text(app))
        emit(CompactionFinished(9, 90_000, 9_000))
        await until(lambda: "Compacted 90.0k → 9.0k (automatic) · /undo compact" in screen_text(app))
        assert "summarising" not in screen_text(app)


async def test_a_resumed_compaction_says_what_caused_it() -> None:
    by_hand = Compaction("text", "summary", 1, "manual", 90_000, 12_000, cost_usd=0.012)
    automatic = Compaction("text", "summary", 2, "auto", 80_000, 11_000)
    past = tuple(replay([Entry(1, None, 0, by_hand), Entry(2, 1, 0, automatic)]))
    async with running(Opener(past=past)) as (app, _):
        await until(lambda: "Compacted 90.0k → 12.0k (by hand, $0.012) · /undo compact" in screen_text(app))
        assert "Compacted 80.0k → 11.0k (automatic) · /undo" in screen_text(app) and "compacting" not in screen_text(
            app
        )


async def test_completion_offers_the_forms_and_enter_opens_them() -> None:
    async with running() as (app, opener):
        await press(app, *"/compact pre", "enter")
        await until(lambda: "What a compaction would do" in screen_text(app))
        await press(app, "escape")
        await until(lambda: len(app.screen_stack) == 1)
        assert opener.session.calls == [("preview", "")]


async def test_the_picker_of_messages_narrows_down() -> None:
    async with running() as (app, opener):
        await type_in(app, "/compact from")
        await until(lambda: isinstance(app.focused, Input))
        await press(app, *"parser")
        await until(lambda: app.screen.query_one(OptionList).option_count == 1)
        await press(app, "enter")
        await until(lambda: ("compact", "", "from 3") in opener.session.calls)


async def test_messages_wait_for_a_draft_and_then_leave() -> None:
    async with running() as (app, opener):
        opener.session.written.clear()
        task = app.current.attend(lambda: opener.session.draft_compaction())
        await until(lambda: ("draft", "") in opener.session.calls)
        assert app.current.send("later") is False
        assert ("prompt", "later") not in opener.session.calls
        opener.session.written.set()
        await asyncio.wait_for(task, 5)
        await until(lambda: ("prompt", "later") in opener.session.calls)

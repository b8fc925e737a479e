import asyncio
from functools import partial

import pytest
from textual.widgets import Input, OptionList

from agent.events import (
    CompactionFinished,
    CompactionStarted,
    GaugeChanged,
    MessageCompleted,
    Notice,
    QueueChanged,
    RetryScheduled,
    TextStreamed,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    UserMessageAdded,
)
from agent.tools.details import TextDetails
from providers.types import TextBlock, Usage
from tests.tui.fake_session import Opener
from tests.tui.harness import late_key, press, running, screen_text, type_in, until
from tui.app import ClawApp
from tui.bridge import NoKey, SessionSummary, Target
from tui.launch.listed_models import ModelChoice
from tui.screens.dialog import Dialog
from tui.widgets.composer import Composer


def shows_mode(app: ClawApp, mode: str) -> bool:
    return f" {mode} " in screen_text(app).splitlines()[-1]


async def test_a_message_is_sent_shown_once_and_its_reply_streams() -> None:
    async with running() as (app, opener):
        await type_in(app, "fix it")
        await until(lambda: opener.session.calls == [("prompt", "fix it")])
        await until(lambda: "waiting for demo" in screen_text(app))
        await until(lambda: screen_text(app).count("fix it") == 1)
        opener.session.emit(TextStreamed("I will "))
        opener.session.emit(TextStreamed("look."))
        await until(lambda: "I will look." in screen_text(app))
        assert "writing" in screen_text(app) and "Esc interrupts" in screen_text(app)
        opener.session.end()
        await until(lambda: "writing" not in screen_text(app))


@pytest.mark.parametrize("text", ["fix it", "/nonsense", "!ls"])
async def test_what_is_sent_from_further_up_shows_its_answer(text: str) -> None:
    async with running() as (app, opener):
        opener.session.emit(TextStreamed("\n\n".join(f"paragraph {number}" for number in range(80))))
        await until(lambda: "paragraph 78" in screen_text(app))
        await press(app, "pageup", "pageup")
        await until(lambda: "paragraph 78" not in screen_text(app))
        await type_in(app, text)
        await until(lambda: "paragraph 78" in screen_text(app))


async def test_keys_typed_before_the_session_is_open_are_kept_and_sent_when_it_is() -> None:
    opener = Opener()
    opener.gate.clear()
    async with running(opener, opened=False) as (app, _):
        await type_in(app, "one")
        await type_in(app, "two")
        await press(app, *"dra")
        await until(lambda: "↳ one" in screen_text(app) and "↳ two" in screen_text(app))
        assert app.query_one(Composer).text == "dra" and opener.sessions == []
        opener.gate.set()
        await until(lambda: opener.sessions and opener.session.calls)
        assert opener.session.calls == [("prompt", "one\n\ntwo")]
        await until(lambda: "↳" not in screen_text(app))
        assert app.query_one(Composer).text == "dra"


async def test_a_prompt_of_the_command_line_is_sent_at_once() -> None:
    async with running(initial_prompt="do it") as (_, opener):
        await until(lambda: opener.session.calls)
        assert opener.session.calls == [("prompt", "do it")]


async def test_a_session_that_cannot_be_opened_is_told_and_enter_tries_again() -> None:
    opener = Opener()
    opener.error = OSError("no space left on [device]")
    async with running(opener, opened=False) as (app, _):
        await until(lambda: "no space left on [device]" in screen_text(app))
        opener.error = None
        await type_in(app, "hi")
        await until(lambda: opener.sessions and opener.session.calls)
        assert opener.session.calls == [("prompt", "hi")] and opener.targets == [Target(), Target()]


async def test_enter_while_it_works_steers_and_the_queue_is_shown_until_delivery() -> None:
    async with running() as (app, opener):
        await type_in(app, "go")
        await until(lambda: opener.session.running)
        await type_in(app, "use tabs")
        await until(lambda: ("steer", "use tabs") in opener.session.calls)
        await until(lambda: "↳ use tabs" in screen_text(app))
        opener.session.emit(QueueChanged(()))
        opener.session.emit(UserMessageAdded(5, "use tabs", steering=True))
        await until(lambda: "↳" not in screen_text(app) and "use tabs" in screen_text(app))


async def test_escape_interrupts_and_the_end_is_told() -> None:
    async with running() as (app, opener):
        await type_in(app, "g")
        await until(lambda: opener.session.running)
        await press(app, "escape")
        await until(lambda: "Interrupted." in screen_text(app))
        assert ("interrupt",) in opener.session.calls and not opener.session.running
        await press(app, "escape")
        assert opener.session.calls.count(("interrupt",)) == 1


async def test_after_an_interruption_it_is_told_what_becomes_of_what_waits() -> None:
    async with running() as (app, opener):
        await type_in(app, "g")
        await until(lambda: opener.session.running)
        opener.session.emit(QueueChanged(("use tabs",)))
        await press(app, "escape")
        await until(lambda: "Enter sends what waits" in screen_text(app))


async def test_enter_on_an_empty_composer_sends_what_an_interruption_left() -> None:
    async with running() as (app, opener):
        await press(app, "enter")  # nothing waits yet
        await type_in(app, "g")
        await until(lambda: opener.session.running)
        await type_in(app, "use tabs")
        await press(app, *"later", "alt+enter")
        await press(app, "enter")  # what waits is delivered by the turn
        await until(lambda: "⇥ later" in screen_text(app))
        await press(app, "escape")
        await until(lambda: "Enter sends what waits" in screen_text(app))
        await press(app, "alt+enter")
        assert [text for kind, text in (c for c in opener.session.calls if len(c) == 2) if kind == "prompt"] == ["g"]
        await press(app, "enter")
        await until(lambda: ("prompt", "use tabs") in opener.session.calls and "↳" not in screen_text(app))
        opener.session.end()
        await until(lambda: ("prompt", "later") in opener.session.calls and "⇥" not in screen_text(app))


async def test_enter_on_an_empty_composer_tries_again_to_open_the_session_that_messages_wait_for() -> None:
    opener = Opener()
    opener.error = OSError("no room")
    async with running(opener, opened=False) as (app, _):
        await until(lambda: "no room" in screen_text(app))
        opener.gate.clear()
        await type_in(app, "hello")
        opener.gate.set()
        await until(lambda: len(opener.targets) == 2 and screen_text(app).count("no room") == 2)
        opener.error = None
        await press(app, "enter")
        await until(lambda: opener.sessions and ("prompt", "hello") in opener.session.calls)


async def test_T67_ctrl_c_clears_first_and_leaves_when_pressed_twice() -> None:
    async with running() as (app, opener):
        await press(app, *"draft", "ctrl+c")
        assert app.query_one(Composer).text == "" and app.is_running
        await until(lambda: "Ctrl+C again leaves" in screen_text(app))
        await press(app, "up")
        assert app.query_one(Composer).text == "draft"
        await press(app, "ctrl+c")
        await until(lambda: not app.is_running)
        assert opener.session.closed and app.return_code == 0


async def test_T67_ctrl_c_interrupts_a_running_turn() -> None:
    async with running() as (app, opener):
        await type_in(app, "g")
        await until(lambda: opener.session.running)
        await press(app, "ctrl+c")
        await until(lambda: not opener.session.running)
        assert app.is_running


async def test_T67_a_single_ctrl_c_leaves_the_screen_as_it_was() -> None:
    async with running() as (app, opener):
        app.again_s = 0.1
        await press(app, "ctrl+c")
        await until(lambda: "Ctrl+C again leaves" in screen_text(app))
        await until(lambda: "Ctrl+C again leaves" not in screen_text(app))
        assert app.is_running and opener.session.calls == []


async def test_ctrl_c_copies_a_selection_instead() -> None:
    async with running() as (app, _):
        await press(app, *"word", "shift+home", "ctrl+c")
        assert app.clipboard == "word" and app.query_one(Composer).text == "word"


async def test_leaving_stops_the_turn_and_closes_the_session() -> None:
    async with running() as (app, opener):
        await type_in(app, "g")
        await until(lambda: opener.session.running)
        await type_in(app, "/quit")
        await until(lambda: not app.is_running)
        assert opener.session.calls[-2:] == [("interrupt",), ("close",)]


async def test_ctrl_d_leaves_only_when_the_text_is_empty() -> None:
    async with running() as (app, opener):
        await press(app, "a", "b", "home", "ctrl+d")
        assert app.query_one(Composer).text == "b" and app.is_running
        await press(app, "ctrl+d", "ctrl+d")
        await until(lambda: not app.is_running)
        assert opener.session.closed


async def test_shift_tab_goes_through_the_modes() -> None:
    async with running() as (app, opener):
        for mode in ("edits", "auto", "plan", "ask"):
            await press(app, "shift+tab")
            await until(partial(shows_mode, app, mode))
        assert [call[1] for call in opener.session.calls] == ["edits", "auto", "plan", "ask"]


async def test_the_gauge_moves_and_a_retry_is_counted_down() -> None:
    async with running() as (app, opener):
        await type_in(app, "g")
        await until(lambda: opener.session.running)
        opener.session.emit(GaugeChanged(96_400, False, 172_000, 200_000, 150_000, 1.5))
        opener.session.emit(TextStreamed("a partial reply"))
        await until(lambda: "96.4k/172k 56%" in screen_text(app) and "a partial reply" in screen_text(app))
        opener.session.emit(RetryScheduled("overloaded", 8.0, 2, 5))
        await until(lambda: "overloaded, next try in" in screen_text(app))
        await until(lambda: "a partial reply" not in screen_text(app))
        opener.session.emit(TextStreamed("whole"))
        await until(lambda: "whole" in screen_text(app) and "next try" not in screen_text(app))


async def test_tools_are_shown_with_their_state() -> None:
    async with running() as (app, opener):
        await type_in(app, "g")
        await until(lambda: opener.session.running)
        opener.session.emit(ToolStarted("c1", "read", "src/total.py"))
        await until(lambda: "src/total.py" in screen_text(app) and "running read" in screen_text(app))
        opener.session.emit(ToolFinished("c1", "read", 4, False, TextDetails("24 lines"), "text"))
        await until(lambda: "24 lines" in screen_text(app) and "running read" not in screen_text(app))
        await press(app, "ctrl+o", "pageup", "pagedown", "ctrl+home", "ctrl+end", "ctrl+l")
        assert app.is_running


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("max_turns", "limit of steps"),
        ("provider_error", "could not be reached"),
        ("context_full", "is full"),
        ("no_answer", "no answer"),
    ],
)
async def test_the_end_of_a_turn_says_why(reason: str, said: str) -> None:
    async with running() as (app, opener):
        await type_in(app, "g")
        await until(lambda: opener.session.running)
        opener.session.end(reason)  # type: ignore[arg-type] # each is a reason
        await until(lambda: said in screen_text(app))


async def test_a_compaction_is_shown_and_undone() -> None:
    async with running() as (app, opener):
        await type_in(app, "/compact the tests")
        await until(lambda: ("compact", "the tests") in opener.session.calls)
        await until(lambda: "Compacted 90.0k → 12.0k (by hand, $0.012)" in screen_text(app))
        await type_in(app, "/undo compact")
        await until(lambda: "The compaction counts no longer." in screen_text(app))
        opener.session.emit(CompactionStarted("manual", 5))
        await until(lambda: "compacting" in screen_text(app))
        opener.session.emit(CompactionFinished(None, 5, 5, "There is nothing to compact yet."))
        await until(lambda: "nothing to compact yet" in screen_text(app))
        assert "compacting" not in screen_text(app)


async def test_an_unknown_command_names_the_nearest_and_is_not_sent() -> None:
    async with running() as (app, opener):
        await type_in(app, "/cmpact")
        await until(lambda: "Did you mean /compact?" in screen_text(app))
        await type_in(app, "/zzzz")
        await until(lambda: "There is no command /zzzz." in screen_text(app))
        await type_in(app, "/mode fast")
        await until(lambda: "There is no mode fast." in screen_text(app))
        await type_in(app, "/mode")
        await until(lambda: "▸ ask " in screen_text(app) and "/mode MODE changes it" in screen_text(app))
        assert opener.session.calls == [], "asking for the mode changes none"


async def test_help_opens_with_f1_and_closes_with_escape() -> None:
    async with running() as (app, _):
        await press(app, "f1")
        await until(lambda: "Shift+Tab" in screen_text(app) and "Help" in screen_text(app))
        await press(app, "end")
        await until(lambda: "asks only for what leaves" in screen_text(app))
        await press(app, "escape")
        assert len(app.screen_stack) == 1 and app.focused is app.query_one(Composer)


async def test_the_model_picker_filters_and_takes_free_text() -> None:
    async def models() -> list[ModelChoice]:
        return [ModelChoice("scripted/demo", "8k"), ModelChoice("other/big[b]", "1M")]

    async with running(list_models=models) as (app, opener):
        await type_in(app, "/model")
        await until(lambda: "other/big[b]" in screen_text(app) and "8k · now" in screen_text(app))
        await type_in(app, "big")
        await until(lambda: ("model", "other/big[b]") in opener.session.calls)
        await until(lambda: "other/big[b]" in screen_text(app).splitlines()[-1])
        await type_in(app, "/model")
        await until(lambda: len(app.screen_stack) == 2)
        await until(lambda: app.screen.query_one(OptionList).option_count == 2)
        await type_in(app, "my/own")
        await until(lambda: ("model", "my/own") in opener.session.calls)
        await type_in(app, "/model none")
        await until(lambda: "no provider for none" in screen_text(app))


async def test_a_list_that_cannot_be_fetched_leaves_the_field_usable() -> None:
    async def models() -> list[ModelChoice]:
        raise OSError("[network] is down")

    async with running(list_models=models) as (app, opener):
        await type_in(app, "/model")
        await until(lambda: "[network] is down" in screen_text(app))
        assert app.screen.query_one(Input).has_focus
        await type_in(app, "a/b")
        await until(lambda: ("model", "a/b") in opener.session.calls)


async def test_resume_opens_the_chosen_session_with_its_past_and_closes_the_last() -> None:
    async def sessions() -> list[SessionSummary]:
        return [SessionSummary("one", "Fix [the] sum", "2 h ago", 12), SessionSummary("two", "", "yesterday")]

    past = (
        UserMessageAdded(1, "an old question"),
        MessageCompleted(2, (TextBlock("an old answer"),), Usage(), None, "end_turn"),
    )
    opener = Opener(past)
    async with running(opener, list_sessions=sessions) as (app, _):
        await type_in(app, "/resume")
        await until(lambda: "Fix [the] sum" in screen_text(app) and "(no title)" in screen_text(app))
        await press(app, "down", "enter")
        await until(lambda: len(opener.sessions) == 2 and app.current.session is opener.session)
        assert opener.targets == [Target(), Target("resume", "two")] and opener.sessions[0].closed
        await until(lambda: "an old question" in screen_text(app) and "an old answer" in screen_text(app))
        await type_in(app, "/resume two")
        await until(lambda: "open already" in screen_text(app))
        assert len(opener.sessions) == 2


async def test_new_begins_an_empty_session_and_the_old_one_says_nothing_more() -> None:
    async with running() as (app, opener):
        await type_in(app, "old words")
        await until(lambda: opener.session.running)
        await type_in(app, "/new")
        await until(lambda: len(opener.sessions) == 2 and app.current.session is opener.session)
        old = opener.sessions[0]
        assert old.closed and ("interrupt",) in old.calls
        old.emit(Notice("error", "from the grave"))
        await until(lambda: "old words" not in screen_text(app))
        opener.session.emit(Notice("info", "alive"))
        await until(lambda: "alive" in screen_text(app))
        assert "from the grave" not in screen_text(app)


async def test_a_turn_that_fails_unexpectedly_is_told_and_the_next_message_works() -> None:
    async with running() as (app, opener):
        session = opener.session
        asked: list[object] = []

        async def broken(message: object) -> TurnEnded:
            asked.append(message)
            raise RuntimeError("the [disk] is gone")

        session.prompt = broken  # type: ignore[method-assign] # the session of this test is the fake
        await type_in(app, "a")
        await until(lambda: "the [disk] is gone" in screen_text(app))
        await type_in(app, "b")
        await until(lambda: asked == ["a", "b"])


async def test_without_a_key_the_demo_is_one_key_away() -> None:
    async with running(opened=False, missing_key=NoKey("auth.json", "config.toml")) as (app, opener):
        await until(lambda: isinstance(app.screen, Dialog) and app.screen.is_drawn)
        assert "demo" in screen_text(app) and "Quit" in screen_text(app)
        await press(app, "d", "escape")
        assert opener.targets == []
        await late_key(app, "d")
        await until(lambda: opener.targets == [Target("demo")])
        await until(lambda: len(app.screen_stack) == 1)


async def test_without_a_key_it_can_be_left() -> None:
    async with running(opened=False, missing_key=NoKey("a", "b")) as (app, _):
        await until(lambda: isinstance(app.screen, Dialog) and app.screen.is_drawn)
        await late_key(app, "q")
        await until(lambda: not app.is_running)


async def test_messages_during_a_compaction_wait_for_its_end() -> None:
    async with running() as (app, opener):
        session, gate = opener.session, asyncio.Event()

        async def slow(focus: str = "", span: object = None) -> CompactionFinished:
            session.emit(CompactionStarted("manual", 9))
            await gate.wait()
            done = CompactionFinished(3, 9, 4)
            session.emit(done)
            return done

        session.compact = slow  # type: ignore[method-assign] # the session of this test is the fake
        await type_in(app, "/compact")
        await until(lambda: "compacting" in screen_text(app))
        await type_in(app, "next")
        await until(lambda: "↳ next" in screen_text(app))
        assert session.calls == []
        gate.set()
        await until(lambda: session.calls == [("prompt", "next")])


async def test_escape_cancels_a_compaction() -> None:
    async with running() as (app, opener):
        session, cancelled = opener.session, asyncio.Event()

        async def slow(focus: str = "", span: object = None) -> CompactionFinished:
            session.emit(CompactionStarted("manual", 9))
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
                session.emit(CompactionFinished(None, 9, 9, "Cancelled; nothing was changed."))
            raise AssertionError

        session.compact = slow  # type: ignore[method-assign] # the session of this test is the fake
        await type_in(app, "/compact")
        await until(lambda: "compacting" in screen_text(app))
        await press(app, "escape")
        await until(cancelled.is_set)
        await until(lambda: "nothing was changed" in screen_text(app))

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
from tests.tui.harness import late_key, running, screen_text, type_in, until
from tui.app import ClawApp
from tui.bridge import ModelChoice, NoKey, SessionSummary, Target
from tui.widgets.composer import Composer


def shows_mode(app: ClawApp, mode: str) -> bool:
    return f" {mode} " in screen_text(app).splitlines()[-1]


async def test_a_message_is_sent_shown_once_and_its_reply_streams() -> None:
    async with running() as (pilot, app, opener):
        await type_in(pilot, app, "fix it")
        await until(pilot, lambda: opener.session.calls == [("prompt", "fix it")])
        await until(pilot, lambda: "waiting for demo" in screen_text(app))
        assert screen_text(app).count("fix it") == 1
        opener.session.emit(TextStreamed("I will "))
        opener.session.emit(TextStreamed("look."))
        await until(pilot, lambda: "I will look." in screen_text(app))
        assert "writing" in screen_text(app) and "Esc interrupts" in screen_text(app)
        opener.session.end()
        await until(pilot, lambda: "writing" not in screen_text(app))


async def test_keys_typed_before_the_session_is_open_are_kept_and_sent_when_it_is() -> None:
    opener = Opener()
    opener.gate.clear()
    async with running(opener, opened=False) as (pilot, app, _):
        await type_in(pilot, app, "one")
        await type_in(pilot, app, "two")
        await pilot.press(*"dra")
        await until(pilot, lambda: "↳ one" in screen_text(app) and "↳ two" in screen_text(app))
        assert app.query_one(Composer).text == "dra" and opener.sessions == []
        opener.gate.set()
        await until(pilot, lambda: opener.sessions and opener.session.calls)
        assert opener.session.calls == [("prompt", "one\n\ntwo")]
        await until(pilot, lambda: "↳" not in screen_text(app))
        assert app.query_one(Composer).text == "dra"


async def test_a_prompt_of_the_command_line_is_sent_at_once() -> None:
    async with running(initial_prompt="do it") as (pilot, _, opener):
        await until(pilot, lambda: opener.session.calls)
        assert opener.session.calls == [("prompt", "do it")]


async def test_a_session_that_cannot_be_opened_is_told_and_enter_tries_again() -> None:
    opener = Opener()
    opener.error = OSError("no space left on [device]")
    async with running(opener, opened=False) as (pilot, app, _):
        await until(pilot, lambda: "no space left on [device]" in screen_text(app))
        opener.error = None
        await type_in(pilot, app, "hi")
        await until(pilot, lambda: opener.sessions and opener.session.calls)
        assert opener.session.calls == [("prompt", "hi")] and opener.targets == [Target(), Target()]


async def test_enter_while_it_works_steers_and_the_queue_is_shown_until_delivery() -> None:
    async with running() as (pilot, app, opener):
        await type_in(pilot, app, "go")
        await until(pilot, lambda: opener.session.running)
        await type_in(pilot, app, "use tabs")
        await until(pilot, lambda: ("steer", "use tabs") in opener.session.calls)
        await until(pilot, lambda: "↳ use tabs" in screen_text(app))
        opener.session.emit(QueueChanged(()))
        opener.session.emit(UserMessageAdded(5, "use tabs", steering=True))
        await until(pilot, lambda: "↳" not in screen_text(app) and "use tabs" in screen_text(app))


async def test_escape_interrupts_and_the_end_is_told() -> None:
    async with running() as (pilot, app, opener):
        await type_in(pilot, app, "g")
        await until(pilot, lambda: opener.session.running)
        await pilot.press("escape")
        await until(pilot, lambda: "Interrupted." in screen_text(app))
        assert ("interrupt",) in opener.session.calls and not opener.session.running
        await pilot.press("escape")
        assert opener.session.calls.count(("interrupt",)) == 1


async def test_T67_ctrl_c_clears_first_and_leaves_when_pressed_twice() -> None:
    async with running() as (pilot, app, opener):
        await pilot.press(*"draft", "ctrl+c")
        assert app.query_one(Composer).text == "" and app.is_running
        await until(pilot, lambda: "Ctrl+C again leaves" in screen_text(app))
        await pilot.press("up")
        assert app.query_one(Composer).text == "draft"
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not app.is_running)
        assert opener.session.closed and app.return_code == 0


async def test_T67_ctrl_c_interrupts_a_running_turn() -> None:
    async with running() as (pilot, app, opener):
        await type_in(pilot, app, "g")
        await until(pilot, lambda: opener.session.running)
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not opener.session.running)
        assert app.is_running


async def test_T67_a_single_ctrl_c_leaves_the_screen_as_it_was() -> None:
    async with running() as (pilot, app, opener):
        await pilot.press("ctrl+c")
        await until(pilot, lambda: "Ctrl+C again leaves" in screen_text(app))
        await until(pilot, lambda: "Ctrl+C again leaves" not in screen_text(app))
        assert app.is_running and opener.session.calls == []


async def test_ctrl_c_copies_a_selection_instead() -> None:
    async with running() as (pilot, app, _):
        await pilot.press(*"word", "shift+home", "ctrl+c")
        assert app.clipboard == "word" and app.query_one(Composer).text == "word"


async def test_leaving_stops_the_turn_and_closes_the_session() -> None:
    async with running() as (pilot, app, opener):
        await type_in(pilot, app, "g")
        await until(pilot, lambda: opener.session.running)
        await type_in(pilot, app, "/quit")
        await until(pilot, lambda: not app.is_running)
        assert opener.session.calls[-2:] == [("interrupt",), ("close",)]


async def test_ctrl_d_leaves_only_when_the_text_is_empty() -> None:
    async with running() as (pilot, app, opener):
        await pilot.press("a", "b", "home", "ctrl+d")
        assert app.query_one(Composer).text == "b" and app.is_running
        await pilot.press("ctrl+d", "ctrl+d")
        await until(pilot, lambda: not app.is_running)
        assert opener.session.closed


async def test_shift_tab_goes_through_the_modes() -> None:
    async with running() as (pilot, app, opener):
        for mode in ("edits", "auto", "plan", "ask"):
            await pilot.press("shift+tab")
            await until(pilot, partial(shows_mode, app, mode))
        assert [call[1] for call in opener.session.calls] == ["edits", "auto", "plan", "ask"]


async def test_the_gauge_moves_and_a_retry_is_counted_down() -> None:
    async with running() as (pilot, app, opener):
        await type_in(pilot, app, "g")
        await until(pilot, lambda: opener.session.running)
        opener.session.emit(GaugeChanged(96_400, False, 172_000, 200_000, 150_000, 1.5))
        opener.session.emit(TextStreamed("a partial reply"))
        await until(pilot, lambda: "96.4k/172k 56%" in screen_text(app) and "a partial reply" in screen_text(app))
        opener.session.emit(RetryScheduled("overloaded", 8.0, 2, 5))
        await until(pilot, lambda: "overloaded, next try in" in screen_text(app))
        await until(pilot, lambda: "a partial reply" not in screen_text(app))
        opener.session.emit(TextStreamed("whole"))
        await until(pilot, lambda: "whole" in screen_text(app) and "next try" not in screen_text(app))


async def test_tools_are_shown_with_their_state() -> None:
    async with running() as (pilot, app, opener):
        await type_in(pilot, app, "g")
        await until(pilot, lambda: opener.session.running)
        opener.session.emit(ToolStarted("c1", "read", "src/total.py"))
        await until(pilot, lambda: "src/total.py" in screen_text(app) and "running read" in screen_text(app))
        opener.session.emit(ToolFinished("c1", "read", 4, False, TextDetails("24 lines"), "text"))
        await until(pilot, lambda: "24 lines" in screen_text(app) and "running read" not in screen_text(app))
        await pilot.press("ctrl+o", "pageup", "pagedown", "ctrl+home", "ctrl+end", "ctrl+l")
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
    async with running() as (pilot, app, opener):
        await type_in(pilot, app, "g")
        await until(pilot, lambda: opener.session.running)
        opener.session.end(reason)  # type: ignore[arg-type] # each is a reason
        await until(pilot, lambda: said in screen_text(app))


async def test_a_compaction_is_shown_and_undone() -> None:
    async with running() as (pilot, app, opener):
        await type_in(pilot, app, "/compact the tests")
        await until(pilot, lambda: ("compact", "the tests") in opener.session.calls)
        await until(pilot, lambda: "Compacted 90.0k to 12.0k tokens" in screen_text(app))
        await type_in(pilot, app, "/undo compact")
        await until(pilot, lambda: "The compaction counts no longer." in screen_text(app))
        opener.session.emit(CompactionStarted("manual", 5))
        await until(pilot, lambda: "compacting" in screen_text(app))
        opener.session.emit(CompactionFinished(None, 5, 5, "There is nothing to compact yet."))
        await until(pilot, lambda: "nothing to compact yet" in screen_text(app))
        assert "compacting" not in screen_text(app)


async def test_an_unknown_command_names_the_nearest_and_is_not_sent() -> None:
    async with running() as (pilot, app, opener):
        await type_in(pilot, app, "/cmpact")
        await until(pilot, lambda: "Did you mean /compact?" in screen_text(app))
        await type_in(pilot, app, "/zzzz")
        await until(pilot, lambda: "There is no command /zzzz." in screen_text(app))
        await type_in(pilot, app, "/mode fast")
        await until(pilot, lambda: "There is no mode fast." in screen_text(app))
        assert opener.session.calls == []


async def test_help_opens_with_f1_and_closes_with_escape() -> None:
    async with running() as (pilot, app, _):
        await pilot.press("f1")
        await until(pilot, lambda: "Shift+Tab" in screen_text(app) and "Help" in screen_text(app))
        await pilot.press("end")
        await until(pilot, lambda: "asks only for what leaves" in screen_text(app))
        await pilot.press("escape")
        assert len(app.screen_stack) == 1 and app.focused is app.query_one(Composer)


async def test_context_shows_the_parts_of_the_window() -> None:
    async with running() as (pilot, app, _):
        await type_in(pilot, app, "/context")
        await until(pilot, lambda: "≈1,200 of 172,000 tokens used (1%)" in screen_text(app))
        assert "12,000  83%  messages" in screen_text(app)


async def test_the_model_picker_filters_and_takes_free_text() -> None:
    async def models() -> list[ModelChoice]:
        return [ModelChoice("scripted/demo", "8k"), ModelChoice("other/big[b]", "1M")]

    async with running(list_models=models) as (pilot, app, opener):
        await type_in(pilot, app, "/model")
        await until(pilot, lambda: "other/big[b]" in screen_text(app) and "8k · now" in screen_text(app))
        await type_in(pilot, app, "big")
        await until(pilot, lambda: ("model", "other/big[b]") in opener.session.calls)
        await until(pilot, lambda: "other/big[b]" in screen_text(app).splitlines()[-1])
        await type_in(pilot, app, "/model")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        await until(pilot, lambda: app.screen.query_one(OptionList).option_count == 2)
        await type_in(pilot, app, "my/own")
        await until(pilot, lambda: ("model", "my/own") in opener.session.calls)
        await type_in(pilot, app, "/model none")
        await until(pilot, lambda: "no provider for none" in screen_text(app))


async def test_a_list_that_cannot_be_fetched_leaves_the_field_usable() -> None:
    async def models() -> list[ModelChoice]:
        raise OSError("[network] is down")

    async with running(list_models=models) as (pilot, app, opener):
        await type_in(pilot, app, "/model")
        await until(pilot, lambda: "[network] is down" in screen_text(app))
        assert app.screen.query_one(Input).has_focus
        await type_in(pilot, app, "a/b")
        await until(pilot, lambda: ("model", "a/b") in opener.session.calls)


async def test_resume_opens_the_chosen_session_with_its_past_and_closes_the_last() -> None:
    async def sessions() -> list[SessionSummary]:
        return [SessionSummary("one", "Fix [the] sum", "2 h ago", 12), SessionSummary("two", "", "yesterday")]

    past = (
        UserMessageAdded(1, "an old question"),
        MessageCompleted(2, (TextBlock("an old answer"),), Usage(), None, "end_turn"),
    )
    opener = Opener(past)
    async with running(opener, list_sessions=sessions) as (pilot, app, _):
        await type_in(pilot, app, "/resume")
        await until(pilot, lambda: "Fix [the] sum" in screen_text(app) and "(no title)" in screen_text(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: len(opener.sessions) == 2 and app.current.session is opener.session)
        assert opener.targets == [Target(), Target("resume", "two")] and opener.sessions[0].closed
        await until(pilot, lambda: "an old question" in screen_text(app) and "an old answer" in screen_text(app))
        await type_in(pilot, app, "/resume two")
        await until(pilot, lambda: "open already" in screen_text(app))
        assert len(opener.sessions) == 2


async def test_new_begins_an_empty_session_and_the_old_one_says_nothing_more() -> None:
    async with running() as (pilot, app, opener):
        await type_in(pilot, app, "old words")
        await until(pilot, lambda: opener.session.running)
        await type_in(pilot, app, "/new")
        await until(pilot, lambda: len(opener.sessions) == 2 and app.current.session is opener.session)
        old = opener.sessions[0]
        assert old.closed and ("interrupt",) in old.calls
        old.emit(Notice("error", "from the grave"))
        await until(pilot, lambda: "old words" not in screen_text(app))
        opener.session.emit(Notice("info", "alive"))
        await until(pilot, lambda: "alive" in screen_text(app))
        assert "from the grave" not in screen_text(app)


async def test_a_turn_that_fails_unexpectedly_is_told_and_the_next_message_works() -> None:
    async with running() as (pilot, app, opener):
        session = opener.session
        asked: list[str] = []

        async def broken(text: str) -> TurnEnded:
            asked.append(text)
            raise RuntimeError("the [disk] is gone")

        session.prompt = broken  # type: ignore[method-assign] # the session of this test is the fake
        await type_in(pilot, app, "a")
        await until(pilot, lambda: "the [disk] is gone" in screen_text(app))
        await type_in(pilot, app, "b")
        await until(pilot, lambda: asked == ["a", "b"])


async def test_no_key_shows_what_to_set_and_the_demo_is_one_key_away() -> None:
    missing = NoKey("~/.local/share/claw/auth.json", "~/.config/claw/config.toml")
    async with running(opened=False, missing_key=missing) as (pilot, app, opener):
        await until(pilot, lambda: "ANTHROPIC_API_KEY" in screen_text(app))
        text = screen_text(app)
        for part in ("OPENAI_API_KEY", "auth.json", "config.toml", "base_url", "demo", "quit"):
            assert part in text
        await pilot.press("d")
        await pilot.press("escape")
        assert opener.targets == []
        await late_key(app, "d")
        await until(pilot, lambda: opener.targets == [Target("demo")])
        await until(pilot, lambda: len(app.screen_stack) == 1)


async def test_no_key_can_be_left() -> None:
    async with running(opened=False, missing_key=NoKey("a", "b")) as (pilot, app, _):
        await until(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.pause()
        await late_key(app, "q")
        await until(pilot, lambda: not app.is_running)


async def test_messages_during_a_compaction_wait_for_its_end() -> None:
    async with running() as (pilot, app, opener):
        session, gate = opener.session, asyncio.Event()

        async def slow(focus: str = "") -> CompactionFinished:
            session.emit(CompactionStarted("manual", 9))
            await gate.wait()
            done = CompactionFinished(3, 9, 4)
            session.emit(done)
            return done

        session.compact = slow  # type: ignore[method-assign] # the session of this test is the fake
        await type_in(pilot, app, "/compact")
        await until(pilot, lambda: "compacting" in screen_text(app))
        await type_in(pilot, app, "next")
        await until(pilot, lambda: "↳ next" in screen_text(app))
        assert session.calls == []
        gate.set()
        await until(pilot, lambda: session.calls == [("prompt", "next")])


async def test_escape_cancels_a_compaction() -> None:
    async with running() as (pilot, app, opener):
        session, cancelled = opener.session, asyncio.Event()

        async def slow(focus: str = "") -> CompactionFinished:
            session.emit(CompactionStarted("manual", 9))
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
                session.emit(CompactionFinished(None, 9, 9, "Cancelled; nothing was changed."))
            raise AssertionError

        session.compact = slow  # type: ignore[method-assign] # the session of this test is the fake
        await type_in(pilot, app, "/compact")
        await until(pilot, lambda: "compacting" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, cancelled.is_set)
        await until(pilot, lambda: "nothing was changed" in screen_text(app))

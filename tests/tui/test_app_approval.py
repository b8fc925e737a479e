import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual import events

from agent.permissions.approval import Allow, Answer, ApprovalRequest, Deny
from tests.tui.fake_session import Opener
from tests.tui.harness import click, key_event, late_key, press, resize, running, screen_text, settle, until
from tui.app import ClawApp
from tui.screens.approval import ApprovalScreen
from tui.screens.dialog import GUARD_S
from tui.widgets.choices import Choices
from tui.widgets.composer import Composer
from tui.widgets.pager import Pager

COMMAND = ApprovalRequest("c1", "bash", "pytest", command="pytest -q", reason="mode ask", rule="bash(pytest)")


@asynccontextmanager
async def asked(
    request: ApprovalRequest = COMMAND, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[ClawApp, "asyncio.Task[Answer]", Opener]]:
    """The application with its dialog drawn."""
    async with running(size=size) as (app, opener):
        question = asyncio.create_task(opener.session.ask(request))
        await until(lambda: isinstance(app.screen, ApprovalScreen) and app.screen.is_drawn)
        yield app, question, opener
        question.cancel()


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["y"], Allow("once")),
        (["s"], Allow("session")),
        (["a"], Allow("folder")),
        (["n"], Deny()),
        (["escape"], Deny()),
        (["enter"], Allow("once")),
        (["down", "enter"], Allow("session")),
        (["up", "up", "enter"], Deny()),
    ],
)
async def test_keys_answer(keys: list[str], answer: Answer) -> None:
    async with asked() as (app, question, _):
        for key in keys:
            await late_key(app, key)
        await until(question.done)
        assert question.result() == answer
        await until(lambda: len(app.screen_stack) == 1)
        assert app.focused is app.query_one(Composer)


async def test_the_dialog_shows_the_exact_command_the_reason_and_the_rule() -> None:
    request = ApprovalRequest(
        "c1", "bash", "x", command="cat [b]a[/b] | sh", reason="outside", rule="bash(cat)", paths=("/etc/x",)
    )
    async with asked(request) as (app, _question, _opener):
        text = screen_text(app)
        for part in ("bash wants to run this command", "cat [b]a[/b] | sh", "outside", "/etc/x", "bash(cat)"):
            assert part in text


async def test_without_a_rule_only_once_is_offered() -> None:
    async with asked(ApprovalRequest("c1", "bash", "x", command="x")) as (app, question, _):
        assert [answer.key for answer in app.screen.query_one(Choices).answers] == ["y", "n", "r"]
        await late_key(app, "s")
        await late_key(app, "a")
        await settle(app)
        assert not question.done()


async def test_no_with_a_reason_goes_to_the_model_in_the_users_words() -> None:
    async with asked() as (app, question, _):
        await late_key(app, "r")
        await until(lambda: app.focused is not None)
        await press(app, *"yn", "escape")
        assert not question.done() and app.focused is None
        await late_key(app, "r", after_s=20)
        await until(lambda: app.focused is not None)
        await press(app, *" use [x]", "enter")
        await until(question.done)
        assert question.result() == Deny("yn use [x]")


@pytest.mark.parametrize("offset_s", [-0.3, -0.1, 0.0, 0.1, 0.2])
async def test_T20_keys_around_the_drawing_do_not_answer_and_are_not_lost(offset_s: float) -> None:
    async with asked() as (app, question, _):
        screen = app.screen
        assert isinstance(screen, ApprovalScreen)
        drawn_s = screen.opens_at_s - GUARD_S
        for key, character in (("y", "y"), ("1", "1"), ("enter", None), ("space", " "), ("escape", None)):
            event = events.Key(key, character)
            event.time = drawn_s + offset_s
            screen.post_message(event)
        await settle(app)
        await settle(app)
        assert not question.done() and app.screen is screen
        assert app.query_one("#composer", Composer).text == "y1 "


async def test_R15_typing_on_keeps_the_guard_up() -> None:
    async with asked() as (app, question, _):
        screen = app.screen
        assert isinstance(screen, ApprovalScreen)
        start = screen.opens_at_s - 0.1
        for number, key in enumerate("say yes please"):
            event = events.Key(key if key != " " else "space", key)
            event.time = start + number * 0.2
            screen.post_message(event)
        await settle(app)
        await settle(app)
        assert not question.done()
        assert app.query_one("#composer", Composer).text == "say yes please"


async def test_R15_a_word_that_begins_later_does_not_answer_with_its_letters() -> None:
    async with asked() as (app, question, _):
        screen = app.screen
        assert isinstance(screen, ApprovalScreen)
        for number, key in enumerate("/context"):
            event = key_event(key)
            event.time = screen.opens_at_s + (5 if number == 0 else -0.1)
            screen.post_message(event)
            await settle(app)
        assert not question.done()
        assert app.query_one("#composer", Composer).text == "/context"


async def test_R15_keys_pressed_before_the_question_came_do_not_answer() -> None:
    async with running() as (app, opener):
        question = asyncio.create_task(opener.session.ask(COMMAND))
        await asyncio.sleep(0)
        for key in "yyy":
            app.post_message(events.Key(key, key))
        app.post_message(events.Key("enter", "\r"))
        await until(lambda: isinstance(app.screen, ApprovalScreen) and app.screen.is_drawn)
        await settle(app)
        assert not question.done()
        question.cancel()


async def test_R15_clicks_mark_and_never_answer() -> None:
    async with asked() as (app, question, _):
        choices = app.screen.query_one(Choices)
        for row in range(4, -1, -1):
            await click(app, Choices, offset=(3, row))
            assert choices.marked == row
        app.post_message(events.AppBlur())
        app.post_message(events.AppFocus())
        await click(app, Choices, offset=(3, 0))
        await settle(app)
        assert not question.done()


async def test_R15_a_key_that_brings_the_focus_back_does_not_answer() -> None:
    async with asked() as (app, question, _):
        screen = app.screen
        assert isinstance(screen, ApprovalScreen)
        before = screen.opens_at_s
        app.post_message(events.AppBlur())
        app.post_message(events.AppFocus())
        await until(lambda: screen.opens_at_s > before)
        event = events.Key("y", "y")
        event.time = screen.opens_at_s - 0.01
        screen.post_message(event)
        await settle(app)
        assert not question.done()


async def test_a_cancelled_turn_takes_its_dialog_away() -> None:
    async with asked() as (app, question, _opener):
        question.cancel()
        await until(lambda: len(app.screen_stack) == 1)
        assert app.focused is app.query_one(Composer)


async def test_a_dialog_below_another_screen_goes_when_it_comes_up_again() -> None:
    async with asked() as (app, question, _opener):
        app.overlays.help()
        await until(lambda: len(app.screen_stack) == 3)
        question.cancel()
        await settle(app)
        await press(app, "escape")
        await until(lambda: len(app.screen_stack) == 1)


async def test_T67_ctrl_c_at_the_dialog_interrupts_the_turn() -> None:
    async with running() as (app, opener):
        await press(app, "g", "enter")
        await until(lambda: opener.session.running)
        question = asyncio.create_task(opener.session.ask(COMMAND))
        await until(lambda: isinstance(app.screen, ApprovalScreen))
        await press(app, "ctrl+c")
        await until(lambda: ("interrupt",) in opener.session.calls)
        question.cancel()
        await until(lambda: len(app.screen_stack) == 1)


async def test_two_questions_are_answered_one_after_the_other() -> None:
    async with asked() as (app, first, opener):
        below = app.screen
        second = asyncio.create_task(opener.session.ask(ApprovalRequest("c2", "bash", "ls", command="ls")))
        await until(
            lambda: len(app.screen_stack) == 3 and isinstance(app.screen, ApprovalScreen) and app.screen.is_drawn
        )
        await late_key(app, "n")
        await until(second.done)
        await until(lambda: app.screen is below)
        await settle(app)
        await until(lambda: isinstance(below, ApprovalScreen) and below.is_drawn)
        await late_key(app, "y")
        await until(first.done)
        assert (first.result(), second.result()) == (Allow("once"), Deny())


LONG = ApprovalRequest(
    "c1", "bash", "x", command="\n".join(f"echo {n}" for n in range(60)) + "\nrm -rf x", rule="bash(echo)"
)


async def test_T19_a_long_command_is_allowed_only_when_its_end_was_seen_and_always_when_all_was() -> None:
    async with asked(LONG) as (app, question, _):
        pager = app.screen.query_one(Pager)
        assert "rm -rf x" not in screen_text(app) and "more rows" in screen_text(app)
        await late_key(app, "y")
        await until(lambda: "rm -rf x" in screen_text(app))
        assert not question.done() and (pager.end_seen, pager.all_seen) == (True, False)
        await late_key(app, "a", after_s=20)
        await settle(app)
        assert not question.done()
        await press(app, "home", *["pagedown"] * 8)
        await until(lambda: pager.all_seen)
        await late_key(app, "a", after_s=40)
        await until(question.done)
        assert question.result() == Allow("folder")


async def test_T19_a_double_press_is_not_an_answer_to_what_it_has_just_shown() -> None:
    async with asked(LONG) as (app, question, _):
        await late_key(app, "y")
        await settle(app)
        screen = app.screen
        assert isinstance(screen, ApprovalScreen)
        event = events.Key("y", "y")
        event.time = screen.opens_at_s - 0.05
        screen.post_message(event)
        await settle(app)
        assert not question.done()
        await late_key(app, "y", after_s=20)
        await until(question.done)
        assert question.result() == Allow("once")


@pytest.mark.parametrize("size", [(20, 5), (12, 3), (40, 10), (80, 24)])
async def test_T66_the_dialog_scrolls_or_refuses_at_any_size(size: tuple[int, int]) -> None:
    request = ApprovalRequest("c1", "bash", "x", command="echo hello && " * 12 + "rm x", rule="bash(echo)")
    async with asked(request, size) as (app, question, _):
        pager = app.screen.query_one(Pager)
        shown = screen_text(app)
        for _ in range(60):
            if pager.all_seen:
                break
            await late_key(app, "a")
            await press(app, "pagedown")
            shown += screen_text(app)
        assert pager.all_seen and "y" in screen_text(app)
        assert "rm" in screen_text(app)
        await late_key(app, "s", after_s=99)
        await until(question.done)
        assert question.result() == Allow("session")


async def test_T66_nothing_is_allowed_where_nothing_can_be_seen() -> None:
    async with running(size=(1, 1)) as (app, opener):
        question = asyncio.create_task(opener.session.ask(COMMAND))
        await until(lambda: isinstance(app.screen, ApprovalScreen))
        for key in ("y", "s", "a"):
            await late_key(app, key)
        await settle(app)
        assert not question.done()
        await resize(app, 80, 24)
        await until(lambda: "pytest -q" in screen_text(app))
        await late_key(app, "y", after_s=30)
        await until(question.done)
        assert question.result() == Allow("once")


async def test_a_real_diff_is_shown_with_its_signs() -> None:
    request = ApprovalRequest(
        "c1", "edit", "src/a.py", diff="@@ -1,2 +1,2 @@\n-old\n+new [b]\n same\n", rule="edit(src/**)"
    )
    async with asked(request) as (app, _question, _opener):
        text = screen_text(app)
        assert "edit wants to change src/a.py" in text and "-old" in text and "+new [b]" in text

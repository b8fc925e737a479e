import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent.fitting import CompactionCost
from agent.instructions.item import Include, InstructionItem
from tests.tui.fake_session import Opener
from tests.tui.harness import click, key_event, late_key, press, running, screen_text, settle, type_in, until
from tui.app import ClawApp
from tui.bridge import IncludeQuestion, SessionControls
from tui.questions import ask_include
from tui.screens.confirm import ConfirmScreen
from tui.screens.dialog import GUARD_S
from tui.screens.include_consent import IncludeConsentScreen, include_questions
from tui.screens.question import Question
from tui.widgets.choices import Choices
from tui.widgets.composer import Composer

COST = CompactionCost(84, 2_900_000, 1_900, 8.42, "The conversation is too long for [b]this[/b] model.")
INCLUDE = IncludeQuestion("/home/me/\x1b[31mshared/style.md", "/project/AGENTS.md", 12, "~/shared/style.md")

Ask = Callable[[ClawApp, Opener], Awaitable[Any]]


async def ask_cost(app: ClawApp, opener: Opener) -> bool:
    assert opener.session.confirm is not None
    return await opener.session.confirm(COST)


async def ask_file(app: ClawApp, opener: Opener) -> bool | None:
    return await ask_include(app.post_message, INCLUDE)


def is_drawn(app: ClawApp) -> bool:
    return isinstance(app.screen, Question) and app.screen.is_drawn


@asynccontextmanager
async def asked(ask: Ask, size: tuple[int, int] = (80, 24)) -> AsyncIterator[tuple[ClawApp, "asyncio.Task[Any]"]]:
    """The application with the dialog drawn."""
    async with running(size=size) as (app, opener):
        question = asyncio.ensure_future(ask(app, opener))
        await until(lambda: is_drawn(app))
        yield app, question
        question.cancel()


async def test_what_it_takes_is_said_before_it_begins() -> None:
    async with asked(ask_cost) as (app, _):
        text = screen_text(app)
        for part in ("84 calls", "2,900,000 tokens", "31 m 40 s", "$8.42", "[b]this[/b]", "y", "n"):
            assert part in text
        assert isinstance(app.screen, ConfirmScreen)


async def test_the_file_that_includes_and_its_line_are_named_and_nothing_is_hidden() -> None:
    async with asked(ask_file) as (app, _):
        text = screen_text(app)
        for part in (
            "/home/me/␛[31mshared/style.md",
            "line 12",
            "/project/AGENTS.md",
            "@~/shared/style.md",
            "y",
            "n",
            "Esc",
        ):
            assert part in text
        assert isinstance(app.screen, IncludeConsentScreen)


@pytest.mark.parametrize(
    ("ask", "keys", "answer"),
    [
        (ask_cost, ["y"], True), (ask_cost, ["n"], False), (ask_cost, ["enter"], False), (ask_cost, ["escape"], False),
        (ask_cost, ["up", "enter"], True), (ask_cost, ["ctrl+c"], False),
        (ask_file, ["y"], True), (ask_file, ["n"], False), (ask_file, ["enter"], False), (ask_file, ["escape"], None),
        (ask_file, ["up", "enter"], True), (ask_file, ["ctrl+c"], None),
    ],
)  # fmt: skip
async def test_no_is_the_default_and_only_a_meant_yes_is_one(ask: Ask, keys: list[str], answer: bool | None) -> None:
    async with asked(ask) as (app, question):
        for key in keys:
            await (press(app, key) if key == "ctrl+c" else late_key(app, key))
        await until(question.done)
        assert question.result() is answer
        await until(lambda: len(app.screen_stack) == 1)
        assert app.focused is app.query_one(Composer)


@pytest.mark.parametrize("ask", [ask_cost, ask_file])
@pytest.mark.parametrize("ahead_s", [-0.3, 0.0, 0.2])
async def test_T20_typed_ahead_keys_do_not_confirm_and_are_not_lost(ask: Ask, ahead_s: float) -> None:
    async with asked(ask) as (app, question):
        screen = app.screen
        assert isinstance(screen, Question)
        start = screen.opens_at_s - GUARD_S + ahead_s
        for key in ("y", "enter", "escape"):
            event = key_event(key)
            event.time = start
            screen.post_message(event)
        await settle(app)
        await settle(app)
        assert not question.done() and app.screen is screen
        assert app.query_one("#composer", Composer).text == "y"


@pytest.mark.parametrize("ask", [ask_cost, ask_file])
async def test_R15_a_word_with_a_y_in_it_and_a_click_confirm_nothing(ask: Ask) -> None:
    async with asked(ask) as (app, question):
        screen = app.screen
        assert isinstance(screen, Question)
        for number, key in enumerate("why yes"):
            event = key_event(key)
            event.time = screen.opens_at_s + (5 if number == 0 else -0.1)
            screen.post_message(event)
            await settle(app)
        await click(app, Choices, offset=(3, 0))
        assert not question.done()
        assert app.query_one("#composer", Composer).text == "why yes"


@pytest.mark.parametrize("ask", [ask_cost, ask_file])
async def test_a_question_that_is_taken_back_closes_its_dialog(ask: Ask) -> None:
    async with asked(ask) as (app, question):
        question.cancel()
        await until(lambda: len(app.screen_stack) == 1)


@pytest.mark.parametrize("ask", [ask_cost, ask_file])
@pytest.mark.parametrize("size", [(12, 3), (20, 5), (40, 10)])
async def test_T66_yes_waits_until_the_end_was_seen(ask: Ask, size: tuple[int, int]) -> None:
    async with asked(ask, size) as (app, question):
        await late_key(app, "y")
        await settle(app)
        assert not question.done()
        for number in range(40):
            if question.done():
                break
            await late_key(app, "y", 20 + 10 * number)
        assert question.result() is True


# --------------------------------------------------------------------------- includes, when a session opens


def items() -> tuple[InstructionItem, ...]:
    nested = Include("more.md", 3, "/home/me/more.md", "asks")
    return (
        InstructionItem("/project/AGENTS.md", "project", "in the project", includes=(
            Include("~/style.md", 12, "/home/me/style.md", "asks"),
            Include("docs/a.md", 14, "/project/docs/a.md", "followed", includes=(nested,)),
            Include("~/no.md", 15, "/home/me/no.md", "refused"),
        )),
        InstructionItem("/project/CLAUDE.md", "project", "in the project", includes=(
            Include("~/style.md", 1, "/home/me/style.md", "asks"),
        )),
    )  # fmt: skip


def test_each_target_is_asked_for_once_with_the_line_that_names_it_first() -> None:
    assert include_questions(items()) == (
        IncludeQuestion("/home/me/style.md", "/project/AGENTS.md", 12, "~/style.md"),
        IncludeQuestion("/home/me/more.md", "/project/docs/a.md", 3, "more.md"),
    )


@pytest.mark.parametrize(
    ("answers", "kept", "reloads"),
    [
        (["y", "n"], [("/home/me/style.md", True), ("/home/me/more.md", False)], True),
        (["n", "n"], [("/home/me/style.md", False), ("/home/me/more.md", False)], False),
        (["escape", "y"], [("/home/me/more.md", True)], True),
        (["escape", "escape"], [], False),
    ],
)
async def test_includes_are_decided_before_the_first_message_leaves(
    answers: list[str], kept: list[tuple[str, bool]], reloads: bool
) -> None:
    decided: list[tuple[str, bool]] = []

    async def open_includes(session: SessionControls) -> Sequence[IncludeQuestion]:
        return include_questions(items())

    async with running(
        initial_prompt="do it",
        opened=False,
        open_includes=open_includes,
        decide_include=lambda target, allowed: decided.append((target, allowed)),
    ) as (app, opener):
        for target, key in zip(("style.md", "more.md"), answers, strict=True):
            await until(lambda target=target: target in screen_text(app) and is_drawn(app))  # type: ignore[misc]
            assert all(call[0] != "prompt" for call in opener.session.calls)
            await late_key(app, key)
        await until(lambda: ("prompt", "do it") in opener.session.calls)
        assert decided == kept
        assert opener.session.calls == ([("reload",)] if reloads else []) + [("prompt", "do it")]


async def test_includes_that_cannot_be_looked_up_hold_nothing_up() -> None:
    async def broken(session: SessionControls) -> Sequence[IncludeQuestion]:
        raise OSError("no such [device]")

    async with running(open_includes=broken) as (app, opener):
        await until(lambda: "no such [device]" in screen_text(app))
        await type_in(app, "hi")
        await until(lambda: ("prompt", "hi") in opener.session.calls)


async def test_leaving_while_an_include_is_asked_for_ends_at_once() -> None:
    async def open_includes(session: SessionControls) -> Sequence[IncludeQuestion]:
        return (INCLUDE,)

    async with running(opened=False, open_includes=open_includes) as (app, opener):
        await until(lambda: isinstance(app.screen, IncludeConsentScreen))
        app.leave()
        await until(lambda: opener.session.closed)
        await press(app)

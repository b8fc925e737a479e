from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.widgets import TextArea

from agent.context.compaction_values import NotCompacted
from agent.context.losses import Loss
from agent.events import RetryScheduled
from tests.tui.fake_session import DRAFT, LOSSES, SUMMARY, FakeSession, Opener
from tests.tui.harness import key_event, late_key, press, resize, rows, running, screen_text, settle, type_in, until
from tui.app import ClawApp
from tui.screens.compact_preview import CompactPreviewScreen
from tui.widgets.composer import Composer
from tui.widgets.ticks import Ticks
from tui.widgets.working import WorkingLine

later = iter(range(10, 100_000, 10))


async def meant(app: ClawApp, *keys: str) -> None:
    """Keys that no guard can take for slips."""
    screen = app.screen
    assert isinstance(screen, CompactPreviewScreen)
    for key in keys:
        await until(lambda: screen.is_drawn)
        await late_key(app, key, next(later))


@asynccontextmanager
async def previewed(
    command: str = "/compact preview", size: tuple[int, int] = (80, 24), **attributes: Any
) -> AsyncIterator[tuple[ClawApp, FakeSession]]:
    """The application with the dialog drawn in its first step."""
    async with running(Opener(**attributes), size=size) as (app, opener):
        await type_in(app, command)
        await until(lambda: isinstance(app.screen, CompactPreviewScreen) and app.screen.is_drawn)
        yield app, opener.session


async def drafted(app: ClawApp) -> None:
    await meant(app, "enter")
    await until(lambda: "14.1k tokens" in screen_text(app))


async def closed(app: ClawApp) -> None:
    await until(lambda: len(app.screen_stack) == 1)
    await settle(app)


async def test_M10_a_preview_says_what_goes_and_what_it_costs_and_asks_no_model() -> None:
    async with previewed("/compact preview the tests") as (app, session):
        text = screen_text(app)
        for part in ("42 messages", "81,200 of 92,300 tokens", "1 call", "83,000", "40 s", "$0.260", "Enter", "Esc"):
            assert part in text
        await press(app, "escape")
        await closed(app)
        assert session.calls == [("preview", "the tests")] and session.accepted == []
        assert app.focused is app.query_one(Composer)


async def test_the_draft_shows_both_sizes_the_summary_and_every_loss_as_it_is() -> None:
    async with previewed("/compact preview from 3") as (app, session):
        await drafted(app)
        text = screen_text(app)
        for part in (
            "92.3k → 14.1k tokens",
            "$0.031",
            "[bold]parser[/bold]",
            "[b]by hand[/b]",
            "src/parser/lexer.py",
            "demand",
        ):
            assert part in text
        assert session.calls == [("preview", "", "from 3"), ("draft", "", "from 3")] and session.accepted == []


async def test_M9_accepting_keeps_what_is_ticked_and_the_summary_as_it_was_written() -> None:
    async with previewed() as (app, session):
        await drafted(app)
        await press(app, "space", "down", "down", "space")
        await meant(app, "enter")
        await closed(app)
        assert session.accepted == [(DRAFT, None, (LOSSES[0], LOSSES[2]))]
        await until(lambda: "Compacted 92.3k → 14.1k (by hand, $0.031) · /undo compact" in screen_text(app))


async def test_ticks_can_be_set_all_at_once_and_taken_back() -> None:
    async with previewed() as (app, _):
        await drafted(app)
        ticks = app.screen.query_one(Ticks)
        await press(app, "a")
        everything = ticks.ticked
        await press(app, "a", "up", "down", "space", "space", "space")
        assert (everything, ticks.ticked) == ((0, 1, 2), (1,))


@pytest.mark.parametrize("step", ["plan", "writing", "result"])
@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
async def test_M9_leaving_at_any_step_changes_nothing_and_ends_the_calls(step: str, key: str) -> None:
    async with previewed() as (app, session):
        session.written.clear()
        if step != "plan":
            await meant(app, "enter")
            await until(lambda: ("draft", "") in session.calls)
        if step == "result":
            session.written.set()
            await until(lambda: "14.1k" in screen_text(app))
        await press(app, key)
        await closed(app)
        assert session.accepted == []
        if step == "writing":
            await until(lambda: ("draft cancelled",) in session.calls)
        await type_in(app, "go on")
        await until(lambda: ("prompt", "go on") in session.calls)


async def test_progress_is_shown_while_the_summary_is_written() -> None:
    async with previewed() as (app, session):
        session.written.clear()
        await meant(app, "enter")
        await until(lambda: "The summary is being written" in screen_text(app))
        assert "Esc cancel" in screen_text(app)
        session.summarising(2, 8)
        await until(lambda: "Summarising 3 of 8" in screen_text(app))
        session.emit(RetryScheduled("overloaded [b]", 4.2, 2, 10))
        await until(lambda: "Overloaded [b]; next try in 4 s (2/10)" in screen_text(app))
        assert app.query_one("#working", WorkingLine).facts.activity == ""
        session.written.set()
        await until(lambda: "14.1k" in screen_text(app))
        session.summarising(8, 8)
        await settle(app)
        assert "Summarising" not in screen_text(app)


async def test_M9_an_enter_pressed_too_often_accepts_nothing() -> None:
    async with previewed() as (app, session):
        screen = app.screen
        assert isinstance(screen, CompactPreviewScreen)
        early = key_event("enter")
        early.time = screen.opens_at_s - 0.01
        screen.post_message(early)
        await settle(app)
        assert session.calls == [("preview", "")]
        await drafted(app)
        for ahead_s in (-0.2, -0.01):
            early = key_event("enter")
            early.time = screen.opens_at_s + ahead_s
            screen.post_message(early)
        await settle(app)
        assert session.accepted == [] and app.screen is screen


@pytest.mark.parametrize("command", ["/compact edit", "/compact preview"])
async def test_M10_the_summary_is_edited_and_what_it_then_says_is_no_loss(command: str) -> None:
    async with previewed(command) as (app, session):
        await meant(app, "enter")
        await until(lambda: app.screen.query(TextArea).first().display or "14.1k" in screen_text(app))
        if command == "/compact preview":
            await press(app, "down", "space")
            await meant(app, "e")
        area = app.screen.query_one(TextArea)
        await until(lambda: app.focused is area)
        assert area.text == SUMMARY
        await press(app, *"ae ", "enter", *"x")
        area.load_text("Never touch the lockfile [b]by hand[/b]. Mine.")
        await press(app, "escape")
        text = screen_text(app)
        assert "Mine." in text and "demand" not in text and "lexer.py" in text
        assert app.screen.query_one(Ticks).ticked == ((0,) if command == "/compact preview" else ())
        await meant(app, "enter")
        await closed(app)
        kept = (LOSSES[1],) if command == "/compact preview" else ()
        assert session.accepted == [(DRAFT, "Never touch the lockfile [b]by hand[/b]. Mine.", kept)]


async def test_a_draft_without_losses_says_so_and_offers_no_ticks() -> None:
    draft = type(DRAFT)(SUMMARY, 92_300, 14_100, 0.03, (), work=DRAFT.work)
    async with previewed(drafted=draft) as (app, session):
        await drafted(app)
        text = screen_text(app)
        assert "Nothing exact is lost" in text and "Space" not in text and "Enter accept" in text
        await press(app, "space", "a", "v", "down")
        await meant(app, "enter")
        await closed(app)
        assert session.accepted == [(draft, None, ())]


@pytest.mark.parametrize("left", ["same", "empty"])
async def test_a_summary_that_is_left_as_it_was_or_emptied_is_the_models(left: str) -> None:
    async with previewed("/compact edit") as (app, session):
        await meant(app, "enter")
        area = app.screen.query_one(TextArea)
        await until(lambda: app.focused is area)
        if left == "empty":
            area.load_text("  \n")
        await press(app, "escape")
        await meant(app, "enter")
        await closed(app)
        assert session.accepted == [(DRAFT, None, ())]


async def test_nothing_to_compact_is_said_without_a_dialog() -> None:
    nothing = NotCompacted("there is nothing old", False, remedy="Talk more [b].")
    async with running(Opener(preview=nothing)) as (app, opener):
        await type_in(app, "/compact preview")
        await until(lambda: "there is nothing old" in screen_text(app) and "Talk more [b]." in screen_text(app))
        assert len(app.screen_stack) == 1 and opener.session.calls == [("preview", "")]


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (NotCompacted("the summary was [cut]", True, remedy="Use another model.", cost_usd=0.02), "Use another model."),
        (RuntimeError("the server [b] is gone"), "the server [b] is gone"),
    ],
)
async def test_M6_a_failed_summary_is_explained_and_changes_nothing(outcome: object, said: str) -> None:
    async with previewed(drafted=outcome) as (app, session):
        await meant(app, "enter")
        await until(lambda: "nothing was changed" in screen_text(app) and said in screen_text(app))
        await meant(app, "enter")
        await closed(app)
        assert session.accepted == []


async def test_hostile_text_of_summary_and_losses_drives_no_terminal() -> None:
    evil = "\x1b[31mred\x07\u202eabc [bold]x[/bold]"
    draft = type(DRAFT)(f"## {evil}\n", 9_000, 14_100, None, (Loss("path", evil, 3),), work=DRAFT.work)
    async with previewed(drafted=draft) as (app, _):
        await drafted(app)
        text = screen_text(app)
        assert "\x1b" not in text and "\u202e" not in text and "[bold]x[/bold]" in text and "price unknown" in text
        await meant(app, "e")
        area = app.screen.query_one(TextArea)
        await until(lambda: app.focused is area)
        assert "\x1b" not in area.text and "\u202e" not in area.text
        await press(app, "escape", "v")
        await until(lambda: "path of entry 3" in screen_text(app))
        assert "\x1b" not in screen_text(app)


@pytest.mark.parametrize("size", [(1, 1), (12, 3), (20, 5), (40, 10), (80, 24), (200, 60)])
async def test_T66_each_step_lives_at_any_size_and_its_keys_are_named(size: tuple[int, int]) -> None:
    async with previewed(size=size) as (app, session):
        assert len(rows(app)) == size[1]
        if size[0] >= 20:
            assert "Enter" in screen_text(app)
        await meant(app, "enter")
        await until(lambda: app.screen.query_one(Ticks).display)
        await press(app, "space", "down", "pagedown", "end", "home")
        if size[0] >= 40:
            assert "Enter accept" in screen_text(app) and "Esc discard" in screen_text(app)
            assert "[x]" in screen_text(app)
        await meant(app, "e")
        await press(app, "x", "escape")
        await resize(app, 80, 24)
        await until(lambda: "Esc discard" in screen_text(app))
        await meant(app, "enter")
        await closed(app)
        assert len(session.accepted) == 1


async def test_many_losses_leave_room_for_the_summary_and_all_can_be_reached() -> None:
    many = tuple(Loss("path", f"src/file_{n}.py", n) for n in range(30))
    draft = type(DRAFT)(SUMMARY, 92_300, 14_100, 0.03, many, work=DRAFT.work)
    async with previewed(drafted=draft) as (app, session):
        await drafted(app)
        assert "Goal" in screen_text(app) and "step 3 done" in screen_text(app)
        await press(app, *["down"] * 32, "space")
        await until(lambda: "src/file_29.py" in screen_text(app))
        await meant(app, "enter")
        await closed(app)
        assert session.accepted[0][2] == (many[29],)

"""B24, T59, T60: text that looks like markup, or carries controls, is shown literally in every place it can reach."""

import asyncio
from pathlib import Path

import pytest
from textual import events

from agent.events import (
    GaugeChanged,
    MessageCompleted,
    Notice,
    QueueChanged,
    SettingChanged,
    StepStarted,
    TextStreamed,
    ThinkingStreamed,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
    UserMessageAdded,
)
from agent.permissions.approval import ApprovalRequest
from agent.tools.details import CommandDetails, DiffDetails, RefusedDetails, TextDetails
from providers.types import TextBlock, Usage
from tests.tui.fake_session import Opener
from tests.tui.harness import click, late_key, press, rows, running, screen_text, settle, type_in, until
from tui.bridge import NoKey, SessionSummary
from tui.launch.listed_models import ModelChoice
from tui.screens.dialog import Dialog
from tui.screens.message import MessageScreen
from tui.widgets.completion import Choice, CompletionList
from tui.widgets.composer import Composer

MARKUP = [
    "[red]x",
    "[/closing]",
    "[@click=app.leave]x[/]",
    "[link=http://x]y[/link]",
    "[b +",
    "a]b[",
    "[",
    "[/]",
    "\\[x]",
]
CONTROLS = "\x1b]52;c;eA==\x07\x1b[2J\x9b6n\x1bPq\x1b\\\u202e\u200b"
ALL = " ".join(MARKUP)


def is_clean(text: str) -> bool:
    return not any((ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c in "\u202e\u200b" for c in text)


@pytest.mark.parametrize("markup", MARKUP)
async def test_B24_a_reply_cut_anywhere_in_a_bracket_is_shown_literally(markup: str) -> None:
    async with running() as (app, opener):
        await type_in(app, "g")
        await until(lambda: opener.session.running)
        opener.session.emit(TextStreamed("start\n\n"))
        for character in f"```\n{markup}":
            opener.session.emit(TextStreamed(character))
            await asyncio.sleep(0)
        await until(lambda: markup in screen_text(app))
        opener.session.emit(TextStreamed("\n```\n"))
        await until(lambda: markup in screen_text(app))
        assert app.is_running


async def test_B24_T59_every_event_shows_hostile_text_and_changes_nothing() -> None:
    hostile = f"{ALL} {CONTROLS}"
    async with running(size=(200, 70)) as (app, opener):
        emit = opener.session.emit
        await type_in(app, ALL)
        await until(lambda: opener.session.running)
        for event in (
            StepStarted(1, hostile),
            ThinkingStreamed(hostile),
            TextStreamed(hostile),
            MessageCompleted(2, (TextBlock(hostile),), Usage(), None, "end_turn"),
            ToolStarted("1", hostile, hostile),
            ToolProgress("1", hostile),
            ToolFinished("1", hostile, 3, True, CommandDetails(hostile, hostile, 1, 5, note=hostile), hostile),
            ToolStarted("2", "edit", hostile),
            ToolFinished("2", "edit", 4, False, DiffDetails(hostile, f"+{hostile}\n", 1, 0, hostile), hostile),
            ToolStarted("3", "read", hostile),
            ToolFinished("3", "read", 5, False, TextDetails(hostile, hostile), hostile),
            ToolStarted("4", "bash", hostile),
            ToolFinished("4", "bash", 6, True, RefusedDetails(hostile), hostile),
            Notice("error", hostile, hostile),
            SettingChanged(hostile, hostile, hostile, hostile, 5),
            GaugeChanged(10, True, 100, 100, 90, 0.1),
            QueueChanged((hostile, hostile)),
            UserMessageAdded(9, hostile, steering=True),
        ):
            emit(event)
            await settle(app)
        await press(app, "ctrl+o")
        await until(lambda: screen_text(app).count("[@click=app.leave]x[/]") >= 5)
        assert is_clean(screen_text(app))
        emit(TurnEnded("provider_error", hostile))
        await settle(app)
        assert app.is_running and is_clean(screen_text(app))


async def test_B24_T59_the_dialog_shows_hostile_text_literally() -> None:
    hostile = f"{ALL} {CONTROLS}"
    request = ApprovalRequest("1", hostile, hostile, hostile, None, hostile, hostile, (hostile,))
    edit = ApprovalRequest("1", "edit", hostile, None, f"@@ {hostile}\n-{hostile}\n+{hostile}\n", hostile, hostile)
    async with running(size=(200, 60)) as (app, opener):
        for question in (request, edit):
            asked = asyncio.create_task(opener.session.ask(question))
            await until(lambda: len(app.screen_stack) == 2 and ALL in screen_text(app))
            assert is_clean(screen_text(app))
            for y in range(40, 60, 4):
                await click(app, offset=(60, y))
            assert app.is_running and not asked.done()
            asked.cancel()
            await until(lambda: len(app.screen_stack) == 1)


async def test_B24_names_of_models_and_sessions_are_shown_literally_in_their_pickers() -> None:
    async def models() -> list[ModelChoice]:
        return [ModelChoice(f"p/{ALL}", CONTROLS)]

    async def sessions() -> list[SessionSummary]:
        return [SessionSummary("id", f"{ALL}{CONTROLS}", ALL)]

    async with running(size=(200, 60), list_models=models, list_sessions=sessions) as (app, _):
        for open_picker in (app.overlays.pick_model, app.overlays.pick_session):
            open_picker()
            await until(lambda: "[red]x" in screen_text(app) and "[link=http://x]y[/link]" in screen_text(app))
            assert is_clean(screen_text(app))
            await press(app, "escape")


async def test_B24_completions_status_working_row_and_viewer_are_literal() -> None:
    folder = Path("/tmp") / "[b]x[" / "[@click=app.leave]y"
    opener = Opener(model=ALL, provider_name="p", cwd=folder)
    async with running(opener, size=(200, 60), cwd=folder) as (app, _):
        await until(lambda: "[red]x" in rows(app)[-1])
        assert "[@click=app.leave]y" in rows(app)[-1]
        offered = [Choice("x", ALL, f"[/closing]{CONTROLS}")]

        def is_offered() -> bool:
            app.query_one(CompletionList).show(offered)  # again, where the field has hidden it
            return screen_text(app).count("[red]x [/closing]") == 2

        await until(is_offered)
        app.push_screen(MessageScreen.from_text(ALL, f"{ALL}\n{CONTROLS}"))
        await until(lambda: "[/] \\[x]" in screen_text(app))
        await press(app, "escape")
        await type_in(app, "g")
        await until(lambda: "waiting for [red]x" in screen_text(app))
        assert is_clean(screen_text(app)) and app.is_running


async def test_B24_the_first_screen_without_a_key_is_literal() -> None:
    missing = NoKey(ALL, f"/x/{CONTROLS}[/]", (ALL, "[b]K"), f"{ALL}{CONTROLS}")
    async with running(size=(200, 60), opened=False, missing_key=missing) as (app, _):
        await until(lambda: isinstance(app.screen, Dialog) and app.screen.is_drawn)
        assert "[red]x" in screen_text(app) and is_clean(screen_text(app))
        await late_key(app, "h")
        await until(lambda: "export [b]K" in screen_text(app))
        assert is_clean(screen_text(app))


async def test_B24_the_composer_shows_what_is_typed_and_pasted_literally() -> None:
    async with running(size=(200, 60)) as (app, opener):
        app.post_message(events.Paste(f"{ALL}{CONTROLS}"))
        await until(lambda: ALL in screen_text(app))
        assert is_clean(screen_text(app)) and is_clean(app.query_one(Composer).text)
        await press(app, "enter")
        await until(lambda: "prompt" in [call[0] for call in opener.session.calls])
        assert opener.session.calls[-1][1].startswith(ALL)


async def test_T59_what_is_copied_is_what_was_seen() -> None:
    async with running(size=(120, 40)) as (app, opener):
        await type_in(app, "g")
        await until(lambda: opener.session.running)
        opener.session.emit(TextStreamed(f"{ALL} {CONTROLS}"))
        await until(lambda: "[red]x" in screen_text(app))
        app.copy_to_clipboard(f"{ALL} {CONTROLS}\ud800\tend")
        assert (
            app.clipboard.startswith(ALL) and app.clipboard.endswith("⟨U+D800⟩\tend") and is_clean(app.clipboard[:-4])
        )


async def test_T62_nothing_opens_an_address_by_itself_or_by_a_click() -> None:
    async with running(size=(120, 40)) as (app, opener):
        opened: list[str] = []
        app.open_url = lambda url, *, new_tab=True: opened.append(url)  # type: ignore[method-assign] # what a click could call
        await type_in(app, "g")
        await until(lambda: opener.session.running)
        opener.session.emit(
            TextStreamed("[click](https://x.y/a) ![image](https://x.y/b) [@click=app.leave]q[/] file:///etc")
        )
        await until(lambda: "https://x.y/a" in screen_text(app))
        place = next(y for y, row in enumerate(rows(app)) if "https://x.y/a" in row)
        for x in range(0, 110, 3):
            await click(app, offset=(x, place))
        assert opened == [] and app.is_running


async def test_T59_a_crash_shows_neither_sequences_nor_values() -> None:
    async with running() as (app, _):
        with pytest.MonkeyPatch.context() as patch:  # or the test's own run would raise it again
            patch.setattr(app, "_exception", ValueError(f"{ALL} {CONTROLS}"))
            app._fatal_error()
        reports = [str(report) for report in app._exit_renderables]
        app._exit_renderables.clear()
    assert len(reports) == 1 and ALL in reports[0] and is_clean(reports[0])

"""Looking at the application as a user does: its rows as text, and waiting for what should appear on them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from textual import events
from textual.pilot import Pilot

from tests.tui.fake_session import Opener, launch
from tui.app import ClawApp

WAIT_S = 5.0


def rows(app: ClawApp) -> list[str]:
    """What is on the screen, all layers."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


def screen_text(app: ClawApp) -> str:
    return "\n".join(rows(app))


async def until(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    """Let the application run until the condition holds."""

    async def poll() -> None:
        while not condition():
            await pilot.pause()

    await asyncio.wait_for(poll(), WAIT_S)


@asynccontextmanager
async def running(
    opener: Opener | None = None, size: tuple[int, int] = (80, 24), opened: bool = True, **changes: object
) -> AsyncIterator[tuple[Pilot[None], ClawApp, Opener]]:
    """The application with a fake session, open unless the test holds the gate."""
    opener = opener if opener is not None else Opener()
    app = ClawApp(launch(opener, **changes))
    async with app.run_test(size=size) as pilot:
        if opened:
            await until(pilot, lambda: app.current.session is not None)
            await pilot.pause()
        yield pilot, app, opener


async def late_key(app: ClawApp, key: str, character: str | None = None, after_s: float = 10.0) -> None:
    """A key that is pressed so late that no guard of a dialog can be meant by it."""
    event = events.Key(key, character if character is not None else (key if len(key) == 1 else None))
    event.time += after_s
    target = app.focused or app.screen
    target.post_message(event)


async def type_in(pilot: Pilot[None], app: ClawApp, text: str) -> None:
    """Write into the focused field, all at once, and press Enter."""
    app.post_message(events.Paste(text))
    await pilot.pause()
    await pilot.press("enter")

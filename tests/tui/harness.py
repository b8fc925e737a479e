"""Looking at the application as a user does: its rows as text, keys that are pressed, and waiting for what should appear.

Textual's own pilot waits for an idle processor after each key, click and resize, which takes most of a test's time.
"""

import asyncio
import unicodedata
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual import events
from textual.app import App
from textual.geometry import Size
from textual.widget import Widget

from tests.tui.fake_session import Opener, launch
from tui.app import ClawApp

WAIT_S = 40.0
_CHARACTERS = {"enter": "\r", "tab": "\t", "space": " ", "backslash": "\\", "escape": "\x1b"}
_NAMES = {" ": "space", "\\": "backslash"}


def rows(app: App[Any]) -> list[str]:
    """What is on the screen, all layers. Empty until the topmost screen is mounted and laid out: a look before that
    would be remembered by its cache of styles."""
    if not (app.screen.is_mounted and app.screen._compositor.size.area):
        return []
    return [strip.text for strip in app.screen._compositor.render_strips()]


def screen_text(app: App[Any]) -> str:
    return "\n".join(rows(app))


async def until(condition: Callable[[], object]) -> None:
    """Let the application run until the condition holds."""

    async def poll() -> None:
        while not condition():  # noqa: ASYNC110 - the condition is anything that can be seen
            await asyncio.sleep(0.004)

    await asyncio.wait_for(poll(), WAIT_S)


async def settle(app: App[Any]) -> None:
    """Let everything that was posted be handled, and what followed from that, and be drawn."""
    for _ in range(3):
        for node in [app, *app.screen_stack, *app.screen.walk_children()]:
            done = asyncio.Event()
            if node.is_running and node.call_later(done.set):
                await asyncio.wait_for(done.wait(), WAIT_S)


def key_event(key: str) -> events.Key:
    """The event of a key by its name or character."""
    character = key if len(key) == 1 else _CHARACTERS.get(key)
    if len(key) == 1 and not key.isalnum():
        key = _NAMES.get(key) or unicodedata.name(key).lower().replace("-", "_").replace(" ", "_")
    return events.Key(key, character)


async def press(app: App[Any], *keys: str) -> None:
    """Press keys one after the other, each handled before the next."""
    for key in keys:
        app.post_message(key_event(key))
        await settle(app)


async def late_key(app: App[Any], key: str, after_s: float = 10.0) -> None:
    """A key that is pressed so late that no guard of a dialog can be meant by it."""
    event = key_event(key)
    event.time += after_s
    (app.focused or app.screen).post_message(event)
    await settle(app)


async def type_in(app: App[Any], text: str) -> None:
    """Write into the focused field, all at once, and press Enter."""
    app.post_message(events.Paste(text))
    await settle(app)
    await press(app, "enter")


async def click(app: App[Any], target: type[Widget] | None = None, offset: tuple[int, int] = (0, 0)) -> None:
    """Press and release the mouse, relative to the target or to the screen."""
    x, y = (app.screen.query_one(target) if target is not None else app.screen).region.offset + offset
    for kind in (events.MouseDown, events.MouseUp):
        app.post_message(kind(None, x, y, 0, 0, 1, False, False, False, x, y))
    await settle(app)


async def resize(app: App[Any], width: int, height: int) -> None:
    size = Size(width, height)
    app.post_message(events.Resize(size, size))
    await until(lambda: all(screen.is_mounted and screen._compositor.size == size for screen in app.screen_stack))
    await settle(app)


@asynccontextmanager
async def running(
    opener: Opener | None = None, size: tuple[int, int] = (80, 24), opened: bool = True, **changes: Any
) -> AsyncIterator[tuple[ClawApp, Opener]]:
    """The application with a fake session, open unless the test holds the gate."""
    opener = opener if opener is not None else Opener()
    app = ClawApp(launch(opener, **changes))
    async with app.run_test(size=size):
        if opened:
            await until(lambda: app.current.session is not None)
            await settle(app)
        yield app, opener

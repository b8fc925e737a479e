"""What keeps keys ahead of everything else, and the first frame ahead of imports. Process-wide, so only the application
calls it, once.

A start makes objects that stay. The command line switches the collector off for it; here it comes back, with all of that
out of its sight: a full collection would hold up a key for a tenth of a second.
"""

import asyncio
import contextlib
import gc
import importlib
import sys
import threading
from collections.abc import Callable

import textual.screen
from textual.message_pump import MessagePump
from textual.timer import Timer, TimerCallback

PAINT_S = 1 / 480
"""Textual paints at 60 Hz by itself, and a key waits for up to two ticks. The timer is paused while idle."""
SWITCH_S = 0.0005
"""Textual reads and writes the terminal in threads."""
PATIENCE_S = 2.0
"""How long imports wait for the session that is being opened, so that neither slows the other."""
COLLECT_TURNS = 8
_PAINTED_S = 0.05
_SOON_NEEDED = ("agent.secret_search", "tui.screens.approval", "tui.screens.help")


class SureTimers(MessagePump):
    """Timers that fire once do so for certain. Textual skips what is late, which is all of such a timer where the process
    is held up at the wrong moment; that of a resize lasts 8 ms, and without it no later size is ever taken."""

    def set_timer(
        self, delay: float, callback: TimerCallback | None = None, *, name: str | None = None, pause: bool = False
    ) -> Timer:
        timer = super().set_timer(delay, callback, name=name, pause=pause)
        timer._skip = False
        return timer


def before_first_frame() -> None:
    # What `asyncio.to_thread` imports when it is first called, which is right behind the first frame.
    importlib.import_module("concurrent.futures.thread")
    # Declared final, though nothing but this module's own reads depend on it.
    vars(textual.screen)["UPDATE_PERIOD"] = PAINT_S


def after_first_frame(warm_up: Callable[[], None], opened: threading.Event) -> None:
    """Import in a thread what will be needed soon, once a session is `opened`."""
    sys.setswitchinterval(SWITCH_S)
    threading.Thread(target=_warm, args=(warm_up, opened), name="claw-warm-up", daemon=True).start()


def _warm(warm_up: Callable[[], None], opened: threading.Event) -> None:
    try:
        opened.wait(PATIENCE_S)
        _keep()
        warm_up()
    finally:
        _warm_drawing()
        _keep()


def _warm_drawing() -> None:
    """Import what draws a message, and the first dialogs."""
    from tui.widgets import transcript

    transcript.warm_up()
    for name in _SOON_NEEDED:
        importlib.import_module(name)


class Rest:
    """Every few turns the collector looks at everything, right behind the end of one. Drawn rows refer to themselves, so that
    those of old blocks are freed by nobody else; and by itself it waits the longer the more there is."""

    def __init__(self) -> None:
        self._turns = 0

    def turn_ended(self) -> None:
        self._turns += 1
        if self._turns % COLLECT_TURNS == 0:
            asyncio.get_running_loop().call_later(_PAINTED_S, _give_back)


def _give_back() -> None:
    """Free what can be freed, and let the system have it: a compaction takes some megabytes for a moment."""
    gc.collect()
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(AttributeError):  # only the GNU library has it
            ctypes.CDLL(None).malloc_trim(0)


def _keep() -> None:
    """Take all objects there are out of the collector's sight, and have it look rarely at those to come."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()

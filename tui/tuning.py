"""What keeps keys ahead of everything else, and the first frame ahead of imports. Process-wide, so only the application
calls it, once.
"""

import gc
import importlib
import sys
import threading
from collections.abc import Callable

import textual.screen

PAINT_S = 1 / 240
"""Textual paints at 60 Hz by itself, and a key waits for up to two ticks. The timer is paused while idle."""
SWITCH_S = 0.0005
"""Textual reads and writes the terminal in threads."""
_SOON_NEEDED = ("tui.screens.approval", "tui.screens.help")


def before_first_frame() -> None:
    # Declared final, though nothing but this module's own reads depend on it.
    vars(textual.screen)["UPDATE_PERIOD"] = PAINT_S


def after_first_frame(warm_up: Callable[[], None]) -> None:
    """Take what start-up made out of the collector's sight, and import what will be needed soon in a thread."""
    sys.setswitchinterval(SWITCH_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    threading.Thread(target=_warm, args=(warm_up,), name="claw-warm-up", daemon=True).start()


def _warm(warm_up: Callable[[], None]) -> None:
    for name in _SOON_NEEDED:
        importlib.import_module(name)
    warm_up()

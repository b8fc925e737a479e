"""Runs the application in this terminal and gives the terminal back, however it ends.

Decision: the screen is written as UTF-8 whatever the locale says: terminals read it, and in ASCII no frame could be drawn.
"""

import contextlib
import sys

from tui.app import ClawApp
from tui.bridge import Launch
from tui.crash import reports_of_threads
from tui.signals import HARD_LIMIT_S, orderly_end


def run_app(launch: Launch, hard_limit_s: float = HARD_LIMIT_S) -> int:
    """Run the application in this terminal until it ends.

    Returns:
        The exit code: 0, 1 after a crash, 128 + n after signal n.
    """
    if sys.__stderr__ is not None:
        with contextlib.suppress(AttributeError, ValueError):  # a test's own stream
            sys.__stderr__.reconfigure(encoding="utf-8")
    app = ClawApp(launch)
    with orderly_end(app.end_from_outside, hard_limit_s), reports_of_threads():
        try:
            app.run()
        finally:
            if app.waker is not None:
                app.waker.close()
    return app.return_code or 0

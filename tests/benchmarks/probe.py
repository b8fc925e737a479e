"""Runs claw with a measuring event loop: `python tests/benchmarks/probe.py OUT.json ARGUMENTS…`.

Writes to OUT.json, at the end, how late the loop's ticks were and what was imported when and by which thread. All times are
of the monotonic clock, which other processes share.
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

TICK_S = 0.004


class ImportLog:
    """A finder that finds nothing and notes who asked."""

    def __init__(self) -> None:
        self.found: list[tuple[float, bool, str]] = []
        """(time, whether by the main thread, module)."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        self.found.append((time.monotonic(), threading.current_thread() is threading.main_thread(), name))
        return None


class Ticks:
    """Wakes the loop every few milliseconds and notes how late that was."""

    def __init__(self) -> None:
        self.late: list[tuple[float, float]] = []
        """(when it was due, seconds of delay)."""
        self._due = 0.0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = time.monotonic() + TICK_S
        loop.call_at(self._due, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self.late.append((self._due, time.monotonic() - self._due))
        self.start(loop)


class Policy(asyncio.DefaultEventLoopPolicy):
    """Gives the application's loop its ticks."""

    def __init__(self, ticks: Ticks) -> None:
        super().__init__()
        self._ticks = ticks

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        loop = super().new_event_loop()
        loop.call_soon(self._ticks.start, loop)
        return loop


def main() -> int:
    out, arguments = Path(sys.argv[1]), sys.argv[2:]
    imports, ticks = ImportLog(), Ticks()
    sys.meta_path.insert(0, imports)
    asyncio.set_event_loop_policy(Policy(ticks))
    from tui.cli import run

    code = run(arguments)
    out.write_text(json.dumps({"imports": imports.found, "late": ticks.late}))
    return code


if __name__ == "__main__":
    sys.exit(main())

"""The real program in a pseudo-terminal: `claw` against a desk's loopback server, used as a person uses it."""

import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.fakes.claw_process import environment
from tests.fakes.session_kit import Desk
from tests.fakes.terminal import Terminal
from tests.fakes.warm_claw import Started, can_be_warm, warm_claw
from tui.screens.dialog import GUARD_S

READY = "Ask for something"
WORKING = " s  Esc interrupts"
SYNC_ASKED, SYNC_KNOWN = b"\x1b[?2026$p", "\x1b[?2026;2$y"
FRAME_BEGINS, FRAME_ENDS = b"\x1b[?2026h", b"\x1b[?2026l"
MODES = ("1049", "1000", "1002", "1003", "1006", "2004", "1004")
"""Alternate screen, mouse, bracketed paste, focus reports: what is on must be off at the end."""


class Program(Terminal):
    """One run of claw."""

    def __init__(
        self,
        desk: Desk,
        *arguments: str,
        columns: int = 80,
        rows: int = 24,
        term: str = "xterm-256color",
        before: Sequence[str] = (),
        cold: bool = False,
        ignored: Sequence[int] = (),
        **env: str,
    ) -> None:
        """It is forked from what is warm, unless it is `cold` or something has to start it.

        `before`: what starts it, for instance in a namespace of its own; the process stays the same. `ignored`: signals that
        it is started with as ignored, as `nohup` does; only where it is forked.
        """
        self._asked = False
        self._strays = 0
        self._started: Started | None = None
        self._cold = cold or bool(before) or not can_be_warm(env)
        self._ignored = ignored
        argv = [*before, sys.executable, "-m", "claw", *arguments]
        surroundings = environment(desk, {"TEXTUAL_ANIMATIONS": "none", **env})
        super().__init__(argv, cwd=desk.project, env=surroundings, columns=columns, rows=rows, term=term)

    def spawn(self, argv: Sequence[str], terminal: str, cwd: Path, env: Mapping[str, str]) -> int:
        if self._cold:
            return super().spawn(argv, terminal, cwd, env)
        self._started = warm_claw().start(argv[3:], cwd, env, terminal=terminal, ignored=self._ignored)
        return self._started.pid

    def ended(self) -> bool:
        if self._started is None:
            return super().ended()
        if self._started.ended():
            self.status = self._started.status
        return self.status is not None

    def kill(self) -> None:
        if self._started is None:
            super().kill()
        else:
            self._started.send_signal(signal.SIGKILL)
            self.status = self._started.wait()

    def read(self, timeout_s: float) -> bytes:
        """Also answers, as terminals do, that frames may be held together: no half-drawn screen is ever looked at."""
        data = super().read(timeout_s)
        if not self._asked and SYNC_ASKED in self.raw:
            self._asked = True
            self.type(SYNC_KNOWN)
        return data

    def complete(self) -> int:
        begin = self.raw.rfind(FRAME_BEGINS)
        return len(self.raw) if self.raw.find(FRAME_ENDS, max(begin, 0)) >= 0 or begin < 0 else begin

    def ready(self) -> "Program":
        self.wait_for(READY)
        return self

    def say(self, text: str) -> None:
        """Write a message or a command and send it."""
        self.type("\x7f" * self._strays + text + "\r")
        self._strays = 0

    def answer(self, key: str, dialog: str) -> str:
        """Answer the dialog that shows `dialog`, as soon as it takes an answer; the screen that was answered.

        A key that comes too early goes to the composer and restarts the guard, so it is pressed again, and taken back when
        the composer has the keys again.
        """
        shown = self.wait_for(dialog)
        pressed = 0
        while dialog in self.text() and not self.ended():
            self.read_for(GUARD_S + 0.1)
            self.type(key)
            pressed += 1
            if self._leaves(dialog):
                break
            assert pressed < 10, f"{key!r} does not answer:\n{self.text()}"
        self._strays += pressed - 1
        return shown

    def _leaves(self, dialog: str, patience_s: float = 5.0) -> bool:
        """Whether the dialog leaves the screen. Looks at every frame, since the next question may show the same."""
        before, changed = self.text(), False
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            while (end := self.raw.find(FRAME_ENDS, self._fed)) >= 0:
                end += len(FRAME_ENDS)
                self._stream.feed(bytes(self.raw[self._fed : end]))
                self._fed = end
                if not any(dialog in row for row in self.rows()):
                    return True
                if not changed and self.text() != before:  # it may have shown the rest of what it asks about
                    changed, deadline = True, time.monotonic() + patience_s / 4
            if not self.read(0.02) and self.ended():
                break
        return dialog not in self.text()

    def read_for(self, seconds: float) -> None:
        """Let time pass as a person does who reads."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.read(left)

    def idle(self, composer: str = READY) -> str:
        """Wait until no turn runs and the composer shows this; the screen then."""
        self.wait_for(lambda text: WORKING not in text)
        self.type("\x7f" * self._strays)
        self._strays = 0
        return self.wait_for(lambda text: WORKING not in text and composer in text)

    def foot(self) -> str:
        """The status line as it is now."""
        return self.display()[-1]

    def gauge(self) -> str:
        """The used tokens as the status line has them, for instance "≈1.2k"."""
        return self.wait_for_status(r"(≈?[\d.]+[kM]?)(?:/[\d.]+[kM]?)?(?: \d+%)?$")

    def wait_for_status(self, pattern: str) -> str:
        """Wait until the status line matches; the first group."""
        found: list[str] = []

        def matches(text: str) -> bool:
            match = re.search(pattern, text.rpartition("\n")[2].rstrip())
            found[:] = [match[1]] if match else []
            return match is not None

        self.wait_for(matches)
        return found[0]

    def quit(self) -> None:
        self.say("/quit")
        assert self.wait_end() == 0
        self.assert_restored()

    def assert_restored(self) -> None:
        """The terminal is as it was before, by the last state of every mode that was switched."""
        raw = self.raw.decode()
        for mode in MODES:
            states = re.findall(rf"\x1b\[\?{mode}([hl])", raw)
            assert not states or states[-1] == "l", f"mode {mode} is left on"
        assert re.search(r"\x1b\[\?1049l", raw)
        assert re.findall(r"\x1b\[\?25([hl])", raw)[-1] == "h", "the cursor is left hidden"
        assert raw.count("\x1b[>1u") <= raw.count("\x1b[<u"), "the keyboard mode is left on"

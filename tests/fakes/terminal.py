"""A pseudo-terminal that runs a program: types keys, reads the screen through pyte, measures. End it with `close`."""

import contextlib
import fcntl
import os
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import pyte
from wcwidth import wcwidth


class Terminal:
    """One program on a pseudo-terminal of its own."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        columns: int = 120,
        rows: int = 40,
        term: str = "xterm-256color",
    ) -> None:
        self.raw = bytearray()
        """Everything the program wrote."""
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._fed = 0
        self._rows: list[str] = []
        self.started = time.monotonic()
        self.status: int | None = None
        self.fd, slave = os.openpty()
        self.resize(columns, rows)
        self.pid = self.spawn(argv, os.ttyname(slave), cwd, {**env, "TERM": term, "COLORTERM": "truecolor"})
        os.close(slave)

    def spawn(self, argv: Sequence[str], terminal: str, cwd: Path, env: Mapping[str, str]) -> int:
        """Start the program in a session of its own that the terminal controls; its process id."""
        return _spawn(argv, terminal, cwd, env)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def read(self, timeout_s: float) -> bytes:
        """What comes next; empty after the time-out or at the end."""
        ready, _, _ = select.select([self.fd], [], [], max(0.0, timeout_s))
        if not ready:
            return b""
        with contextlib.suppress(OSError):
            data = os.read(self.fd, 1 << 16)
            self.raw += data
            return data
        return b""

    def drain(self, quiet_s: float = 0.1, most_s: float = 5.0) -> None:
        """Read until nothing came for `quiet_s`."""
        end = time.monotonic() + most_s
        while time.monotonic() < end and self.read(quiet_s):
            pass

    def complete(self) -> int:
        """How much of `raw` is to be shown: all of it, unless a subclass knows that a frame is only half here."""
        return len(self.raw)

    def display(self) -> list[str]:
        """The rows of the screen as they are now."""
        # The beginning of a frame may have been taken for the end of what came before it.
        end = max(self._fed, self.complete())
        self._stream.feed(bytes(self.raw[self._fed : end]))
        self._fed = end
        return self.rows()

    def rows(self) -> list[str]:
        """The rows of what was drawn so far. Only those that changed are read anew: a screen is looked at often."""
        changed = self.screen.dirty
        if len(self._rows) != self.screen.lines:
            self._rows = [""] * self.screen.lines
            changed.update(range(self.screen.lines))
        for number in changed:
            if number < self.screen.lines:
                self._rows[number] = self._row(number)
        changed.clear()
        return list(self._rows)

    def _row(self, number: int) -> str:
        cells = self.screen.buffer[number]
        text: list[str] = []
        column = 0
        while column < self.screen.columns:
            data = cells[column].data
            text.append(data)
            column += 2 if data > "\u10ff" and wcwidth(data[0]) == 2 else 1  # the cell behind a wide one is none
        return "".join(text).rstrip()

    def text(self) -> str:
        return "\n".join(self.display())

    def wait_for(self, wanted: str | Callable[[str], bool], timeout_s: float = 50.0) -> str:
        """Read until the screen shows `wanted`; the screen then.

        Raises:
            AssertionError: it did not appear in time; shows the screen.
        """
        end = time.monotonic() + timeout_s
        while True:
            text = self.text()
            if wanted in text if isinstance(wanted, str) else wanted(text):
                return text
            if time.monotonic() > end or (not self.read(0.05) and self.ended()):
                raise AssertionError(f"{wanted!r} did not appear; the screen shows:\n{text}")

    def wait_for_bytes(self, wanted: bytes, start: int = 0, timeout_s: float = 50.0) -> None:
        """Read until `raw` holds `wanted` from `start` on; quicker than looking at the screen.

        Raises:
            AssertionError: it did not come in time.
        """
        end = time.monotonic() + timeout_s
        while self.raw.find(wanted, start) < 0:
            gone = not self.read(0.05) and self.ended()
            assert not gone and time.monotonic() < end, f"{wanted!r} did not come"

    def ended(self) -> bool:
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def wait_end(self, timeout_s: float = 40.0) -> int:
        """The exit code; negative for a signal.

        Raises:
            AssertionError: it still runs.
        """
        end = time.monotonic() + timeout_s
        while not self.ended():
            self.read(0.02)
            assert time.monotonic() < end, f"still running; the screen shows:\n{self.text()}"
        self.drain(0.02, 0.5)
        assert self.status is not None
        return self.status

    def cpu_s(self) -> float:
        """CPU time the program has used so far, its threads included (Linux)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_mb(self) -> float:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def close(self) -> None:
        """Kill the program if it still runs."""
        if not self.ended():
            self.kill()
        self.hang_up()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        self.status = os.waitstatus_to_exitcode(status)

    def hang_up(self) -> None:
        """Take the terminal away."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _spawn(argv: Sequence[str], terminal: str, cwd: Path, env: Mapping[str, str]) -> int:
    """Start a program in a session of its own that the terminal controls: opening it does that. No fork, since the process
    of a test has threads."""
    there = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', str(cwd), *argv]
    opened = [
        (os.POSIX_SPAWN_OPEN, 0, terminal, os.O_RDWR, 0),
        *((os.POSIX_SPAWN_DUP2, 0, number) for number in (1, 2)),
    ]
    return os.posix_spawn(there[0], there, env, file_actions=opened, setsid=True)

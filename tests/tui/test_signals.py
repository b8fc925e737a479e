"""R34 in a real pseudo-terminal: whatever ends the program, it ends in time and gives the terminal back."""

import contextlib
import fcntl
import os
import re
import resource
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pyte
import pytest

from tests.agent.processes.running import linux_only

ROOT = Path(__file__).parents[2]
MODES_OFF = ("1049", "1000", "1003", "1006", "1015", "2004", "1004")
WAIT_S = 40.0
LIMIT_S = 25.0
"""For an orderly end on a loaded machine; one that hangs is ended after 30 s only."""


class Terminal:
    """The application in a pseudo-terminal of 80x24."""

    def __init__(self, marker: Path, *arguments: str) -> None:
        self.marker = marker
        self.master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.output = b""
        state, *rest = arguments
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.tui.pty_app", state, str(marker), *rest],
            cwd=ROOT,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)},
        )

    def read(self, wait_s: float) -> bytes:
        """What arrives within the time; returns at once when something does."""
        ready, _, _ = select.select([self.master], [], [], wait_s)
        if not ready:
            return b""
        with contextlib.suppress(OSError):
            piece = os.read(self.master, 65_536)
            self.output += piece
            return piece
        return b""

    def until_ready(self) -> None:
        end = time.monotonic() + WAIT_S
        while not (self.marker.exists() and self.marker.read_text() == "ready"):
            assert time.monotonic() < end and self.process.poll() is None, self.screen()
            self.read(0.02)

    def until_shows(self, text: str) -> None:
        end = time.monotonic() + WAIT_S
        while text not in self.screen():
            assert time.monotonic() < end and self.process.poll() is None, self.screen()
            self.read(0.05)

    def until_quiet(self, quiet_s: float) -> None:
        end = time.monotonic() + WAIT_S
        while self.read(quiet_s):
            assert time.monotonic() < end, "it never stops writing"

    def ends_within(self, limit_s: float) -> int:
        """The exit code; fails if the process is alive after the time."""
        end = time.monotonic() + limit_s
        while self.process.poll() is None:
            assert time.monotonic() < end, "still running"
            self.read(0.02)
        while self.read(0):
            pass
        return self.process.returncode

    def screen(self) -> str:
        screen = pyte.Screen(80, 24)
        pyte.ByteStream(screen).feed(re.sub(rb"\x1b\[[<>=?][\d;]*[uc]|\x1b\[\?[\d;]*\$p", b"", self.output))
        return "\n".join(screen.display)

    def assert_restored(self) -> None:
        text = self.output.decode("utf-8", "replace")
        for mode in MODES_OFF:
            states = re.findall(rf"\x1b\[\?{mode}([hl])", text)
            assert states and states[-1] == "l", f"mode {mode} is left on"
        assert re.findall(r"\x1b\[\?25([hl])", text)[-1] == "h", "the cursor is left hidden"
        assert text.count("\x1b[>") <= text.count("\x1b[<u"), "the keyboard mode is left on"
        assert termios.tcgetattr(self.slave)[:4] == self.before[:4], "the terminal is left raw"

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for descriptor in (self.master, self.slave):
            with contextlib.suppress(OSError):
                os.close(descriptor)


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator["list[Terminal]"]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def start(terminals: "list[Terminal]", tmp_path: Path, *arguments: str) -> Terminal:
    terminal = Terminal(tmp_path / "marker", *arguments)
    terminals.append(terminal)
    return terminal


def test_T63_a_signal_ends_it_in_order_and_in_time(terminals: list[Terminal], tmp_path: Path) -> None:
    cases = (
        (signal.SIGTERM, "idle"),
        (signal.SIGTERM, "streaming"),
        (signal.SIGHUP, "dialog"),
        (signal.SIGQUIT, "idle"),
        (signal.SIGINT, "streaming"),
    )
    for number, (_, state) in enumerate(cases):  # all at once, since starting takes the time
        terminals.append(Terminal(tmp_path / f"marker{number}", state))
    for terminal, (number, state) in zip(terminals, cases, strict=True):
        terminal.until_ready()
        terminal.process.send_signal(number)
        assert terminal.ends_within(LIMIT_S) == 128 + number
        terminal.assert_restored()
        closed = terminal.marker.read_text()
        assert closed.startswith("closed")
        assert state != "streaming" or "interrupt" in closed


def test_T63_a_program_that_hangs_still_ends_and_restores(terminals: list[Terminal], tmp_path: Path) -> None:
    terminal = start(terminals, tmp_path, "stuck")
    terminal.until_ready()
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.ends_within(LIMIT_S) == 128 + signal.SIGTERM
    terminal.assert_restored()


def test_T64_a_terminal_that_goes_away_without_a_signal_ends_it_in_order_and_without_spinning(
    terminals: list[Terminal], tmp_path: Path
) -> None:
    states = ("idle", "streaming", "dialog")
    terminals.extend(Terminal(tmp_path / f"marker-{state}", state, "ignore-hup") for state in states)
    for terminal in terminals:
        terminal.until_ready()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for terminal in terminals:
        used = cpu_s(terminal.process.pid)
        os.close(terminal.slave)
        os.close(terminal.master)
        end = time.monotonic() + LIMIT_S
        while terminal.process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        assert terminal.process.returncode == 128 + signal.SIGHUP
        assert terminal.marker.read_text().startswith("closed")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime - used < 3
        before = after


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@linux_only
def test_T67_a_stop_without_ctrl_z_and_its_end_leave_no_second_reader(
    terminals: list[Terminal], tmp_path: Path
) -> None:
    terminal = start(terminals, tmp_path, "idle")
    terminal.until_ready()
    terminal.until_shows("Ask for something")
    tasks = Path(f"/proc/{terminal.process.pid}/task")
    threads = len(list(tasks.iterdir()))
    for stop in (True, False) * 3:
        before = len(terminal.output)
        if stop:
            terminal.process.send_signal(signal.SIGSTOP)
        terminal.process.send_signal(signal.SIGCONT)
        end = time.monotonic() + WAIT_S
        while b"\x1b[?1049h" not in terminal.output[before:]:
            assert time.monotonic() < end, "it did not come back"
            terminal.read(0.02)
        terminal.until_quiet(0.2)
    os.write(terminal.master, b"abc")
    terminal.until_shows("abc")
    assert len(list(tasks.iterdir())) < threads + 6, "each time leaves threads behind"
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.ends_within(LIMIT_S) == 128 + signal.SIGTERM
    terminal.assert_restored()


def test_ctrl_c_twice_leaves_with_0_and_a_usable_terminal(terminals: list[Terminal], tmp_path: Path) -> None:
    terminal = start(terminals, tmp_path, "idle")
    terminal.until_ready()
    terminal.until_shows("Ask for something")
    os.write(terminal.master, b"\x03")
    terminal.until_shows("Ctrl+C again leaves")
    os.write(terminal.master, b"\x03\x03")  # where the first came too late, it counts as one anew
    assert terminal.ends_within(LIMIT_S) == 0
    terminal.assert_restored()


def test_T67_ctrl_z_suspends_and_comes_back(terminals: list[Terminal], tmp_path: Path) -> None:
    terminal = start(terminals, tmp_path, "idle")
    terminal.until_ready()
    terminal.until_shows("Ask for something")
    os.write(terminal.master, b"abc")
    terminal.until_shows("abc")
    os.write(terminal.master, b"\x1a")
    end = time.monotonic() + WAIT_S
    while Path(f"/proc/{terminal.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
        assert time.monotonic() < end, "not stopped"
        terminal.read(0.02)
    while terminal.read(0):
        pass
    assert termios.tcgetattr(terminal.slave)[3] == terminal.before[3]
    terminal.process.send_signal(signal.SIGCONT)
    terminal.output = b""
    terminal.until_shows("abc")
    os.write(terminal.master, b"def")
    terminal.until_shows("abcdef")


def test_no_key_that_is_typed_during_start_is_lost(terminals: list[Terminal], tmp_path: Path) -> None:
    terminal = start(terminals, tmp_path, "idle")
    typed = "the quick brown fox jumps over the lazy dog"
    for word in typed.split(" "):
        os.write(terminal.master, word.encode() + b" ")
        terminal.read(0.03)
    terminal.until_shows(typed)


def test_idle_it_writes_nothing_and_ctrl_l_draws_everything_anew(terminals: list[Terminal], tmp_path: Path) -> None:
    terminal = start(terminals, tmp_path, "idle")
    terminal.until_ready()
    terminal.until_shows("Ask for something")
    terminal.until_quiet(0.8)  # what blinks or ticks is never quiet
    terminal.output = b""
    os.write(terminal.master, b"\x0c")
    terminal.until_shows("Ask for something")
    assert "claw 0.1.0" in terminal.screen()

"""Ends the application in time and with a usable terminal when a signal says so or the terminal goes away.

SIGTERM, SIGHUP, SIGQUIT and SIGINT ask for an orderly end; a watch on the terminal does the same when it hangs up without
a signal. Whatever hangs then, a thread of its own restores the terminal and ends the process. Exit code 128 + n.
"""

import asyncio
import contextlib
import os
import select
import signal
import socket
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

HARD_LIMIT_S = 1.8
"""From the signal to the end of the process, whatever happens in between."""
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)

RESTORE = (
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # mouse
    "\x1b[?2004l\x1b[?2048l\x1b[?1004l"  # bracketed paste, resize and focus reports
    "\x1b[?2026l\x1b[<u\x1b[?7h\x1b[?1049l\x1b[?25h\x1b[0m"  # held output, keyboard mode, wrap, screen, cursor, colours
)

OnEnd = Callable[[int], None]
"""Takes the exit code. Called once, in whatever thread noticed."""


class _Ending:
    """What is shared by handlers, watch and deadline."""

    def __init__(self, on_end: OnEnd, attributes: list[Any] | None, limit_s: float) -> None:
        self.on_end = on_end
        self.attributes = attributes
        self.limit_s = limit_s
        self.begun = False
        self.over = threading.Event()

    def begin(self, number: int) -> None:
        if self.begun:
            return
        self.begun = True
        code = 128 + number
        threading.Thread(target=self._deadline, args=(code,), name="claw-deadline", daemon=True).start()
        with contextlib.suppress(Exception):
            self.on_end(code)

    def _deadline(self, code: int) -> None:
        if not self.over.wait(self.limit_s):
            restore_terminal(self.attributes)
            os._exit(code)


@contextlib.contextmanager
def orderly_end(on_end: OnEnd, limit_s: float = HARD_LIMIT_S) -> Iterator[None]:
    """While the block runs, signals and the loss of the terminal call `on_end`. Main thread only."""
    ending = _Ending(on_end, _attributes(), limit_s)

    def handle(number: int, frame: FrameType | None) -> None:
        ending.begin(number)

    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        # A program that was started with a signal ignored (nohup) keeps ignoring it; the watch sees the loss.
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, handle)
    watch = threading.Thread(target=_watch_terminal, args=(ending,), name="claw-terminal", daemon=True)
    watch.start()
    try:
        yield
    finally:
        if not ending.begun:
            ending.over.set()  # otherwise the deadline stands until the process is gone: threads may hang its end
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """While another program has the terminal, its Ctrl+C and Ctrl+\\ are that program's alone. Main thread only."""
    numbers = (signal.SIGINT, signal.SIGQUIT)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        signal.signal(number, _pass)  # a handler, not SIG_IGN, which the program would inherit
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _pass(number: int, frame: FrameType | None) -> None:
    pass


class Waker:
    """Lets a signal that another thread received wake the event loop, so that its handler runs at once.

    After a stop the kernel may give SIGCONT to any thread; the main thread would then sleep on, its handler pending.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._reader, self._writer = socket.socketpair()
        for end in (self._reader, self._writer):
            end.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        loop.add_reader(self._reader, self._drain)

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(4_096)

    def close(self) -> None:
        """To be called when the loop is over, in the main thread."""
        signal.set_wakeup_fd(-1)
        self._reader.close()
        self._writer.close()


def _attributes() -> list[Any] | None:
    with contextlib.suppress(termios.error, OSError, ValueError):
        return termios.tcgetattr(sys.__stdin__.fileno()) if sys.__stdin__ is not None else None
    return None


def restore_terminal(attributes: list[Any] | None) -> None:
    """Write what undoes the modes of a full-screen program, past every buffer. Never blocks for long, never raises."""
    with contextlib.suppress(OSError, ValueError):
        os.set_blocking(2, False)
        os.write(2, RESTORE.encode())
        os.set_blocking(2, True)
    if attributes is not None:
        with contextlib.suppress(termios.error, OSError):
            termios.tcsetattr(0, termios.TCSANOW, attributes)


def _watch_terminal(ending: _Ending) -> None:
    """Sleep until the terminal hangs up. Asks for no event, so that only a hang-up or an error wakes it."""
    poll = select.poll()
    poll.register(0, 0)
    while not ending.over.is_set():
        try:
            found = poll.poll()
        except OSError:
            return
        if any(mask & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, mask in found):
            _silence_terminal()
            ending.begin(signal.SIGHUP)
            return


def _silence_terminal() -> None:
    """Put something quiet in place of the lost terminal: reads that wait for ever and writes that go nowhere. Otherwise
    the input thread would spin on end-of-file, and the output thread die with its queue full."""
    with contextlib.suppress(OSError):
        reader, writer = os.pipe()  # the writing end stays open: no end-of-file
        os.write(writer, b"\0")  # for a read that is about to happen and would block for ever
        os.dup2(reader, 0)
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        for descriptor in (1, 2):
            os.dup2(nowhere, descriptor)

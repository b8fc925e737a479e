"""What comes in through standard input: text that belongs to the one prompt, or user messages as JSON lines.

Lines: `{"type": "user", "text": "…"}` is the next message, `{"type": "interrupt"}` stops the turn that runs (or the next
one, where a message is waiting), `{"type": "end"}` ends the run after the messages before it, as the end of the input does.
Decision: messages wait for each other. None steers the turn before it, so that a script gets an answer to each.
"""

import asyncio
import contextlib
import os
import stat
import sys
import threading
from collections.abc import Callable

import msgspec
from msgspec import Struct

MAX_STDIN_BYTES = 64 * 1024 * 1024
_MAX_WAITING = 1000
"""Messages that are read ahead; a script that writes more has to wait."""


class UserLine(Struct, frozen=True, tag_field="type", tag="user", forbid_unknown_fields=True):
    text: str


class InterruptLine(Struct, frozen=True, tag_field="type", tag="interrupt", forbid_unknown_fields=True):
    pass


class EndLine(Struct, frozen=True, tag_field="type", tag="end", forbid_unknown_fields=True):
    pass


InputLine = UserLine | InterruptLine | EndLine


def with_piped_input(prompt: str) -> str:
    """The prompt, and behind it what was piped into standard input, if anything was.

    Raises:
        ValueError: more than 64 MiB, or it cannot be read; the text says what and what to do.
    """
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return prompt
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
        return prompt
    try:
        data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    except OSError as error:
        raise ValueError(
            f"Standard input cannot be read: {error.strerror}.\nUse `</dev/null` if none is meant."
        ) from None
    if len(data) > MAX_STDIN_BYTES:
        raise ValueError("Standard input holds more than 64 MiB.\nPut it in a file and name the file in the prompt.")
    text = data.decode("utf-8", "replace").strip("\n")
    return "\n\n".join(part for part in (prompt, text) if part.strip())


class OnePrompt:
    """The command line's prompt as the only message."""

    def __init__(self, prompt: str) -> None:
        self._prompt: str | None = prompt

    async def next(self) -> str | None:
        prompt, self._prompt = self._prompt, None
        return prompt

    def stop(self) -> None:
        """Give no further message."""
        self._prompt = None


class MessageLines:
    """User messages from JSON lines, in their order. A thread reads, so that nothing has to wait for the writer."""

    def __init__(
        self, first: str, interrupt: Callable[[], None], complain: Callable[[int, str], None], descriptor: int = 0
    ) -> None:
        """Begins to read; call it in the event loop. `first`: a message before all lines; blank: none. `complain` gets the
        1-based number of a line that cannot be used, and why."""
        self.bad_lines = 0
        self._interrupt = interrupt
        self._complain = complain
        self._loop = asyncio.get_running_loop()
        self._messages: asyncio.Queue[str | None] = asyncio.Queue()
        self._room = threading.Semaphore(_MAX_WAITING)
        self._working = False
        self._over = False
        if first.strip():
            self._room.acquire()
            self._messages.put_nowait(first)
        # Raw reads: a buffered reader that a thread waits in cannot be let go at the interpreter's end.
        threading.Thread(target=self._read, args=(descriptor,), name="standard input", daemon=True).start()

    async def next(self) -> str | None:
        """The next message as soon as it is there; None: there will be none."""
        self._working = False
        message = None if self._over and self._messages.empty() else await self._messages.get()
        if message is not None:
            self._working = True
            self._room.release()
        return message

    def stop(self) -> None:
        """Give no further message, not even those that are waiting."""
        while not self._messages.empty():
            self._messages.get_nowait()
        self._end()

    def _end(self) -> None:
        self._over = True
        self._messages.put_nowait(None)

    def _take(self, number: int, line: bytes | None) -> None:
        """One line, in the event loop. `None`: it was too long to be kept."""
        if self._over or (line is not None and not line.strip()):
            self._room.release()
            return
        try:
            if line is None:
                raise ValueError("longer than 64 MiB")
            read = msgspec.json.decode(line, type=InputLine)
            if isinstance(read, UserLine) and not read.text.strip():
                raise ValueError("the text is empty")
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            self._room.release()
            self.bad_lines += 1
            self._complain(number, str(error) or type(error).__name__)
            return
        match read:
            case UserLine(text=text):
                self._messages.put_nowait(text)
                return
            case InterruptLine() if self._working or not self._messages.empty():
                self._interrupt()
            case EndLine():
                self._end()
        self._room.release()

    def _read(self, descriptor: int) -> None:
        """Hand over line by line; runs in the thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the run is over
            number, rest, too_long = 0, bytearray(), False
            while data := _read_some(descriptor):
                *lines, last = data.split(b"\n")
                for line in lines:
                    number += 1
                    rest += line
                    whole = None if too_long or len(rest) > MAX_STDIN_BYTES else bytes(rest)
                    rest, too_long = bytearray(), False
                    self._room.acquire()
                    self._loop.call_soon_threadsafe(self._take, number, whole)
                rest += last
                if len(rest) > MAX_STDIN_BYTES:
                    rest, too_long = bytearray(), True
            if rest or too_long:
                self._loop.call_soon_threadsafe(self._take, number + 1, None if too_long else bytes(rest))
            self._loop.call_soon_threadsafe(self._end)


def _read_some(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:
        return b""  # closed, or write-only: there is nothing to come

"""`--output-format stream-json`: the events of a run as JSON lines, and what a run came to as the last one.

A thread writes, so that a slow reader holds up neither the model nor a signal. claw's own keys never go out, wherever they
stand in an event, nor in pieces: of a text that streams, what may be the beginning of a key waits for what follows. What a
terminal might act on stands in the lines as JSON escapes.
"""

import asyncio
import contextlib
import os
import re
import select
import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Any

import msgspec
from msgspec import Struct

from agent.events import Event, TextStreamed, ThinkingStreamed
from tui.sanitize import spelled_json

_REDACTED = b"[redacted]"


class TokenUsage(Struct, frozen=True):
    input: int = 0
    """Neither read from a cache nor written to one."""
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0


class Refusal(Struct, frozen=True):
    tool: str
    title: str
    reason: str


class Result(Event, frozen=True, tag="result"):
    """What a run came to. `--output-format json` writes it without its type."""

    result: str
    """The last answer; with `--output-schema` the JSON text that fits."""
    session_id: str
    turns: int
    """Calls of the model that answers."""
    usage: TokenUsage
    cost_usd: float | None
    """None: no price is known."""
    duration_ms: int
    stop_reason: str
    refusals: tuple[Refusal, ...]
    is_error: bool


class InputError(Event, frozen=True, tag="input_error"):
    """A line of standard input that cannot be used; the run goes on."""

    line: int
    """1-based."""
    message: str


class EventStream:
    """Writes events to a descriptor as JSON lines, each at once and in order."""

    def __init__(self, secrets: Iterable[str], descriptor: int = 1) -> None:
        """Make it in the event loop; `secrets` see tui/launch/known_secrets.py."""
        self.failed: Callable[[], None] = lambda: None
        """Called in the event loop, once, when nothing can be written any more."""
        self.error: OSError | None = None
        self._values = tuple(sorted(set(secrets), key=len, reverse=True))
        """The longest first."""
        self._whole = re.compile("|".join(map(re.escape, self._values)))
        self._secrets = re.compile(b"|".join(re.escape(_in_json(value)) for value in self._values))
        self._held: TextStreamed | ThinkingStreamed | None = None
        """The newest piece of a text whose end may be the beginning of a secret."""
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._written = asyncio.Event()
        threading.Thread(target=self._write, name="standard output", daemon=True).start()

    def emit(self, event: Event) -> None:
        if self.error is not None:
            return
        if self._values and isinstance(event, TextStreamed | ThinkingStreamed):
            self._stream(event)
            return
        self._release()
        self._lines.put(self.line(event))

    def _stream(self, event: TextStreamed | ThinkingStreamed) -> None:
        """Write a piece up to what may be the beginning of a secret; the rest comes with the next one of the same text."""
        held = self._held
        if held is not None and type(held) is type(event) and not event.opens_block:
            event = type(event)(held.text + event.text, held.opens_block)
        else:
            self._release()
        cut = self._beginning(event.text)
        self._held = type(event)(event.text[cut:], event.opens_block and not cut) if cut < len(event.text) else None
        if cut or self._held is None:
            self._lines.put(self.line(type(event)(event.text[:cut], event.opens_block)))

    def _beginning(self, text: str) -> int:
        """Where the end of a text may be the beginning of a secret; else the text's length."""
        whole = [found.end() for found in self._whole.finditer(text)]
        newest = len(text) - len(self._values[0]) + 1
        for start in range(max(0, newest, *whole), len(text)):
            rest = text[start:]
            if any(value.startswith(rest) for value in self._values):
                return start
        return len(text)

    def _release(self) -> None:
        if self._held is not None:
            self._lines.put(self.line(self._held))
            self._held = None

    def line(self, event: Event) -> bytes:
        data = encoded(event)
        if self._values:
            data = self._secrets.sub(_REDACTED, data)
        if not data.isascii() or b"\x7f" in data:
            data = spelled_json(data.decode()).encode()
        return data + b"\n"

    async def finish(self, patience_s: float | None = None) -> None:
        """Wait until everything is written; after `patience_s` the rest is given up.

        Raises:
            OSError: it could not be written.
        """
        self._release()
        self._lines.put(None)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._written.wait(), patience_s)
        if self.error is not None:
            raise self.error

    def _write(self) -> None:
        """Write line by line; runs in the thread."""
        try:
            while (line := self._lines.get()) is not None:
                _write_all(self._descriptor, line)
        except OSError as error:
            self.error = error
        with contextlib.suppress(RuntimeError):  # the run was given up meanwhile
            if self.error is not None:
                self._loop.call_soon_threadsafe(lambda: self.failed())
            self._loop.call_soon_threadsafe(self._written.set)


def encoded(value: Any) -> bytes:
    """As JSON; half of a character, as in a file's name, becomes a replacement character."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_whole(msgspec.to_builtins(value)))


def _in_json(text: str) -> bytes:
    return msgspec.json.encode(text)[1:-1]


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list | tuple) else value


def _write_all(descriptor: int, data: bytes) -> None:
    """Raw writes: a buffered writer that a thread waits in cannot be let go at the interpreter's end."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            select.select([], [descriptor], [])

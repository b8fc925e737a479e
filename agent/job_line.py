"""The way to the supervisor of a job: what it has written since one looked, and how to end it. Knows nothing of who asks."""

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from agent.spawner import wire
from agent.spawner.output import UNSEEN_HEAD_BYTES, UNSEEN_TAIL_BYTES

if TYPE_CHECKING:
    from agent.command_channel import RunOutcome

LOOK_PATIENCE_S = 2.0
"""How long a supervisor may take to answer; one that a command has stopped never does."""


class Look(Struct, frozen=True):
    """What a job wrote since the look before. Nothing is missing between two looks."""

    head: bytes = b""
    missing_bytes: int = 0
    """Left out between head and tail."""
    tail: bytes = b""

    @property
    def total_bytes(self) -> int:
        return len(self.head) + self.missing_bytes + len(self.tail)

    def then(self, other: "Look") -> "Look":
        """Both as one, no longer than one may be."""
        whole = self.head + self.tail + other.head + other.tail
        if not self.missing_bytes and not other.missing_bytes and len(whole) <= UNSEEN_HEAD_BYTES + UNSEEN_TAIL_BYTES:
            return Look(whole[:UNSEEN_HEAD_BYTES], 0, whole[UNSEEN_HEAD_BYTES:])
        head = self.head if self.missing_bytes else self.head + self.tail + other.head
        tail = other.tail if other.missing_bytes else self.tail + other.head + other.tail
        head, tail = head[:UNSEEN_HEAD_BYTES], tail[-UNSEEN_TAIL_BYTES:]
        return Look(head, self.total_bytes + other.total_bytes - len(head) - len(tail), tail)


class JobLine:
    """The way to the supervisor of a command that goes on by itself; `path` is where its output is written meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.started = asyncio.Event()
        """Set once its process runs."""
        self.outcome: RunOutcome | None = None
        """How it ended, once that is known: also where whoever ran it was cancelled."""
        self._writer: asyncio.StreamWriter | None = None
        self._unseen = Look()
        self._looked = asyncio.Event()

    async def look(self) -> Look:
        """What came since the look before; after the end what was left. Cancelled, it leaves that for the next look."""
        if self._writer is not None:
            self._looked.clear()
            self._writer.write(wire.LOOK)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._looked.wait(), LOOK_PATIENCE_S)
        unseen, self._unseen = self._unseen, Look()
        return unseen

    def drop(self) -> None:
        """End it at once, and hear no more of it."""
        if self._writer is not None:
            self._writer.close()

    def opened(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def closed(self) -> None:
        self._writer = None
        self._looked.set()

    def take(self, payload: bytes) -> None:
        """A frame of what was new."""
        missing, head_bytes = wire.LOOKED_HEADER.unpack_from(payload)
        data = payload[wire.LOOKED_HEADER.size :]
        self._unseen = self._unseen.then(Look(data[:head_bytes], missing, data[head_bytes:]))
        self._looked.set()

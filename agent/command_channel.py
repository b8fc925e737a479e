"""The connection to the supervisor of one command: its frames become live text and, in the end, an outcome or an error."""

import asyncio
import codecs
import contextlib
import os
import signal
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from agent.job_line import JobLine
from agent.spawner import wire


class RunOutcome(Struct, frozen=True):
    """How a command ended and what it said. `head` + `tail` is everything if `total_bytes` is their length."""

    status: Literal["exited", "signal", "timeout", "cancelled"]
    exit_code: int | None
    """Of the command itself; None if a signal ended it."""
    signal: int | None
    total_bytes: int
    spill_file: Path | None
    """The whole output, if it is longer than head and tail. The caller takes it over and deletes it."""
    spill_missing_bytes: int
    """What is kept nowhere: the middle of an output over 64 MiB, or everything between head and tail if the disk was full."""
    duration_ms: int
    left_running: bool
    """Something still ran 250 ms after the command itself had ended; it was ended."""
    killed: bool = False
    """Something of it did not end when it was told to (TERM), and was killed when the grace was over."""
    survivors: int = 0
    """Processes that could not be killed."""
    head: bytes = b""
    tail: bytes = b""


class CommandNotStartedError(Exception):
    """The command could not be started; `path` is what the system complained about, where it says."""

    def __init__(self, text: str, errno: int | None = None, path: str = "") -> None:
        super().__init__(text)
        self.errno = errno
        self.path = path


class SpawnerError(Exception):
    """The spawner or the command's supervisor died or cannot be started."""


class UnreachableError(Exception):
    """The spawner died before it took the command: another one can."""


class _Failed(Struct, frozen=True):
    error: str
    errno: int | None
    path: str


class Conversation:
    """What the supervisor of one command says."""

    def __init__(
        self, reader: asyncio.StreamReader, on_output: Callable[[str], None], job: JobLine | None = None
    ) -> None:
        self._job = job
        self._taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reader = reader
        self._on_output = on_output
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._supervisor: int | None = None
        self._group: int | None = None
        self._head = b""
        self._tail = b""

    async def read(self) -> RunOutcome:
        """Raises: CommandNotStartedError, SpawnerError, UnreachableError."""
        while True:
            try:
                header = await self._reader.readexactly(wire.HEADER.size)
                length, kind = wire.HEADER.unpack(header)
                payload = await self._reader.readexactly(length)
            except (asyncio.IncompleteReadError, ConnectionError, struct.error):
                if self._supervisor is None:
                    raise UnreachableError from None
                self.wake_supervisor()
                self._kill_group()
                raise SpawnerError("The command's supervisor was killed, and the command with it.") from None
            if (outcome := self._take(kind, payload)) is not None:
                return outcome

    def _take(self, kind: int, payload: bytes) -> RunOutcome | None:
        match kind:
            case wire.TAKEN:
                self._supervisor = msgspec.json.decode(payload, type=int)
                self._taken.set_result(None)
            case wire.BORN:
                self._group = msgspec.json.decode(payload, type=int)
            case wire.STARTED if self._job is not None:
                self._job.started.set()
            case wire.LOOKED if self._job is not None:
                self._job.take(payload)
            case wire.LIVE:
                self._show(payload)
            case wire.HEAD:
                self._head = payload
            case wire.TAIL:
                self._tail = payload
            case wire.ENDED:
                if rest := self._decoder.decode(b"", final=True):
                    self._on_output(rest)
                outcome = msgspec.json.decode(payload, type=RunOutcome, dec_hook=lambda _, value: Path(value))
                outcome = msgspec.structs.replace(outcome, head=self._head, tail=self._tail)
                if self._job is not None:
                    self._job.outcome = outcome
                return outcome
            case wire.FAILED:
                failed = msgspec.json.decode(payload, type=_Failed)
                raise CommandNotStartedError(failed.error, failed.errno, failed.path)
        return None

    def _show(self, payload: bytes) -> None:
        (skipped,) = wire.LIVE_HEADER.unpack_from(payload)
        text = ""
        if skipped:
            text = self._decoder.decode(b"", final=True) + f"\n[… {skipped:,} bytes not shown live …]\n"
            self._decoder.reset()
        text += self._decoder.decode(payload[wire.LIVE_HEADER.size :])
        if text:
            self._on_output(text)

    async def wait_taken(self, reading: "asyncio.Future[RunOutcome]", patience_s: float) -> None:
        """Wait until a supervisor has taken the command, or the answer is there without that.

        Raises:
            UnreachableError: neither happened in time.
        """
        waiting: set[asyncio.Future[Any]] = {reading, self._taken}
        await asyncio.wait(waiting, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        if not any(future.done() for future in waiting):
            raise UnreachableError

    def kill_wedged_supervisor(self, reading: "asyncio.Future[RunOutcome]") -> None:
        """Kill a supervisor that should have answered long ago (a command can stop it); the spawner adopts its processes."""
        if not reading.done() and self._supervisor is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._supervisor, signal.SIGKILL)
            self._kill_group()

    def wake_supervisor(self) -> None:
        """One that a command has stopped would not see what is asked of it, nor that the connection is closed."""
        if self._supervisor is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._supervisor, signal.SIGCONT)

    def _kill_group(self) -> None:
        """A last resort: normally the spawner has ended the tree of a dead supervisor already."""
        if self._group is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)

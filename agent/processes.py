"""Runs commands through the spawner: one small process a session, started before the first command.

The spawner owns every process that comes from a command, so nothing survives the command's end, its cancellation, or the end
of claw, also by `kill -9`. On Linux that holds through `setsid` and double forks; on macOS only for the command's process
group, which is weaker. Output is read, kept and capped over there; here arrive a sample every 50 ms and the final result.
"""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path

from agent.command_channel import (
    CommandNotStartedError,
    Conversation,
    RunOutcome,
    SpawnerError,
    UnreachableError,
)
from agent.command_environment import command_environment
from agent.job_line import JobLine
from agent.spawner import wire

__all__ = ["CommandNotStartedError", "RunOutcome", "Spawner", "SpawnerError"]

_START_PATIENCE_S = 10.0
_END_PATIENCE_S = wire.TERM_GRACE_S + wire.SHELL_GRACE_S + wire.KILL_PATIENCE_S + 1.0
_BOOT = "import sys; sys.path.append(sys.argv[1]); from agent.spawner.main import main; main(sys.argv[2])"


class Spawner:
    """The session's runner of commands. Starts its process when first needed, and a new one if that died."""

    def __init__(self, environment: Mapping[str, str] | None = None, extra: Iterable[str] = ()) -> None:
        """`environment` is where the commands' environment comes from; by default this process's, as it is now. `extra`
        names further variables of it that commands may see."""
        self.environment = command_environment(os.environ if environment is None else environment, extra)
        """What a command gets by default. A snapshot: its `PATH` does not change any more."""
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._folder: Path | None = None
        self._old_folders: list[Path] = []
        """Of spawners that died while commands ran, whose supervisors go on."""
        self._numbers = count(1)
        self._open: set[asyncio.StreamWriter] = set()
        self._closed = False

    async def folder(self) -> Path:
        """A private folder for what commands of now need, which does not outlive claw.

        Raises:
            SpawnerError: as `start` does.
        """
        await self.start()
        assert self._folder is not None
        return self._folder

    @property
    def pid(self) -> int | None:
        """The spawner's process id, None before it is started."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start the spawner if it does not run, so that the first command need not wait for it.

        Raises:
            SpawnerError: it cannot be started, or this object is closed.
        """
        if self._closed:
            raise SpawnerError("The spawner is closed: the session has ended.")
        if self._process is not None and self._process.poll() is None:
            return
        self._discard()
        self._boot()

    def _boot(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="claw-"))
            root = str(Path(__file__).resolve().parent.parent)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOT, root, str(self._folder)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.defpath},
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            self._discard()
            raise SpawnerError(f"The process that starts commands cannot be started: {error}") from error
        finally:
            theirs.close()
        self._control = ours

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None,
        on_output: Callable[[str], None] | None = None,
        job: JobLine | None = None,
    ) -> RunOutcome:
        """Run a command without terminal and standard input, and return when it and all it started are gone.

        `on_output` gets new output at most every 50 ms, decoded; a flood is sampled. A cancelled run is ended like one that
        timed out (TERM, 2 s, KILL) before the cancellation goes on; cancelled a second time, it is killed at once.
        `timeout_s` of None: it may take as long as it wants. `job` can look at its output and end it meanwhile.

        Raises:
            CommandNotStartedError: no such program or directory, arguments too long, …
            SpawnerError: the spawner cannot be started, or was killed while the command ran.
        """
        request: dict[str, object] = {
            "argv": list(argv),
            "cwd": str(cwd),
            "env": dict(self.environment if env is None else env),
            "timeout_s": timeout_s,
            "is_job": job is not None,
        }
        for _ in range(2):
            await self.start()
            assert self._folder is not None
            request["spill_path"] = str(job.path if job else self._folder / f"output-{next(self._numbers)}")
            try:
                return await self._attempt(request, timeout_s, on_output or _ignore, job)
            except UnreachableError:
                self._kill_process()
        raise SpawnerError("The process that starts commands died twice before it took the command.")

    async def _attempt(
        self,
        request: dict[str, object],
        timeout_s: float | None,
        on_output: Callable[[str], None],
        job: JobLine | None,
    ) -> RunOutcome:
        reader, writer = await asyncio.open_connection(sock=self._hand_over(), limit=wire.SAMPLE_BYTES * 8)
        conversation = Conversation(reader, on_output, job)
        self._open.add(writer)
        # ASCII with escapes, so that any file name survives.
        writer.write(wire.frame(wire.REQUEST, json.dumps(request).encode()))
        if job is not None:
            job.opened(writer)
        reading = asyncio.ensure_future(conversation.read())
        try:
            return await self._follow(conversation, reading, writer, timeout_s)
        finally:
            if job is not None:
                job.closed()
            # Closing makes the supervisor kill whatever still runs.
            self._open.discard(writer)
            writer.close()
            reading.cancel()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await reading
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _follow(
        self,
        conversation: "Conversation",
        reading: "asyncio.Future[RunOutcome]",
        writer: asyncio.StreamWriter,
        timeout_s: float | None,
    ) -> RunOutcome:
        try:
            await conversation.wait_taken(reading, _START_PATIENCE_S)
            await asyncio.wait({reading}, timeout=None if timeout_s is None else timeout_s + _END_PATIENCE_S)
        except asyncio.CancelledError:
            writer.write(wire.CANCEL)
            conversation.wake_supervisor()
            await asyncio.wait({reading}, timeout=_END_PATIENCE_S)
            conversation.kill_wedged_supervisor(reading)
            raise
        if not reading.done():
            conversation.kill_wedged_supervisor(reading)
            raise SpawnerError("The command's supervisor stopped answering; it was killed, and the command with it.")
        return reading.result()

    def _hand_over(self) -> socket.socket:
        """Give the spawner one end of a new connection; the other end."""
        assert self._control is not None
        ours, theirs = socket.socketpair()
        try:
            socket.send_fds(self._control, [b"r"], [theirs.fileno()])
        except OSError:
            ours.close()
            raise UnreachableError from None
        finally:
            theirs.close()
        return ours

    def _kill_process(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _discard(self) -> None:
        """Let go of a spawner that has ended."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._folder is not None:
            self._old_folders.append(self._folder)
            self._folder = None
        if not self._open:
            while self._old_folders:
                shutil.rmtree(self._old_folders.pop(), ignore_errors=True)
        self._process = None

    async def aclose(self) -> None:
        """End all commands that still run, the spawner, and its temporary files. May be called more than once."""
        self._closed = True
        for writer in tuple(self._open):
            writer.close()
        if self._control is not None:
            self._control.close()
            self._control = None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _END_PATIENCE_S
        while self._process is not None and self._process.poll() is None:
            if loop.time() > deadline:
                self._kill_process()
            await asyncio.sleep(0.002)
        self._open.clear()
        self._discard()


def _ignore(text: str) -> None:
    pass

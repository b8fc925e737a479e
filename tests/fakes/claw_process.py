"""Runs claw as a process of its own, as a shell or a script would. It is forked from a warm one where that is the same."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.fakes.session_kit import Desk
from tests.fakes.warm_claw import Started, can_be_warm, warm_claw

_PIPE, _NULL = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def environment(desk: Desk, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Nothing of the developer's but where programs are. Warnings are errors there too."""
    return {"PATH": os.environ["PATH"], "PYTHONWARNINGS": "error", **desk.env, **(extra or {})}


async def start(
    desk: Desk,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    stdin: int = _NULL,
    stdout: int = _PIPE,
    umask: int = -1,
    cold: bool = False,
) -> asyncio.subprocess.Process:
    """Start `claw …` in the desk's project, in a session of its own. `cold`: as `python -m claw`, whatever that costs."""
    surroundings = environment(desk, env)
    if not cold and can_be_warm(surroundings):
        return await _fork(desk, arguments, surroundings, (stdin, stdout, _PIPE), umask)
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "claw", *arguments, cwd=desk.project, env=surroundings, stdin=stdin, stdout=stdout,
        stderr=_PIPE, start_new_session=True, umask=umask,
    )  # fmt: skip


async def run(
    desk: Desk,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    umask: int = -1,
    cold: bool = False,
) -> Done:
    """Run claw to its end."""
    pipe = _NULL if stdin is None else _PIPE
    process = await start(desk, *arguments, env=env, stdin=pipe, umask=umask, cold=cold)
    return await finish(process, stdin)


async def finish(process: asyncio.subprocess.Process, stdin: bytes | None = None) -> Done:
    try:
        out, err = await asyncio.wait_for(process.communicate(stdin), 50)
    except BaseException:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    return Done(process.returncode, (out or b"").decode(), err.decode())


class _Forked(asyncio.subprocess.Process):
    """A process that is no child of this one."""

    def __init__(
        self,
        started: Started,
        stdin: asyncio.StreamWriter | None,
        stdout: asyncio.StreamReader | None,
        stderr: asyncio.StreamReader | None,
    ) -> None:
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.pid = started.pid
        self._started = started
        self._end = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(started.told, self._ended)

    def _ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._started.told)
        self._end.set_result(self._started.wait())

    @property
    def returncode(self) -> int | None:
        return self._started.status

    async def wait(self) -> int:
        code: int = await asyncio.shield(self._end)
        return code

    def send_signal(self, signal: int) -> None:
        self._started.send_signal(signal)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def communicate(self, input: bytes | bytearray | memoryview | None = None) -> tuple[bytes, bytes]:
        out, err, _ = await asyncio.gather(_all(self.stdout), _all(self.stderr), self._feed(input))
        await self.wait()
        return out, err

    async def _feed(self, data: bytes | bytearray | memoryview | None) -> None:
        if self.stdin is None:
            return
        try:
            if data is not None:
                self.stdin.write(data)
            await self.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            pass  # it did not want to read all; so does the library
        self.stdin.close()


async def _all(stream: asyncio.StreamReader | None) -> bytes:
    return b"" if stream is None else await stream.read()


async def _fork(
    desk: Desk, arguments: tuple[str, ...], env: Mapping[str, str], wanted: tuple[int, int, int], umask: int
) -> _Forked:
    ours: list[int] = []
    theirs: list[int] = []
    made: list[int] = []
    for number, what in enumerate(wanted):
        if what == _PIPE:
            reading, writing = os.pipe()
            made += [reading if number == 0 else writing]
            ours += [writing if number == 0 else reading]
        elif what == _NULL:
            made += [os.open(os.devnull, os.O_RDWR)]
            ours += [-1]
        else:
            ours += [-1]
        theirs += [what if what >= 0 else made[-1]]
    started = warm_claw().start(arguments, desk.project, env, streams=theirs, umask=umask)
    for each in made:
        os.close(each)
    stdin = await _writer(ours[0]) if ours[0] >= 0 else None
    stdout, stderr = [await _reader(each) if each >= 0 else None for each in ours[1:]]
    return _Forked(started, stdin, stdout, stderr)


async def _reader(number: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(number, "rb", 0))
    return reader


async def _writer(number: int) -> asyncio.StreamWriter:
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_write_pipe(lambda: protocol, os.fdopen(number, "wb", 0))
    return asyncio.StreamWriter(transport, protocol, None, loop)

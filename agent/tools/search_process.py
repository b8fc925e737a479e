"""The child that a search runs in: where it starts, what it may open and know, its output, and its end.

It is asyncio's business to read its pipes, and not to start it: what confines it belongs to the thread that does.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from msgspec import Struct

CHUNK_BYTES = 64 * 1024
_STDERR_BYTES = 8 * 1024


class Place(Struct, frozen=True):
    """Where the child starts: a folder opened without following links, and its input, nothing or an open file."""

    folder: Path
    folder_fd: int
    input: int = subprocess.DEVNULL

    @property
    def cwd(self) -> Path:
        """The very folder that is open, where the system has a name for that."""
        here = Path(f"/proc/self/fd/{self.folder_fd}")
        return here if sys.platform.startswith("linux") and here.exists() else self.folder


def start(argv: list[str], place: Place, confined: bool) -> subprocess.Popen[bytes]:
    """Start the program in its place; `confined` where it may open nothing else.

    Raises:
        OSError: it cannot be started.
    """
    # HOME and XDG_CONFIG_HOME are where git's own list of ignored files is.
    env = {name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in os.environ}
    env |= {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    with contextlib.ExitStack() as stack:
        source = place.input
        if source == subprocess.DEVNULL:
            source = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, source)
        if not confined:
            pipe = subprocess.PIPE
            return subprocess.Popen(
                argv, stdin=source, stdout=pipe, stderr=pipe, cwd=place.cwd, env=env, start_new_session=True
            )
        from agent.landlock import start_confined  # here: only a search needs it, and it costs start-up time
        from agent.tools.search_reach import excludes_file, reach_of_search

        excludes = excludes_file(Path(env.get("HOME", "/")), Path(env.get("XDG_CONFIG_HOME", _default_config(env))))
        argv = [argv[0], "--no-ignore-global", *([f"--ignore-file={excludes}"] if excludes else []), *argv[1:]]
        reach = stack.enter_context(reach_of_search(Path(argv[0]), place.folder, place.folder_fd, excludes))
        return start_confined(argv, reach, stdin=source, cwd=place.cwd, env=env)


def _default_config(env: Mapping[str, str]) -> str:
    return f"{env.get('HOME', '')}/.config"


class Output:
    """The output of a child while it is read; leaving it kills what still runs and collects it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._transports: list[asyncio.BaseTransport] = []
        self.stdout = asyncio.StreamReader()
        self.errors = b""
        """The start of standard error; whole at the end."""

    async def __aenter__(self) -> "Output":
        assert self._process.stdout is not None and self._process.stderr is not None
        try:
            self.stdout = await self._connect(self._process.stdout)
            stderr = await self._connect(self._process.stderr)
        except BaseException:
            self._process.kill()
            await self._close()
            raise
        self._reading = asyncio.ensure_future(self._read_errors(stderr))
        return self

    async def __aexit__(self, *_: object) -> None:
        # Its pipes end with it: nothing it starts could hold them, since it starts nothing.
        self._process.kill()
        while await self.stdout.read(CHUNK_BYTES):
            pass
        await self._reading
        await self._close()

    async def ended(self) -> None:
        """Wait until the child is done by itself."""
        await asyncio.to_thread(self._process.wait)

    async def _close(self) -> None:
        for transport in self._transports:
            transport.close()
        await self.ended()

    async def _connect(self, pipe: IO[bytes]) -> asyncio.StreamReader:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        self._transports.append(transport)
        return reader

    async def _read_errors(self, stream: asyncio.StreamReader) -> None:
        while piece := await stream.read(CHUNK_BYTES):
            self.errors = (self.errors + piece)[:_STDERR_BYTES]

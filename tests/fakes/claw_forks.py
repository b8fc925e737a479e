"""Many claws for the price of one import: a process that has everything loaded and forks into `claw …` when asked.

For tests that need processes to kill and not their start-up. Run as a module it is that process: it reads one JSON object
a line, {cwd, env, argv}, and answers with the new process's id.
"""

import asyncio
import importlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.fakes.claw_process import environment
from tests.fakes.session_kit import Desk


class Forks:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._asking = asyncio.Lock()

    async def start(self, desk: Desk, *arguments: str) -> int:
        """Start `claw …` in the desk's project, silent, in a session of its own; its process id."""
        line = {"cwd": str(desk.project), "env": environment(desk), "argv": arguments}
        assert self._process.stdin is not None and self._process.stdout is not None
        async with self._asking:
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
            return int(await asyncio.wait_for(self._process.stdout.readline(), 30))


@asynccontextmanager
async def forks(desk: Desk) -> AsyncIterator[Forks]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, cwd=Path(__file__).parents[2], env=environment(desk),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Forks(process)
    finally:
        process.kill()
        await process.communicate()


def _serve() -> None:
    for name in ("openai", "tiktoken", "genai_prices.data_snapshot", "tui.headless.one_task"):
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are not waited for
    for line in sys.stdin:
        asked = json.loads(line)
        if (pid := os.fork()) == 0:
            _become_claw(asked["cwd"], asked["env"], asked["argv"])
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


def _become_claw(cwd: str, env: Mapping[str, str], argv: list[str]) -> None:
    from tui.cli import run

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    os._exit(run(argv))


if __name__ == "__main__":
    _serve()

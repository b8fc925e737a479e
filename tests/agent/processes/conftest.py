"""A spawner of its own for each test, and a short way to run a command with it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agent.processes import RunOutcome, Spawner
from tests.agent.processes.running import Run


@pytest.fixture
async def spawner() -> AsyncIterator[Spawner]:
    spawner = Spawner()
    yield spawner
    await spawner.aclose()


@pytest.fixture
def run(spawner: Spawner, tmp_path: Path) -> Run:
    def start(
        command: str, timeout_s: float = 20, on_output: Callable[[str], None] | None = None
    ) -> "asyncio.Future[RunOutcome]":
        argv = ["/bin/bash", "--noprofile", "--norc", "-c", command]
        return asyncio.ensure_future(spawner.run(argv, cwd=tmp_path, timeout_s=timeout_s, on_output=on_output))

    return start

"""What the tests of processes share: the type of `run`, and what they look up of an outcome or a process."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.processes import RunOutcome

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only process groups can be followed")
Run = Callable[..., "asyncio.Future[RunOutcome]"]


def whole(outcome: RunOutcome) -> bytes:
    return outcome.head + outcome.tail


def command_line(pid: int | None) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")

"""Finding the processes of a test: each carries a mark of its own on its command line."""

import asyncio
import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path

_numbers = itertools.count(1)


def new_mark() -> str:
    """A number of seconds that no other test sleeps."""
    return f"9{os.getpid()}.{next(_numbers)}"


def marked(mark: str) -> list[int]:
    """The processes, zombies too, that have the mark on their command line."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                arguments = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(argument == mark.encode() for argument in arguments):
                found.append(int(folder.name))
    return found


async def comes_true(condition: Callable[[], bool], patience_s: float = 40.0) -> bool:
    """Whether the condition holds before the patience ends."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)  # other processes set no event
    return True


def children_of(pid: int) -> list[int]:
    """Direct children, zombies too."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append(int(folder.name))
    return found


def runs(pid: int) -> bool:
    """Whether there is such a process, other than a zombie that its parent has not looked at."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

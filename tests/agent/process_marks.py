"""Finding the processes of a test: each carries a mark of its own on its command line."""

import asyncio
import itertools
import os
import time
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


async def wait_until_gone(mark: str, patience_s: float) -> list[int]:
    """The marked processes that are left after waiting."""
    deadline = time.monotonic() + patience_s
    while (left := marked(mark)) and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    return left


async def wait_until_there(mark: str, count: int = 1, patience_s: float = 10.0) -> None:
    deadline = time.monotonic() + patience_s
    while len(marked(mark)) < count:
        assert time.monotonic() < deadline, f"{marked(mark)} of {count}"
        await asyncio.sleep(0.01)


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

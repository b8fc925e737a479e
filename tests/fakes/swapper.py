"""A process that swaps names for others in a loop, each time in one system call: the attacker of a race."""

import contextlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_RENAMEAT2 = {"x86_64": 316, "aarch64": 276}
_PROGRAM = """
import ctypes, os, sys
os.chdir(sys.argv[1])
swap = ctypes.CDLL(None).syscall
pairs = [(a.encode(), b.encode()) for a, b in zip(sys.argv[4::2], sys.argv[5::2])]
print("ready", flush=True)
while os.getppid() == int(sys.argv[2]):
    for _ in range(100):
        for one, other in pairs:
            swap(int(sys.argv[3]), -100, one, -100, other, 2)  # RENAME_EXCHANGE
"""


def missing() -> str:
    """What swapping in one call needs and this machine lacks; "" if nothing."""
    fits = sys.platform.startswith("linux") and platform.machine() in _RENAMEAT2
    return "" if fits else "renameat2 of Linux on x86-64 or ARM64"


@contextlib.contextmanager
def swapping(folder: Path, *pairs: tuple[str, str]) -> Iterator[None]:
    """While it lasts, the two names of each pair in `folder` stand for each other's files, in turns."""
    names = [name for pair in pairs for name in pair]
    number = str(_RENAMEAT2[platform.machine()])
    argv = [sys.executable, "-I", "-c", _PROGRAM, str(folder), str(os.getpid()), number, *names]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as swapper:
        try:
            assert swapper.stdout is not None
            assert swapper.stdout.readline() == b"ready\n"
            yield
        finally:
            swapper.kill()

"""A disk of a few kilobytes that only one process sees: a tmpfs in a mount namespace of its own, which needs no rights. What is
on it can be looked at, filled and freed from outside, by way of that process."""

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path


def with_disk(folder: Path, size: str, argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` with a disk of that size at `folder`."""
    script = 'mkdir -p "$0" && mount -t tmpfs -o size="$1",mode=0700 none "$0" && shift && exec "$@"'
    return ["unshare", "-Urm", "/bin/sh", "-c", script, str(folder), size, *argv]


@cache
def why_not() -> str:
    """What is missing for it here; empty if nothing is."""
    if shutil.which("unshare") is None:
        return "needs unshare"
    with tempfile.TemporaryDirectory() as folder:
        argv = with_disk(
            Path(folder, "disk"), "64k", [sys.executable, "-c", ""]
        )  # which may lie in a home that is closed there
        done = subprocess.run(argv, capture_output=True, text=True)
    return "" if done.returncode == 0 else f"needs user namespaces: {done.stderr.strip()}"


class SmallDisk:
    """The disk at `folder` as the process `pid` sees it, once it has one."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.root = Path(f"/proc/{pid}/root{folder}")

    def fill(self) -> None:
        """Leave no byte."""
        with (self.root / "filler").open("wb", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while file.write(b"x" * size) == size:
                        pass

    def free(self) -> None:
        (self.root / "filler").unlink()

"""The name of the branch that is checked out, read from git's own files: running git in a foreign folder may run code."""

import contextlib
import os
import stat
from pathlib import Path

_MAX_BYTES = 1_024


def branch_of(folder: Path) -> str:
    """The branch, the first seven digits of a detached commit, or "" outside a repository."""
    for place in (folder, *folder.parents):
        marker = place / ".git"
        if marker.is_dir():
            return _head(marker)
        if (text := _first_line(marker)).startswith("gitdir: "):
            return _head(place / text.removeprefix("gitdir: "))
    return ""


def _head(git_folder: Path) -> str:
    text = _first_line(git_folder / "HEAD")
    if text.startswith("ref: "):
        return text.removeprefix("ref: ").removeprefix("refs/heads/")
    return text[:7]


def _first_line(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return os.read(descriptor, _MAX_BYTES).split(b"\n", 1)[0].decode("utf-8", "replace").strip()
        finally:
            os.close(descriptor)
    return ""

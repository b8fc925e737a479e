"""Waits until a file or a folder is on the disk."""

import os
from pathlib import Path


def sync_file(path: Path) -> None:
    """Its content. Raises: OSError."""
    _sync(path, os.O_RDWR)


def sync_folder(path: Path) -> None:
    """The names in it. Raises: OSError, also where a file system cannot do that."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

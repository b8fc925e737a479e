"""Reading a small file that somebody else may have prepared: bounded, regular files only, never a wait.

Whatever cannot be read is an `UnreadableError` with a reason fit for a person; what the bytes mean is not known here.
"""

import os
import stat
from pathlib import Path

from msgspec import Struct

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


class UnreadableError(Exception):
    """The file is there and cannot be used; the text says why, without naming the path."""


class SmallFile(Struct, frozen=True):
    """What was read of a regular file."""

    data: bytes
    """At most the bytes asked for."""
    size_bytes: int
    """Of the whole file when it was opened."""
    mode: int
    owner: int
    """User id."""
    identity: tuple[int, int]
    """Device and inode."""


def read_small(path: Path, max_bytes: int, *, within: Path | None = None) -> SmallFile | None:
    """The first `max_bytes` of a regular file, or None where there is no such file.

    Links are followed. With `within` (a real path) the file must really lie beneath it.

    Raises:
        UnreadableError: no regular file, no permission, a link that leads out of `within`, a loop of links.
    """
    try:
        real = path.resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise UnreadableError("it is a link to a file that does not exist") from None
        return None
    except (OSError, RuntimeError, ValueError) as error:
        raise UnreadableError(_reason(error)) from None
    if within is not None and not real.is_relative_to(within):
        raise UnreadableError(f"it is a link that leads out of {within}")
    try:
        # A device or FIFO is never opened: opening alone can wait or have effects.
        _require_regular(real.lstat().st_mode)
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            return _read(descriptor, max_bytes)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        raise UnreadableError(_reason(error)) from None


def _read(descriptor: int, max_bytes: int) -> SmallFile:
    status = os.fstat(descriptor)
    _require_regular(status.st_mode)
    pieces: list[bytes] = []
    left = max_bytes
    while left > 0 and (piece := os.read(descriptor, min(left, 1 << 16))):
        pieces.append(piece)
        left -= len(piece)
    return SmallFile(b"".join(pieces), status.st_size, status.st_mode, status.st_uid, (status.st_dev, status.st_ino))


def _require_regular(mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    kind = next((name for test, name in _KINDS if test(mode)), "no regular file")
    raise UnreadableError(f"it is {kind}, not a regular file")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return str(error) or type(error).__name__


def printable(text: str) -> str:
    """`text` with everything escaped that a terminal might act on or that cannot be seen."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)

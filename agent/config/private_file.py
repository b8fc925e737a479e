"""Replaces a small file of the user's own that nobody else may read: a lock beside it, and a whole new file in its place.

Links are not followed here: who wants the file behind a link names that file.
"""

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_LOCK_PATIENCE_S = 5.0
_LOCK_INTERVAL_S = 0.01


class BusyFileError(Exception):
    """Another process holds the file's lock; the text says which file and what to do."""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock beside the file. The lock file stays: removing it would let two processes hold it.

    Raises:
        BusyFileError: another process has held it for five seconds.
        OSError: the lock file cannot be made.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path.with_name(path.name + ".lock"), flags, 0o600)
    try:
        make_private(fd)
        deadline = time.monotonic() + _LOCK_PATIENCE_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise BusyFileError(f"{path} is locked by another process; end it and try again") from None
                time.sleep(_LOCK_INTERVAL_S)
        _remove_leftovers(path)
        yield
    finally:
        os.close(fd)


def _remove_leftovers(path: Path) -> None:
    """What processes that were killed left of new files for this one. Under its lock nobody else makes one."""
    with contextlib.suppress(OSError):
        for file in path.parent.iterdir():
            if file.name.startswith(f".{path.name}.") and len(file.name) == len(path.name) + 10:
                file.unlink()


def make_private(fd: int) -> None:
    """Give the file mode 0600, where it is ours to change: whatever the umask, and whatever it had. Best effort."""
    with contextlib.suppress(OSError):
        if os.fstat(fd).st_mode & 0o777 != 0o600:
            os.fchmod(fd, 0o600)


def make_folder_private(path: Path) -> None:
    """Give an existing folder mode 0700, if others may use it and it is ours to change. Best effort."""
    with contextlib.suppress(OSError):
        if path.stat().st_mode & 0o077:
            path.chmod(0o700)


def create_private(path: Path) -> None:
    """Make an empty file with mode 0600, whatever the umask.

    Raises:
        OSError: also where something has that name.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    make_private(fd)
    os.close(fd)


def replace_private(path: Path, data: bytes) -> None:
    """Write beside the file with mode 0600, to the disk, and put it in the file's place. A link there is replaced itself.

    Raises:
        OSError: not done; what was there is as it was.
    """
    fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            make_private(fd)
            file.write(data)
            file.flush()
            os.fsync(fd)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

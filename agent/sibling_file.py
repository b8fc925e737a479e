"""A file in the making, in the folder where it belongs: without a name until it is whole, so that nothing is left of it
whenever claw ends. Where the system cannot do that (Linux can on most file systems) it has a random name from the start.

What it holds and when it may take which place is its owner's to know.
"""

import contextlib
import errno
import fcntl
import os
import secrets
from types import TracebackType

_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNNAMED: int = getattr(os, "O_TMPFILE", 0)
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
_NOT_UNNAMED = frozenset({errno.EOPNOTSUPP, errno.ENOTSUP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.ENOSYS})


class NotNamableError(Exception):
    """A file without a name cannot be given one here: make it anew with a name from the start."""


class SiblingFile:
    """`fd` is open for reading and writing. As a context manager it closes itself and leaves no name of its own behind."""

    def __init__(self, folder: int, mode: int, *, unnamed: bool = True) -> None:
        """`folder` is a descriptor, `mode` is subject to the umask as for `os.open`.

        Raises:
            OSError: it cannot be made.
        """
        self._folder = folder
        self._name: str | None = None
        """Its own random name, as long as it has that."""
        self.fd = _open_unnamed(folder, mode) if unnamed else -1
        if self.fd < 0:
            self._name = _random_name()
            self.fd = os.open(self._name, _CREATE, mode, dir_fd=folder)
            self._hold()

    def __enter__(self) -> "SiblingFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.fd)
        if self._name is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._name, dir_fd=self._folder)

    def publish(self, name: str) -> None:
        """Let it be found under `name`, unless something has that name by now.

        Raises:
            FileExistsError: something has.
            NotNamableError, OSError: it did not work.
        """
        if self._name is None:
            self._link(name)
            return
        try:
            os.link(self._name, name, src_dir_fd=self._folder, dst_dir_fd=self._folder, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            # A file system without hard links: the check and the renaming are two steps there.
            if _exists(self._folder, name):
                raise FileExistsError from None
            self.replace(name)

    def get_ready(self) -> None:
        """Do what can be done before `replace`.

        Raises:
            NotNamableError, OSError: it did not work.
        """
        if self._name is None:
            name = _random_name()
            self._hold()
            self._link(name)
            self._name = name

    def replace(self, name: str) -> None:
        """Take the place of whatever has that name.

        Raises:
            NotNamableError, OSError: it did not work; that is as it was.
        """
        self.get_ready()
        assert self._name is not None
        os.rename(self._name, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._name = None

    def _hold(self) -> None:
        """What has a random name is locked while its writer lives: see agent/interrupted_writes.py."""
        with contextlib.suppress(OSError):
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _link(self, name: str) -> None:
        try:
            os.link(f"/proc/self/fd/{self.fd}", name, dst_dir_fd=self._folder, follow_symlinks=True)
        except OSError as error:
            if error.errno in _NO_HARD_LINKS or error.errno == errno.ENOENT:
                raise NotNamableError from None
            raise


def _open_unnamed(folder: int, mode: int) -> int:
    """-1: that cannot be done here."""
    if not _UNNAMED or not os.path.lexists("/proc/self/fd"):
        return -1
    try:
        return os.open(".", _UNNAMED | os.O_RDWR | os.O_CLOEXEC, mode, dir_fd=folder)
    except OSError as error:
        if error.errno in _NOT_UNNAMED:
            return -1
        raise


def _random_name() -> str:
    return f".claw-{secrets.token_hex(8)}.tmp"


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True

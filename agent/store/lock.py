"""One writer a session: an flock on `<id>.lock`, held for the life of the process, so that it dies with kill -9 too.

Who holds it stands in the file, for people to read; it decides nothing, so a process id that is used again does no harm. Who
only reads holds another lock, `<id>.viewing`, in company: nobody deletes a session that someone looks at.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from agent.config.private_file import make_private

_PATIENCE_S = 0.3
"""Others hold a lock for moments, to see whether it is free, to give a title, or to delete."""
_INTERVAL_S = 0.02
VIEWING = ".viewing"


class Holder(NamedTuple):
    """Who said to hold a lock."""

    pid: int
    since_s: float

    @property
    def words(self) -> str:
        """For instance "process 4711, since 14:05"; without the process where none of that id can be seen from here."""
        at = time.localtime(self.since_s)
        same_day = time.strftime("%Y-%m-%d", at) == time.strftime("%Y-%m-%d")
        since = f"since {time.strftime('%H:%M' if same_day else '%Y-%m-%d %H:%M', at)}"
        return f"process {self.pid}, {since}" if _is_process(self.pid) else since


class SessionBusyError(Exception):
    """Another process has this session open, or locking does not work here; then nothing may be written."""

    holder: Holder | None = None


class NoLockError(SessionBusyError):
    """It is not known whether another process has the session open: the lock cannot be had for another reason."""


class SessionLock:
    """An flock that is held until `release`."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            SessionBusyError: someone else holds it.
            NoLockError: the lock file cannot be opened, or the file system cannot lock.
        """
        self.path = path
        self._fd = _locked(path, fcntl.LOCK_EX)
        with contextlib.suppress(OSError):  # a full disk costs the name of the holder, not the lock
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()} {time.time():.0f}\n".encode(), 0)

    def release(self) -> None:
        """Unlock. The file stays: removing it would let two processes lock two files of one name."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1


@contextlib.contextmanager
def held(session: Path) -> Iterator[None]:
    """The lock of a session file for a moment.

    Raises:
        SessionBusyError, NoLockError: as `SessionLock`.
    """
    lock = SessionLock(session.with_suffix(".lock"))
    try:
        yield
    finally:
        lock.release()


class ViewingLock:
    """Says that someone reads this session, until `release`. Where it cannot be had, nothing is said."""

    def __init__(self, session: Path) -> None:
        self._path = session.with_suffix(VIEWING)
        self._fd = -1
        with contextlib.suppress(SessionBusyError):
            self._fd = _locked(self._path, fcntl.LOCK_SH)

    def release(self) -> None:
        """The last one takes the file away; who has just opened it sees that, and makes another."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(self._fd, self._path):
                    self._path.unlink()
            os.close(self._fd)
            self._fd = -1


@contextlib.contextmanager
def unviewed(session: Path) -> Iterator[None]:
    """While this lasts nobody begins to read the session under a `ViewingLock`.

    Raises:
        SessionBusyError: someone does.
    """
    path = session.with_suffix(VIEWING)
    if not path.exists():  # who comes between reads what is about to be deleted, as ever
        yield
        return
    try:
        fd = _locked(path, fcntl.LOCK_EX)
    except NoLockError:
        raise
    except SessionBusyError:
        raise SessionBusyError(f"Session {session.stem} is being read in another claw.") from None
    try:
        yield
    finally:
        os.close(fd)


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock right now; this one counts too. False where there is no such file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def _locked(path: Path, how: int) -> int:
    """The descriptor that holds the lock for as long as it is open.

    Raises:
        SessionBusyError, NoLockError
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        fd = _opened(path)
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
            if _is_at(fd, path):
                return fd
        except BlockingIOError:
            if time.monotonic() > deadline:
                error = _busy(path, _holder(fd))
                os.close(fd)
                raise error from None
            time.sleep(_INTERVAL_S)
        except OSError as error:
            os.close(fd)
            raise NoLockError(f"{path} cannot be locked ({error.strerror}), so the session stays unwritten.") from None
        os.close(fd)


def _opened(path: Path) -> int:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise NoLockError(f"{path} cannot be opened ({error.strerror}), so the session stays unwritten.") from None
    make_private(fd)
    return fd


def _is_at(fd: int, path: Path) -> bool:
    """Whether the name still means this file: the session may have been deleted, its lock with it."""
    try:
        return os.path.samestat(os.fstat(fd), path.lstat())
    except OSError:
        return False


def _busy(path: Path, holder: Holder | None) -> SessionBusyError:
    by = f" ({holder.words})" if holder is not None else ""
    error = SessionBusyError(f"Session {path.stem} is open in another claw{by}.")
    error.holder = holder
    return error


def _holder(fd: int) -> Holder | None:
    with contextlib.suppress(OSError, ValueError, OverflowError):
        pid, _, since = os.pread(fd, 64, 0).decode("ascii").partition(" ")
        found = Holder(int(pid), float(since))
        time.localtime(found.since_s)
        return found if found.pid > 0 else None
    return None


def _is_process(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True

"""One writer a session: an flock on `<id>.lock`, held for the life of the process, so that it dies with kill -9 too."""

import fcntl
import os
from pathlib import Path


class SessionBusyError(Exception):
    """Another process writes this session, or locking does not work here; then nothing may be written."""


class SessionLock:
    """An flock that is held until `release`."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            SessionBusyError: someone else holds it, or the file system cannot lock.
        """
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise SessionBusyError(
                f"{path} cannot be opened ({error.strerror}), so the session stays unwritten."
            ) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise SessionBusyError(f"Session {path.stem} is open in another claw.") from None
        except OSError as error:
            os.close(self._fd)
            raise SessionBusyError(
                f"{path} cannot be locked ({error.strerror}), so the session stays unwritten."
            ) from None

    def release(self) -> None:
        """Unlock. The file stays: removing it would let two processes lock two files of one name."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


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

"""Whether files and folders are as they were when they were looked at, told by their status alone; nothing is read.

A file that changed a moment before it was looked at may change again within the same tick of the file system's clock, so
such a look does not count for later.
"""

import time
from collections.abc import Iterable
from pathlib import Path

_SETTLED_NS = 50_000_000
_Stamp = tuple[int, int, int, int] | None


class Stamps:
    """The status of some paths at one moment. Take it after reading them: what changes in between is noticed."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._stamps = {path: _stamp(path) for path in paths}
        newest = max((max(stamp[0], stamp[1]) for stamp in self._stamps.values() if stamp is not None), default=0)
        self._settled = newest < time.time_ns() - _SETTLED_NS

    def hold(self) -> bool:
        """Whether nothing of it has changed, came or went since."""
        return self._settled and all(_stamp(path) == stamp for path, stamp in self._stamps.items())


def _stamp(path: Path) -> _Stamp:
    """None: it is not there or cannot be looked at. Links are followed, as reading does."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino

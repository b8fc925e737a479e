"""Deleting sessions, by hand and by age: the session file with all that belongs to it, never one that is open.

Decision: a session's age is the time of its last write; to open it again counts as one.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from agent.store.damaged import kept_of
from agent.store.index import SessionIndex
from agent.store.lock import VIEWING, SessionBusyError, held, unviewed
from agent.store.migration import COPY_SUFFIX
from agent.store.scan import BESIDE, SUFFIX, look, scan

_DAY_S = 86_400
_OTHERS = (VIEWING, f"{SUFFIX}{COPY_SUFFIX}")


class Removed(Struct, frozen=True):
    sessions: int = 0
    freed_bytes: int = 0


class Removal:
    """Deletes sessions of one folder, their spilled outputs and what the index keeps of them."""

    def __init__(self, folder: Path, spills: Path, index: SessionIndex) -> None:
        self._folder = folder
        self._spills = spills
        self._index = index

    def size_bytes(self, path: Path) -> int:
        """What deleting this session would free."""
        return sum(_size(file) for file in self._files(path)) + _folder_size(self._spills / path.stem)

    def remove(self, paths: Iterable[Path], unless_since: float | None = None) -> Removed:
        """Delete these; those before one that cannot be deleted are gone. What was written at `unless_since` or later stays.

        Raises:
            SessionBusyError: one is open, or is being read.
            OSError: one cannot be deleted, or not all that belongs to it.
        """
        tried: list[Path] = []
        removed, freed = 0, 0
        try:
            for path in paths:
                size = self.size_bytes(path)
                tried.append(path)
                if self._remove(path, unless_since):
                    removed += 1
                    freed += size
        finally:
            if gone := [path.stem for path in tried if not os.path.lexists(path)]:
                self._index.forget(gone)
        return Removed(removed, freed)

    def are_old(self, days: int, now_s: float | None = None) -> int:
        """How many sessions `remove_older` would look at."""
        limit = _limit(days, now_s)
        return sum(0 < file.changed_s < limit for file in scan(self._folder).files)

    def remove_older(self, days: int, now_s: float | None = None) -> Removed:
        """Delete what was last written more than `days` days ago; what is open, or cannot be deleted, stays."""
        limit = _limit(days, now_s)
        removed = Removed()
        for file in scan(self._folder).files:
            if 0 < file.changed_s < limit:
                with contextlib.suppress(SessionBusyError, OSError):
                    one = self.remove([file.path], limit)
                    removed = Removed(removed.sessions + one.sessions, removed.freed_bytes + one.freed_bytes)
        return removed

    def _remove(self, path: Path, unless_since: float | None) -> bool:
        with held(path), unviewed(path):
            # Somebody may have gone on with it between the look at its age and the lock.
            if unless_since is not None and ((now := look(path)) is None or now.changed_s >= unless_since):
                return False
            failed: OSError | None = None
            # The session file first: without it the rest is nothing, whenever this ends.
            for file in self._files(path):
                try:
                    file.unlink(missing_ok=True)
                except OSError as error:
                    if file == path:
                        raise
                    failed = failed or error  # nobody would find what is left to delete it later
            if path.stem.strip("."):  # a name of dots would be another folder
                shutil.rmtree(self._spills / path.stem, ignore_errors=True)
            if failed is not None:
                raise failed
        return True

    def _files(self, path: Path) -> list[Path]:
        return [
            path,
            *(path.with_name(path.stem + ending) for ending in (*BESIDE, *_OTHERS)),
            *kept_of(path),
        ]


def _limit(days: int, now_s: float | None) -> float:
    return (time.time() if now_s is None else now_s) - days * _DAY_S


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _folder_size(folder: Path) -> int:
    """0 where there is none."""
    return sum(_size(Path(at) / name) for at, _, names in os.walk(folder) for name in names)

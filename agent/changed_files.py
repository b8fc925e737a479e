"""Which files that the model has seen are different on disk now. Files are hashed only when their size or time changed."""

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from agent.prompt import ChangedFile
from agent.transcript import FileFact

_MOST_FILES = 200
"""The newest facts count; older files are compared when a tool touches them."""
_MOST_BYTES = 4 * 1024 * 1024
_Stamp = tuple[int, int]


class FileWatch:
    """Remembers what was hashed, so that an unchanged file costs one look at its size and time."""

    def __init__(self) -> None:
        self._hashed: dict[str, tuple[_Stamp, str]] = {}

    def changed(self, facts: Iterable[FileFact]) -> list[ChangedFile]:
        """The files whose content differs from the newest fact about them, oldest fact first.

        `facts` holds one fact for each file. What cannot be read, is no regular file or is larger than 4 MiB is left out:
        nothing certain can be said of it.
        """
        found: list[ChangedFile] = []
        for fact in list(facts)[-_MOST_FILES:]:
            try:
                sha256 = self._sha256(fact.path)
            except FileNotFoundError:
                found.append(ChangedFile(fact.path, None))
                continue
            except OSError:
                continue
            if sha256 is not None and sha256 != fact.sha256:
                found.append(ChangedFile(fact.path, sha256))
        return found

    def _sha256(self, path: str) -> str | None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        status = Path(path).lstat()
        stamp = (status.st_mtime_ns, status.st_size)
        known = self._hashed.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        if status.st_size > _MOST_BYTES or not stat.S_ISREG(status.st_mode):
            return None
        with os.fdopen(os.open(path, flags), "rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        self._hashed[path] = (stamp, sha256)
        return sha256

"""Texts that were written and not sent, kept over the end of claw: one file for each claw that runs, 0600, by project.

A file belongs to the process that holds its lock. What a process left, whatever ended it, is taken over by the next one in
the same project; of two that run at once neither gets the other's. Everything here touches the disk and belongs in a
thread. What cannot be written costs the draft, never the session.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import threading
from pathlib import Path

from agent.config.paths import ensure_private_dir, path_text
from agent.config.private_file import make_folder_private, make_private, replace_private

MOST_BYTES = 20 * 1024 * 1024


class Drafts:
    """The drafts of one project. `folder` None keeps nothing."""

    def __init__(self, folder: Path | None, project: Path) -> None:
        self._folder = folder
        self._begin = hashlib.sha256(path_text(project).encode()).hexdigest()[:16]
        self._file: Path | None = None
        self._lock = -1
        self._turn = threading.Lock()
        """Saves may run in several threads; the newest text has to be the last."""
        self._newest = 0

    def adopt(self) -> str:
        """The newest text that a claw left which runs no more, from now on this one's own; empty if there is none."""
        if self._folder is None:
            return ""
        make_folder_private(self._folder)
        with self._turn, contextlib.suppress(OSError):
            for path in sorted(self._folder.glob(f"{self._begin}-*.json"), key=_changed, reverse=True):
                if (lock := _try_lock(path.with_suffix(".lock"))) is None:
                    continue
                if (text := _read(path)).strip():
                    self._release()
                    self._file, self._lock = path, lock
                    return text
                _remove(path, lock)
        return ""

    def save(self, text: str, number: int) -> None:
        """Keep this text, or nothing if it is blank. `number` grows with each call: an older text never replaces a newer."""
        with self._turn, contextlib.suppress(OSError, ValueError):
            if self._folder is None or number <= self._newest:
                return
            self._newest = number
            if not text.strip():
                self._release(remove=True)
                return
            if self._file is None:
                ensure_private_dir(self._folder)
                self._file = self._folder / f"{self._begin}-{secrets.token_hex(4)}.json"
                if (lock := _try_lock(self._file.with_suffix(".lock"))) is None:  # another claw could take it over
                    self._file = None
                    return
                self._lock = lock
            replace_private(self._file, json.dumps(text).encode())

    def _release(self, *, remove: bool = False) -> None:
        if self._file is not None and remove:
            _remove(self._file, self._lock)
        elif self._lock >= 0:
            os.close(self._lock)
        self._file, self._lock = None, -1


def _read(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError, RecursionError):
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            text = json.loads(file.read(MOST_BYTES))
        return text if isinstance(text, str) else ""
    return ""


def _try_lock(path: Path) -> int | None:
    """The descriptor that holds the lock, for as long as it is open; None if another process has it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    make_private(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove(path: Path, lock: int) -> None:
    path.unlink(missing_ok=True)
    path.with_suffix(".lock").unlink(missing_ok=True)
    if lock >= 0:
        os.close(lock)


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0

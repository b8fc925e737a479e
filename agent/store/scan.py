"""Which session files a folder holds, told without opening any of them: a folder of thousands is read in milliseconds.

Only regular files count, or links to such: opening a pipe or a device that has a session's name would wait for ever.
"""

import contextlib
import os
import stat
from pathlib import Path

from msgspec import Struct

SUFFIX = ".db"
LOG_SUFFIX = ".db-wal"
BESIDE = (".db-wal", ".db-shm", ".lock", ".salvaged", ".salvaging")
"""Endings of the files that belong to a session file and stand beside it."""


class FoundFile(Struct, frozen=True):
    """A session file as the file system describes it."""

    folder: Path
    name: str
    stamp: str
    """Another text after each write: size, time and inode of the file and of its write-ahead log."""
    changed_s: float
    """Time of the last write; the newest rows may be in the write-ahead log."""
    size_bytes: int
    """With the log."""
    has_log: bool = False
    """Whether there is something in the log: it is open, or was not closed."""

    @property
    def id(self) -> str:
        return self.name[: -len(SUFFIX)]

    @property
    def path(self) -> Path:
        """Made when it is asked for: thousands take longer than to look at the folder."""
        return self.folder / self.name


class Scan(Struct, frozen=True):
    files: tuple[FoundFile, ...] = ()
    """The last written first."""
    problems: tuple[str, ...] = ()
    """A line for each that has the name of a session and is no file, and for a folder that cannot be read."""


def scan(folder: Path) -> Scan:
    """A folder that does not exist holds none."""
    databases: list[tuple[str, os.stat_result]] = []
    logs: dict[str, os.stat_result | None] = {}
    links: list[str] = []
    problems: list[str] = []
    try:
        with os.scandir(folder) as found:
            for item in found:
                if item.name.endswith(LOG_SUFFIX):
                    with contextlib.suppress(OSError):
                        logs[item.name[: -len(LOG_SUFFIX)]] = item.stat()
                elif item.name.endswith(SUFFIX):
                    if (status := _regular(item)) is None:
                        problems.append(f"{folder / item.name} is no regular file, so it is no session.")
                    else:
                        databases.append((item.name, status))
                        if item.is_symlink():
                            links.append(item.name)
    except FileNotFoundError:
        return Scan()
    except OSError as error:
        return Scan((), (f"{folder} cannot be read: {error.strerror}.",))
    logs.update((name[: -len(SUFFIX)], _status_of_log(folder / name)) for name in links)
    files = [_found(folder, name, status, logs.get(name[: -len(SUFFIX)])) for name, status in databases]
    files.sort(key=lambda file: (file.changed_s, file.name), reverse=True)
    return Scan(tuple(files), tuple(sorted(problems)))


def look(path: Path) -> FoundFile | None:
    """One session file as it is now; None if it is gone or no regular file."""
    status = status_of(path)
    if status is None or not stat.S_ISREG(status.st_mode):
        return None
    return _found(path.parent, path.name, status, _status_of_log(path))


def log_of(path: Path) -> Path:
    """Where SQLite keeps the log of a session file: beside the file that a link leads to."""
    real = Path(os.path.realpath(path)) if path.is_symlink() else path
    return real.with_name(f"{real.name}-wal")


def status_of(path: Path) -> os.stat_result | None:
    """None where there is nothing, and where nobody may look."""
    with contextlib.suppress(OSError):
        return path.stat()
    return None


def _status_of_log(path: Path) -> os.stat_result | None:
    with contextlib.suppress(OSError):
        return log_of(path).stat()
    return None


def _regular(item: "os.DirEntry[str]") -> os.stat_result | None:
    try:
        return item.stat() if item.is_file() else None
    except OSError:
        return None


def _found(folder: Path, name: str, status: os.stat_result, log: os.stat_result | None) -> FoundFile:
    # A reader leaves an empty one behind, and what is no file is no log.
    has_log = log is not None and log.st_size > 0 and stat.S_ISREG(log.st_mode)
    stamp, size, changed = f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}", status.st_size, status.st_mtime
    if log is not None and has_log:
        stamp += f":{log.st_size}:{log.st_mtime_ns}"
        size += log.st_size
        changed = max(changed, log.st_mtime)
    return FoundFile(folder, name, stamp, changed if status.st_size else 0.0, size, has_log)

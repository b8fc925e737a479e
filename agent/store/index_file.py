"""The file of the session index: its tables, how it is opened, and how it is made anew.

Everything in it can be read again from the session files, so nothing here is ever an error for the user: a damaged or
foreign file is replaced, and where none can be written the index lives in memory for as long as its owner.
"""

import contextlib
import fcntl
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

from agent.config.private_file import make_folder_private, make_private

T = TypeVar("T")

BUSY_S = 5.0
_AGAIN_S = 0.02
_TRIES = 3
_LAYOUT = 1
_LIMITED = 1_000
"""Added to the layout's number where SQLite lacks the trigram search."""
_TABLES = """
CREATE TABLE session (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL, size_bytes INTEGER NOT NULL,
    project TEXT NOT NULL, facts BLOB NOT NULL
);
CREATE TABLE page (
    number INTEGER PRIMARY KEY, session INTEGER NOT NULL, key INTEGER NOT NULL, kind TEXT NOT NULL,
    time_ms INTEGER NOT NULL, body TEXT NOT NULL
);
CREATE INDEX page_session ON page (session);
"""
_WORDS = "CREATE VIRTUAL TABLE words USING fts5(body, content='page', content_rowid='number', tokenize='trigram')"
_PASSING = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_INTERRUPT")
_VOID = (
    *("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_SCHEMA"),
    "SQLITE_ERROR",  # tables that are not there
    *("SQLITE_READONLY_DBMOVED", "SQLITE_IOERR"),  # another process is just taking it away
)
"""What a file that is no index of ours answers."""


class IndexFile:
    """Connections to the index. Each piece of work gets one of its own, so threads and processes do not meet in it."""

    def __init__(self, file: Path | None, full_text: bool | None = None) -> None:
        """`file` None keeps it in memory; `full_text` None: if SQLite can."""
        self._file = file
        self.full_text = has_trigrams() if full_text is None else full_text
        self._memory: sqlite3.Connection | None = None
        self._memory_lock = threading.Lock()

    def run(self, work: Callable[[sqlite3.Connection], T], busy_s: float = BUSY_S) -> T:
        """What `work` makes of the index; it may be called again, on an index that is empty.

        Raises:
            sqlite3.OperationalError: another process writes for longer than `busy_s`, or `work` was interrupted.
        """
        if self._file is not None and self._memory is None:
            for _ in range(_TRIES):
                inode = _inode(self._file)
                try:
                    with self._opened(self._file, busy_s) as connection:
                        return work(connection)
                except sqlite3.Error as error:
                    name = getattr(error, "sqlite_errorname", "")
                    if name.startswith(_PASSING):
                        raise
                    if not name.startswith(_VOID) or not _remove(self._file, inode):
                        break
        return self._in_memory(work)

    def _in_memory(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._memory_lock:
            if self._memory is None:
                self._memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
                self._lay_out(self._memory)
            return work(self._memory)

    def close(self) -> None:
        with self._memory_lock:
            if self._memory is not None:
                self._memory.close()

    # ------------------------------------------------------------------ the file

    @contextlib.contextmanager
    def _opened(self, file: Path, busy_s: float) -> Iterator[sqlite3.Connection]:
        with contextlib.suppress(OSError):  # said better by the opening itself
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(file, flags, 0o600)
            make_private(descriptor)
            make_folder_private(file.parent)
            os.close(descriptor)
        if not _is_file(file):
            raise sqlite3.OperationalError(f"{file} is no file")
        uri = f"{file.absolute().as_uri()}?mode=rw"
        with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=busy_s)) as connection:
            self._prepare(connection, busy_s)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA secure_delete = ON")
            yield connection

    def _prepare(self, connection: sqlite3.Connection, busy_s: float) -> None:
        """Check the layout, and make it in a new file. SQLite does not wait where two processes do that at once."""
        deadline = time.monotonic() + busy_s
        while True:
            try:
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                if version == self._version:
                    return
                if version or connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
                    raise _foreign()
                connection.execute("PRAGMA journal_mode = WAL")
                self._lay_out(connection)
            except sqlite3.OperationalError as error:
                if not error.sqlite_errorname.startswith(_PASSING) or time.monotonic() > deadline:
                    raise
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                time.sleep(_AGAIN_S)

    @property
    def _version(self) -> int:
        return _LAYOUT if self.full_text else _LAYOUT + _LIMITED

    def _lay_out(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute("PRAGMA user_version").fetchone()[0] == self._version:  # another process was quicker
            connection.execute("COMMIT")
            return
        for statement in [*_TABLES.split(";"), *([_WORDS] if self.full_text else [])]:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {self._version}")
        connection.execute("COMMIT")


def _inode(file: Path) -> int:
    try:
        return file.lstat().st_ino
    except OSError:
        return 0


def _is_file(file: Path) -> bool:
    try:
        return stat.S_ISREG(file.lstat().st_mode)
    except OSError:
        return False


def _remove(file: Path, inode: int) -> bool:
    """Take the file with this inode away, with what SQLite keeps beside it; False where that cannot be done."""
    try:
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # one at a time, so that nobody takes another's new index for the old one
        if inode and _inode(file) == inode:
            for name in (file.name, f"{file.name}-wal", f"{file.name}-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
        return True
    except OSError:
        return False
    finally:
        os.close(folder)


def _foreign() -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError("another layout")
    error.sqlite_errorname = "SQLITE_NOTADB"
    return error


@cache
def has_trigrams() -> bool:
    """Whether this SQLite has FTS5 and its trigram tokenizer (3.34 of 2020 and later, unless left out)."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE t USING fts5(a, tokenize='trigram')")
        except sqlite3.OperationalError:
            return False
    return True

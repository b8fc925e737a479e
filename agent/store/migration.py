"""Brings a session file of an older layout to this one, on a copy beside it: the old file is there, whole, until the new one
is, checked and on the disk, and takes its name. What becomes of each layout stands in `schema.STEPS`.

Nothing may be left in the old file's write-ahead log then, since SQLite would read it into the new one.
"""

import contextlib
import errno
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.config.private_file import create_private
from agent.store.schema import STEPS, VERSION, connect, version_of
from agent.store.syncing import sync_file, sync_folder

COPY_SUFFIX = ".migrating"
_LOGS = ("-wal", "-shm", "-journal")
_PATIENCE_MS = 500
"""For those who just look at it; whoever reads for longer is waited for by trying again."""
_TABLES = ("meta", "entry", "blob", "count", "queue")


class MigrationError(Exception):
    """The file is as it was; the text says what is wrong with it."""


def migrate(path: Path, steps: Mapping[int, Sequence[str]] = STEPS, version: int = VERSION) -> bool:
    """Migrate the file if its layout is older. The caller holds the session's lock. Returns whether it was.

    Raises:
        MigrationError: its content does not pass the check.
        OSError, sqlite3.Error: not done; for instance there is no room for a copy, or another program reads the file.
    """
    path = path.resolve()  # a link goes on leading to it
    copy = path.with_name(path.name + COPY_SUFFIX)
    with contextlib.closing(connect(path)) as old:
        layout = version_of(old)
        if not 1 <= layout < version:
            return False
        try:
            old.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}")
            busy, _, _ = old.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise sqlite3.OperationalError("another program is reading it")
            _check_room(path)
            _copy(old, copy, [statement for number in range(layout, version) for statement in steps[number]], version)
        except BaseException:
            _remove(copy)
            raise
    try:
        sync_file(copy)
        for ending in _LOGS:  # empty, and nobody writes but who holds the lock
            path.with_name(path.name + ending).unlink(missing_ok=True)
        copy.replace(path)
    except BaseException:
        _remove(copy)
        raise
    sync_folder(path.parent)
    return True


def _check_room(path: Path) -> None:
    """Not to fill the disk with half a copy each time that it is tried.

    Raises:
        OSError: there is no room for another file of this size.
    """
    disk = os.statvfs(path.parent)
    if disk.f_bavail * disk.f_frsize < path.stat().st_size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _copy(old: sqlite3.Connection, copy: Path, statements: Sequence[str], version: int) -> None:
    _remove(copy)  # what a killed process left
    create_private(copy)
    with contextlib.closing(connect(copy)) as new:
        old.backup(new)
        new.execute("PRAGMA journal_mode = DELETE")
        new.execute("BEGIN IMMEDIATE")
        for statement in statements:
            new.execute(statement)
        new.execute(f"PRAGMA user_version = {version}")
        new.execute("COMMIT")
        found = [row[0] for row in new.execute("PRAGMA integrity_check(1)")]
        if found != ["ok"]:
            raise MigrationError(f"it is damaged: {found[0]}")
        if _sizes(new) != _sizes(old):
            raise MigrationError("the copy of it is not whole")
        new.execute("PRAGMA journal_mode = WAL")


def _sizes(connection: sqlite3.Connection) -> list[int]:
    rows = [connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in _TABLES]
    return [*rows, *connection.execute("SELECT TOTAL(LENGTH(payload)) FROM entry").fetchone()]


def _remove(copy: Path) -> None:
    for ending in ("", *_LOGS):
        with contextlib.suppress(OSError):
            copy.with_name(copy.name + ending).unlink(missing_ok=True)

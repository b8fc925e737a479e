"""Opening a session file to read it, whatever state it is in, and what stands in it beside the entries."""

import contextlib
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from agent.store.base import SessionMeta
from agent.store.scan import look, status_of
from agent.store.schema import VERSION, SchemaError, check_version, connect, newer, version_of

T = TypeVar("T")
_HIGHEST_LAYOUT = 1_000
"""No layout that will ever be; a higher number in a file is damage."""
_NO_DAMAGE = tuple(
    f"SQLITE_{name}" for name in ("BUSY", "LOCKED", "CANTOPEN", "PERM", "READONLY", "NOMEM", "FULL", "AUTH")
)
"""How SQLite names what is wrong with a file's surroundings."""

_TIME_DIGITS = 14
"""Milliseconds have thirteen, for centuries."""


class DamagedFileError(SchemaError):
    """What is in the file is not what was written; `damaged` knows what can be done."""


@contextlib.contextmanager
def reading(path: Path, *, settled: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection that only reads, also while another process writes; for `settled` see `connect`.

    Raises:
        NewerLayoutError: a newer layout that lacks what is looked for.
        DamagedFileError: damaged, or not a session file; also for what the caller's own queries meet.
        SchemaError: not ours to read.
    """
    if (status := status_of(path)) and not stat.S_ISREG(status.st_mode):  # to open a pipe would wait for ever
        raise SchemaError(f"{path} is no regular file, so it is no session.\nMove it out of that folder.")
    layout = 0
    try:
        with contextlib.closing(connect(path, read_only=True, settled=settled)) as connection:
            connection.text_factory = lenient
            if not 0 < version_of(connection) <= _HIGHEST_LAYOUT:
                raise DamagedFileError(f"{path} is not a session file.\nMove it out of that folder.")
            layout = check_version(connection, path)
            yield connection
    except sqlite3.Error as error:
        if layout > VERSION and isinstance(error, sqlite3.OperationalError):  # it lacks what this claw looks for
            raise newer(path, layout) from None
        passing = getattr(error, "sqlite_errorname", "").startswith(_NO_DAMAGE)
        raise (SchemaError if passing else DamagedFileError)(
            f"{path} cannot be read: {error}.\n"
            "It is damaged, or its permissions are not yours; `claw sessions list --all` shows the others."
        ) from None


def read_quietly(path: Path, read: Callable[[sqlite3.Connection], T]) -> T:
    """What `read` makes of the file, without leaving anything beside it: a reader makes two files there that it cannot
    take away, which is much where thousands of sessions are looked at. `read` may be called twice.

    Raises:
        SchemaError: see `reading`.
    """
    before = look(path)
    if before is not None and not before.has_log:
        try:
            with reading(path, settled=True) as connection:
                result = read(connection)
        except SchemaError as error:
            if isinstance(error, DamagedFileError) and look(path) == before:
                raise
        else:
            if look(path) == before:  # otherwise somebody wrote meanwhile
                return result
    with reading(path) as connection:
        return read(connection)


def read_meta(connection: sqlite3.Connection, path: Path) -> SessionMeta:
    found = connection.execute("SELECT name, value FROM meta")
    rows = {name: value for name, value in found if isinstance(name, str) and isinstance(value, str)}
    created = rows.get("created_ms", "0")
    is_time = created.isascii() and created.isdigit() and len(created) < _TIME_DIGITS
    return SessionMeta(
        rows.get("id", path.stem), rows.get("project", ""), int(created) if is_time else 0, rows.get("forked_from")
    )


def lenient(raw: bytes) -> str:
    """A text as far as it can be read, so that one wrong byte does not cost a row."""
    return raw.decode("utf-8", "replace")

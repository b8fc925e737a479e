"""Opening a session file to read it, whatever state it is in, and what stands in it beside the entries."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from agent.store.base import SessionMeta
from agent.store.scan import look
from agent.store.schema import SchemaError, check_version, connect

T = TypeVar("T")


@contextlib.contextmanager
def reading(path: Path, *, settled: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection that only reads, also while another process writes; for `settled` see `connect`.

    Raises:
        SchemaError: a newer layout, damaged, not a session file, or not ours to read; also for what the caller's own
            queries meet.
    """
    if path.exists() and not path.is_file():  # to open a pipe would wait for ever
        raise SchemaError(f"{path} is no regular file, so it is no session.\nMove it out of that folder.")
    try:
        with contextlib.closing(connect(path, read_only=True, settled=settled)) as connection:
            check_version(connection, path)
            yield connection
    except sqlite3.Error as error:
        raise SchemaError(
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
        with contextlib.suppress(SchemaError), reading(path, settled=True) as connection:
            result = read(connection)
            if look(path) == before:  # otherwise somebody wrote meanwhile
                return result
    with reading(path) as connection:
        return read(connection)


def read_meta(connection: sqlite3.Connection, path: Path) -> SessionMeta:
    rows = dict(connection.execute("SELECT name, value FROM meta"))
    created = rows.get("created_ms", "0")
    return SessionMeta(
        rows.get("id", path.stem),
        rows.get("project", ""),
        int(created) if created.isdigit() else 0,
        rows.get("forked_from"),
    )

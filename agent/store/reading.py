"""Opening a session file to read it, whatever state it is in, and what stands in it beside the entries."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from agent.store.base import SessionMeta
from agent.store.schema import SchemaError, check_version, connect


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that only reads, also while another process writes.

    Raises:
        SchemaError: a newer layout, damaged, not a session file, or not ours to read; also for what the caller's own
            queries meet.
    """
    if path.exists() and not path.is_file():  # to open a pipe would wait for ever
        raise SchemaError(f"{path} is no regular file, so it is no session.\nMove it out of that folder.")
    try:
        with contextlib.closing(connect(path, read_only=True)) as connection:
            check_version(connection, path)
            yield connection
    except sqlite3.Error as error:
        raise SchemaError(
            f"{path} cannot be read: {error}.\n"
            "It is damaged, or its permissions are not yours; `claw sessions list --all` shows the others."
        ) from None


def read_meta(connection: sqlite3.Connection, path: Path) -> SessionMeta:
    rows = dict(connection.execute("SELECT name, value FROM meta"))
    created = rows.get("created_ms", "0")
    return SessionMeta(
        rows.get("id", path.stem),
        rows.get("project", ""),
        int(created) if created.isdigit() else 0,
        rows.get("forked_from"),
    )

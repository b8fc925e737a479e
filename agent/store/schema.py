"""The tables of a session file and the version of their layout."""

import os
import sqlite3
from pathlib import Path

from agent.store.scan import look

VERSION = 2
BUSY_S = 5.0
"""How long a connection waits for another one's lock."""

STEPS = {
    1: (
        "ALTER TABLE queue ADD COLUMN delivery TEXT NOT NULL DEFAULT 'step'",
        "ALTER TABLE queue ADD COLUMN user BLOB",
    ),
}
"""What makes each older layout the one after it."""

_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE entry (
    key INTEGER PRIMARY KEY, parent INTEGER, kind TEXT NOT NULL, time_ms INTEGER NOT NULL, payload BLOB NOT NULL
);
CREATE TABLE blob (sha256 TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE count (key INTEGER NOT NULL, tokenizer TEXT NOT NULL, tokens INTEGER NOT NULL, PRIMARY KEY (key, tokenizer))
    WITHOUT ROWID;
CREATE TABLE queue (id INTEGER PRIMARY KEY, text TEXT NOT NULL, delivery TEXT NOT NULL DEFAULT 'step', user BLOB);
"""


class SchemaError(Exception):
    """The file is no session file, or cannot be read; one line of what, one of what to do."""


class NewerLayoutError(SchemaError):
    """The file was written by a newer claw: this one must not write it, and may not be able to read it."""


def connect(path: Path, *, read_only: bool = False, settled: bool = False) -> sqlite3.Connection:
    """Open a session file. A connection belongs to the thread that uses it; transactions are begun by hand.

    `settled`: nobody writes it, so it is read as it stands, and nothing is made beside it.
    """
    mode = "ro" if read_only else "rw"
    if settled:
        mode = "ro&immutable=1"
    elif read_only and not os.access(path.parent, os.W_OK) and (file := look(path)) and not file.has_log:
        # SQLite wants to make the log's index beside the file even to read; where it cannot, nobody can write either.
        mode = "ro&immutable=1"
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_S)
    try:
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:  # it keeps itself alive, and with it the file open, until it is closed
        connection.close()
        raise
    return connection


def create_tables(connection: sqlite3.Connection) -> None:
    """Lay out an empty file; part of the caller's first transaction, except for the journal mode, which cannot be."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    for statement in _TABLES.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def version_of(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def check_version(connection: sqlite3.Connection, path: Path, *, to_write: bool = False) -> int:
    """The file's layout. One that is newer can be read as far as it has what this one has, and never be written.

    Raises:
        NewerLayoutError: newer than this claw, and it is to be written.
        SchemaError: empty.
        sqlite3.Error: not a database, or a damaged one.
    """
    version = version_of(connection)
    if version > VERSION and to_write:
        raise newer(path, version)
    if version < 1:
        raise SchemaError(f"{path} is not a session file.\nMove it out of that folder.")
    return version


def newer(path: Path, version: int) -> "NewerLayoutError":
    return NewerLayoutError(
        f"{path} was written by a newer claw (layout {version}, this one knows {VERSION}).\nUpdate claw."
    )

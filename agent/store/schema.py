"""The tables of a session file and the version of their layout."""

import sqlite3
from pathlib import Path

VERSION = 1

_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE entry (
    key INTEGER PRIMARY KEY, parent INTEGER, kind TEXT NOT NULL, time_ms INTEGER NOT NULL, payload BLOB NOT NULL
);
CREATE TABLE blob (sha256 TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE count (key INTEGER NOT NULL, tokenizer TEXT NOT NULL, tokens INTEGER NOT NULL, PRIMARY KEY (key, tokenizer))
    WITHOUT ROWID;
CREATE TABLE queue (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
"""


class SchemaError(Exception):
    """The file was written by a newer claw, or is no session file."""


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a session file. A connection belongs to the thread that uses it; transactions are begun by hand."""
    uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=5)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def create_tables(connection: sqlite3.Connection) -> None:
    """Lay out an empty file; part of the caller's first transaction, except for the journal mode, which cannot be."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    for statement in _TABLES.split(";"):
        if statement.strip():
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    """
    Raises:
        SchemaError: newer than this claw, or not a session file at all.
    """
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.DatabaseError as error:
        raise SchemaError(f"{path} is not a session file or is damaged ({error}).") from None
    if version > VERSION:
        raise SchemaError(
            f"{path} was written by a newer claw (layout {version}, this one knows {VERSION}). Update claw."
        )
    if version < 1:
        raise SchemaError(f"{path} is not a session file.")

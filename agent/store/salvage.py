"""Takes out of a damaged session file what is still in it: first what SQLite reads, row by row from both ends of each table,
then what the pages and the log hold. Writes it into another database; the damaged file is only read.

Rows are told apart by their shape, so that no table, no inner page and no header is needed. Entries and blobs are never
changed or removed, so that older versions of a page give what the newest cannot. Only the queue shrinks: of it, what hangs
on its root counts.
"""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agent.store import salvage_pages as pages
from agent.store.mending import MOST_KEY
from agent.store.reading import lenient
from agent.store.salvage_pages import PageFile, Value
from agent.store.salvage_rows import Salvage, Saved
from agent.store.scan import log_of, look
from agent.store.schema import connect

_SHA256_CHARS = 64
_SHA256_TYPE = 13 + 2 * _SHA256_CHARS
_QUEUE_ROOT = 7
"""Where the queue's tree begins in every session file, for when the table of tables is lost."""
_DEEPEST = 20
_ENTRIES = "SELECT key, key, parent, kind, time_ms, payload FROM entry ORDER BY key"
_BLOBS = "SELECT rowid, sha256, data FROM blob ORDER BY rowid"
_META = "SELECT name, value FROM meta"
_COUNTS = "SELECT key, tokenizer, tokens FROM count"
_Take = Callable[..., None]


def salvage(path: Path, target: sqlite3.Connection) -> Salvage:
    """Fill the empty tables of `target`, in a transaction that the caller has begun. Nothing is saved if no entry is.

    Raises:
        OSError: the file cannot be opened.
    """
    saved = Saved(target, path.stem)
    with opened(path) as found:
        _by_sqlite(path, saved)
        _by_pages(found, saved)
        # SQLite sees an older queue where it cannot read the log.
        is_queue_read = _queue_by_pages(found, saved) or _queue_by_sqlite(path, saved)
        missing = _missing_bytes(found)
    return saved.finish(is_queue_lost=not is_queue_read, missing_bytes=missing)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[PageFile]:
    """
    Raises:
        OSError: the file cannot be opened.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    database = os.open(path, flags)
    log: int | None = None
    try:
        beside = log_of(path)
        if beside.is_file():
            with contextlib.suppress(OSError):
                log = os.open(beside, flags)
        yield PageFile(database, log)
    finally:
        os.close(database)
        if log is not None:
            os.close(log)


def meta_value(path: Path, name: str) -> str:
    """A value of the session's meta table; empty if it is lost. Mostly it stands at the file's beginning.

    Raises:
        OSError: the file cannot be opened.
    """
    with opened(path) as found:
        for kind, cell in found.cells():
            types = pages.serial_types(cell.local) if kind != pages.TABLE_LEAF else None
            row = _row(found, cell, types) if types and len(types) == 2 else None
            if row is not None and row[0] == name and isinstance(row[1], str):
                return row[1]
    return ""


# --------------------------------------------------------------------------- by SQLite


def _by_sqlite(path: Path, saved: Saved) -> None:
    try:
        source = _connected(path)
    except sqlite3.Error:
        return
    with contextlib.closing(source):
        whole: tuple[tuple[str, _Take], ...] = ((_ENTRIES, saved.entry), (_BLOBS, saved.blob))
        for query, take in whole:
            if not _walk(source, query, take):
                _walk(source, f"{query} DESC", take)
        beside: tuple[tuple[str, _Take], ...] = ((_META, saved.named), (_COUNTS, saved.count))
        for query, take in beside:
            for row in _readable(source, query):
                if row is not None:
                    take(*row)


def _connected(path: Path) -> sqlite3.Connection:
    file = look(path)
    connection = connect(path, read_only=True, settled=file is not None and not file.has_log)
    connection.text_factory = lenient
    return connection


def _queue_by_sqlite(path: Path, saved: Saved) -> bool:
    """Whether the whole queue could be read."""
    rows: list[tuple[Any, ...]] | None = None
    with contextlib.suppress(sqlite3.Error), contextlib.closing(_connected(path)) as source:
        rows = source.execute("SELECT * FROM queue ORDER BY id").fetchall()
    for row in rows or ():
        saved.message(*row[:4])
    return rows is not None


def _walk(source: sqlite3.Connection, query: str, take: _Take) -> bool:
    """Up to the first row that cannot be read, or where the order breaks; whether all were read. The row before a break
    may be the one with a wrong number, so it is not taken."""
    before: tuple[Any, ...] | None = None
    grows = not query.endswith("DESC")
    for row in _readable(source, query):
        if before is not None:
            if row is not None and (row[0] > before[0]) != grows:
                return False
            take(*before[1:])
        if row is None:
            return False
        before = row
    if before is not None:
        take(*before[1:])
    return True


def _readable(source: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...] | None]:
    """The rows up to the first that cannot be read, for which None stands. What goes wrong where they are written is not
    hidden."""
    try:
        yield from source.execute(query)
    except (sqlite3.Error, OverflowError, MemoryError):
        yield None


# --------------------------------------------------------------------------- by pages


def _by_pages(found: PageFile, saved: Saved) -> None:
    for kind, cell in found.cells():
        types = pages.serial_types(cell.local) or []
        if kind == pages.TABLE_LEAF:
            _take_from_table(found, saved, cell, types)
        elif len(types) in (2, 3) and (row := _row(found, cell, types)):
            if len(row) == 3:
                saved.count(*row)
            elif row[0] in ("id", "project", "created_ms", "forked_from"):
                saved.named(*row)


def _take_from_table(found: PageFile, saved: Saved, cell: pages.Cell, types: list[int]) -> None:
    if len(types) == 5 and types[0] == 0 and types[2] >= 13 and types[4] >= 12 and cell.rowid not in saved.entries:
        if not cell.is_in_order:  # whose it is is not known
            return
        row = _row(found, cell, types)
        if row is not None:
            saved.entry(cell.rowid, *row[1:])
        elif cell.rowid is not None and 0 < cell.rowid <= MOST_KEY:
            saved.unreadable.add(cell.rowid)
    elif len(types) == 2 and types[0] == _SHA256_TYPE and types[1] >= 12 and (row := _row(found, cell, types)):
        saved.blob(*row)


def _row(found: PageFile, cell: pages.Cell, types: list[int]) -> list[Value] | None:
    header, _ = pages.varint(cell.local, 0)
    if header + pages.record_size(types) != cell.size:
        return None
    record = found.whole(cell)
    return None if record is None else pages.values(record, types)


def _queue_by_pages(found: PageFile, saved: Saved) -> bool:
    """Whether the queue's tree could be followed to its ends."""
    root = _QUEUE_ROOT
    for cell in pages.page_cells(found.newest(1), found.usable, pages.TABLE_LEAF, is_first=True):
        types = pages.serial_types(cell.local)
        row = _row(found, cell, types) if types else None
        if row is not None and row[:2] == ["table", "queue"] and isinstance(row[3], int):
            root = row[3]
    level, seen = [root], {0}
    for _ in range(_DEEPEST):
        below: list[int] = []
        for number in level:
            page = found.newest(number)
            if number in seen or page[:1] not in (b"\x0d", b"\x05"):
                return False
            seen.add(number)
            below += pages.children(page)
            for cell in pages.page_cells(page, found.usable, pages.TABLE_LEAF):
                types = pages.serial_types(cell.local)
                row = _row(found, cell, types) if types and len(types) in (2, 4) and types[0] == 0 else None
                if row is not None:
                    saved.message(cell.rowid, *row[1:])
        if not below:
            return True
        level = below
    return False


def _missing_bytes(found: PageFile) -> int:
    """Of the pages that the file should have, those that neither it nor its log holds whole."""
    first = found.newest(1)
    said = int.from_bytes(first[28:32], "big") if first[:16] == pages.MAGIC else 0
    whole, cut_bytes = divmod(found.database_bytes, found.page_bytes)
    if not whole < said < 1 << 22:
        return 0
    logged = {frame.page for frame in found.frames if frame.is_good and whole < frame.page <= said}
    return (said - whole - len(logged)) * found.page_bytes - (0 if whole + 1 in logged else cut_bytes)

"""The page format, against files that SQLite wrote."""

import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agent.store import salvage_pages as pages
from agent.store.salvage import opened
from agent.store.salvage_log import FRAME_HEADER_BYTES, log_goes_on
from agent.store.salvage_pages import PageFile


def fill(path: Path, page_bytes: int, *, keep_log: bool) -> tuple[dict[int, tuple[object, ...]], sqlite3.Connection]:
    """A table of rows of every type and length, some overwritten and removed; its rows, and the connection that is open."""
    chance = random.Random(page_bytes)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA page_size = {page_bytes}")
    connection.execute("PRAGMA journal_mode = WAL")
    if keep_log:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, c)")
    for _ in range(6):
        connection.execute("BEGIN")
        for _ in range(60):
            size = chance.choice((0, 1, 10, 60, 400, page_bytes, 3 * page_bytes, 20_000))
            row = (
                chance.choice((0, 1, -1, 127, -129, 2**15, -(2**23), 2**31, -(2**40), 2**62, None)),
                "é" * (size // 2),
                chance.choice((chance.randbytes(size), 0.5, None, "")),
            )
            key = chance.choice((chance.randrange(1, 300), chance.randrange(-5, 2**40)))
            connection.execute("INSERT OR REPLACE INTO t VALUES (?, ?, ?, ?)", (key, *row))
        connection.execute("DELETE FROM t WHERE id % 7 = 0")
        connection.execute("COMMIT")
    return {row[0]: row[1:] for row in connection.execute("SELECT * FROM t")}, connection


def tree(file: PageFile, root: int) -> Iterator[tuple[int | None, tuple[object, ...] | None]]:
    page = file.newest(root)
    for child in pages.children(page):
        yield from tree(file, child)
    for cell in pages.page_cells(page, file.usable, pages.TABLE_LEAF):
        record = file.whole(cell)
        types = pages.serial_types(record) if record else None
        row = pages.values(record, types) if record and types else None
        yield cell.rowid, None if row is None else tuple(row[1:])


@contextmanager
def log_of(path: Path) -> Iterator[int]:
    fd = os.open(path.with_name(path.name + "-wal"), os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


@pytest.mark.parametrize(("page_bytes", "keep_log"), [(512, True), (4096, False), (4096, True), (65536, False)])
def test_every_row_is_read_as_sqlite_wrote_it(tmp_path: Path, page_bytes: int, keep_log: bool) -> None:
    path = tmp_path / "x.db"
    rows, connection = fill(path, page_bytes, keep_log=keep_log)
    with closing(connection):
        if not keep_log:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with opened(path) as file:
            assert file.page_bytes == page_bytes
            assert dict(tree(file, 2)) == rows
            assert bool(file.frames) == keep_log and all(frame.is_good for frame in file.frames)


def test_a_damaged_frame_is_told_from_the_good_ones_and_from_what_was_not_written_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    _, connection = fill(path, 4096, keep_log=True)
    with closing(connection):
        step = 4096 + FRAME_HEADER_BYTES
        log = path.with_name("x.db-wal")
        whole = log.read_bytes()
        count = (len(whole) - 32) // step
        with log_of(path) as fd:
            assert not log_goes_on(fd, count, 4096)
            assert log_goes_on(fd, count - 1, 4096)
        for at, bad in (
            (32 + 5 * step + 1000, 1),
            (32 + 5 * step + 2, 1),
            (32 + 5 * step + 17, 2),
            (32 + 5 * step + 9, 1),
        ):
            log.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            with opened(path) as file:
                assert [frame.is_good for frame in file.frames].count(False) == bad
            with log_of(path) as fd:
                assert log_goes_on(fd, 5, 4096)
        log.write_bytes(whole[: 32 + 3 * step + 100])  # not written to its end: an ordinary crash
        with log_of(path) as fd:
            assert not log_goes_on(fd, 3, 4096)


def test_noise_is_never_followed_for_long_and_never_raises(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    fill(path, 4096, keep_log=True)[1].close()
    whole = path.read_bytes()
    for seed in range(15):
        chance = random.Random(seed)
        noisy = bytearray(whole)
        for _ in range(chance.choice((3, 300, 30_000))):
            noisy[chance.randrange(len(noisy))] = chance.randrange(256)
        path.write_bytes(noisy[: chance.randrange(1, len(noisy))])
        with opened(path) as file:
            for _, cell in file.cells():
                record = file.whole(cell)
                if record and (types := pages.serial_types(record)):
                    pages.values(record, types)

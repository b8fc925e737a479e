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


@pytest.mark.parametrize(
    ("data", "at", "found"),
    [
        (b"\x05", 0, (5, 1)),
        (b"?\x7f", 1, (127, 2)),
        (b"\x81\x00", 0, (128, 2)),
        (b"\x80\x01", 0, (1, 2)),
        (b"\xff" * 8 + b"\x80", 0, (2**64 - 128, 9)),
        (b"\xff" * 9, 0, (2**64 - 1, 9)),
        (b"\xff" * 8, 0, (0, 0)),
        (b"\x81", 0, (0, 0)),
        (b"", 0, (0, 0)),
    ],
)
def test_numbers_are_read_to_their_ends(data: bytes, at: int, found: tuple[int, int]) -> None:
    assert pages.varint(data, at) == found


@pytest.mark.parametrize(
    ("record", "types", "values"),
    [
        (b"\x01", [], []),
        (b"\x0b\0\x01\x02\x03\x04\x05\x06\x08\x09\x07" + b"\xff" * 24 + bytes(8),
         [0, 1, 2, 3, 4, 5, 6, 8, 9, 7], [None, -1, -1, -1, -1, -1, -1, 0, 1, 0.0]),
        (b"\x05\x0c\x0d\x0e\x13" + b"bte\xff", [12, 13, 14, 19], [b"", "", b"b", "te\ufffd"]),
        (b"\x05\x0c\x0d\x0e\x13" + b"bte", [12, 13, 14, 19], None),
        (b"\x02\x01", [1], None),
        (b"\x02\x01\x07\x07", [1], None),
        (b"\x02\x81\x00", None, None),
        (b"\x09\x01\x07", None, None),
        (b"\x81", None, None),
        (b"\x00\x01", None, None),
        (b"", None, None),
    ],
)  # fmt: skip
def test_a_record_is_what_its_header_says_or_none(
    record: bytes, types: list[int] | None, values: list[pages.Value] | None
) -> None:
    assert pages.serial_types(record) == types
    assert types is None or pages.values(record, types) == values


def test_the_kinds_that_sqlite_keeps_to_itself_have_no_values() -> None:
    assert pages.record_size((10, 11, 12, 13)) == 0 and pages.record_size((9, 5, 7, 14)) == 15


@pytest.mark.parametrize(("table", "kind"), [("", pages.TABLE_LEAF), (" WITHOUT ROWID", pages.INDEX_LEAF)])
def test_rows_of_every_length_around_that_at_which_they_go_on_elsewhere(tmp_path: Path, table: str, kind: int) -> None:
    path = tmp_path / "x.db"
    overhead, most = 16, (4096 - 35 if not table else (4096 - 12) * 64 // 255 - 23)
    sizes = [*range(most - overhead, most + 3), *range(most + 4092 - overhead, most + 4092 + 3), 0, 1, 30_000]
    rows = {number: b"%d" % number + b"x" * size for number, size in enumerate(sizes, 1_000)}
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute(f"CREATE TABLE t (id PRIMARY KEY, data){table}")
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows.items())
        connection.execute("CREATE TABLE nulls (x)")
        connection.execute("INSERT INTO nulls VALUES (NULL)")
        connection.execute("COMMIT")
    found: dict[object, object] = {}
    shortest = 99
    with opened(path) as file:
        for its_kind, cell in file.cells():
            record = file.whole(cell)
            shortest = min(shortest, cell.size)
            if record and (types := pages.serial_types(record)) and len(types) == 2 and types[1] >= 12:
                row = pages.values(record, types)
                assert row is not None and its_kind in (kind, pages.INDEX_INTERIOR)
                found[row[0]] = row[1]
    assert found == rows and shortest == 2, "a row of a null is all of a header"


@pytest.mark.parametrize(
    ("page_bytes", "keep_log", "header"),
    [
        (512, False, None),
        (65536, False, None),
        (512, True, b"no database, really"),
        (65536, True, b"no database, really"),
        (4096, True, b"no database, really"),
        (4096, False, b"no database, really"),
        *((4096, False, pages.MAGIC + said) for said in (b"\0\0", b"\0d", b"\x02\x01", b"\x02\0", b"\x20\0", b"\0\1")),
    ],
)
def test_the_length_of_pages_is_as_header_or_log_say_or_as_most_can_be_read(
    tmp_path: Path, page_bytes: int, keep_log: bool, header: bytes | None
) -> None:
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {page_bytes}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a)")
        connection.executemany("INSERT INTO t VALUES (?, 'some words')", ((number,) for number in range(300)))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if keep_log:
            connection.execute("UPDATE t SET a = 'others'")
        if header is not None:
            with path.open("r+b") as damaged:
                damaged.write(header)
        with opened(path) as file:
            assert file.page_bytes == page_bytes


def test_what_is_cut_in_the_middle_of_a_page_gives_the_cells_that_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    fill(path, 4096, keep_log=False)[1].close()
    whole = path.read_bytes()
    for size in (0, 1, 7, 8, 99, 100, 101, 107, 108, 109, 4095, 4097, 4107, 9_000):
        path.write_bytes(whole[:size])
        with opened(path) as file:
            assert file.count == -(-size // 4096)
            assert all(len(cell.local) == cell.size or cell.overflow for _, cell in file.cells())
    leaf = next(page for n in range(1, 99) if (page := whole[n * 4096 :][:4096])[0] == pages.TABLE_LEAF)
    inner = next(page for n in range(1, 99) if (page := whole[n * 4096 :][:4096])[0] == pages.TABLE_INTERIOR)
    assert list(pages.page_cells(leaf, 4096, pages.TABLE_LEAF)) and pages.children(inner)
    assert not list(pages.page_cells(inner, 4096, pages.TABLE_LEAF)) and not pages.children(leaf)
    assert pages.children(inner[:11]) == [] and pages.children(b"") == []
    assert pages.children(b"\x05" + bytes(7) + b"\0\0\0\x09") == [9], "one that has but its last"


def test_an_older_version_of_a_page_comes_behind_and_a_damaged_one_last(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a)")
        connection.execute("INSERT INTO t VALUES (1, 'in the file')")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for number in (1, 2):
            connection.execute("UPDATE t SET a = ?", (f"in the log {number}",))
        connection.execute("INSERT INTO t VALUES (2, ?)", ("x" * 5_000,))
        log = path.with_name("x.db-wal")
        at = log.read_bytes().index(b"in the log 2")

        def rows() -> list[bytes]:
            with opened(path) as file:
                return [cell.local[3:] for _, cell in file.cells() if cell.rowid == 1 and b"the" in cell.local]

        with opened(path) as file:
            assert file.count == 2 and {frame.page for frame in file.frames} == {1, 2, 3}
            assert file.newest(3).startswith(b"\0\0\0\0xxx") and file.newest(0) == file.newest(4) == b""
        assert rows() == [b"in the log 2", b"in the log 2", b"in the log 1", b"in the file"]
        with log.open("r+b") as damaged:
            damaged.seek(at)
            damaged.write(b"IN")
        assert rows() == [b"in the log 2", b"in the log 1", b"in the file", b"IN the log 2"]
        with log.open("r+b") as damaged:
            damaged.seek(log.read_bytes().index(b"\0\0\0\0xxx") + 9)
            damaged.write(b"y")
        with opened(path) as file:
            assert file.newest(3)[4:12] == b"xxxxxyxx", "what is only in a damaged frame is all there is"


def test_holes_are_not_looked_at_and_chains_come_to_an_end(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    rows, connection = fill(path, 4096, keep_log=False)
    connection.close()
    with path.open("r+b") as holed:
        holed.seek(4096 * 5_000)
        holed.write(b"\0\0\x13\x89" * 1_024)  # a page that goes on in itself
        holed.truncate(1 << 40)
    with opened(path) as file:
        assert len({cell.rowid for kind, cell in file.cells() if kind == pages.TABLE_LEAF}) >= len(rows)
    os.truncate(path, 4096 * 5_001)
    with opened(path) as file:
        assert len(file.whole(pages.Cell(1, 9_000, b"", 5_001)) or b"") == 9_000
        assert file.whole(pages.Cell(1, 150_000_000, b"", 5_001)) is None, "more than all there is"
        assert file.whole(pages.Cell(1, 9_000, b"", 5_002)) is None


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

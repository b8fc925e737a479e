"""The write-ahead log, against logs that SQLite wrote: which frames are good, and which logs are damaged."""

import os
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agent.store.salvage_log import FRAME_HEADER_BYTES, LOG_HEADER_BYTES, log_frames, log_goes_on

STEP = FRAME_HEADER_BYTES + 4096
BIG_ENDIAN = 0x377F0683


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """Five frames of its second turn, and behind them what is left of the first."""
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a)")
        for _ in range(9):
            connection.execute("INSERT INTO t (a) VALUES ('first turn')")
        connection.execute("PRAGMA wal_checkpoint")
        for _ in range(5):
            connection.execute("INSERT INTO t (a) VALUES ('second turn')")
        yield tmp_path / "x.db-wal"


@contextmanager
def opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


def good(path: Path) -> list[bool]:
    with opened(path) as fd:
        return [frame.is_good for frame in log_frames(fd, os.pread(fd, LOG_HEADER_BYTES, 0), 4096)]


def goes_on(path: Path, read_frames: int, page_bytes: int = 4096) -> bool:
    with opened(path) as fd:
        return log_goes_on(fd, read_frames, page_bytes)


def turn_bits(path: Path, *places: int) -> None:
    with path.open("r+b") as file:
        for at in places:
            file.seek(at)
            (byte,) = file.read(1)
            file.seek(at)
            file.write(bytes([byte ^ 0x41]))


def frame(number: int, at: int) -> int:
    return LOG_HEADER_BYTES + number * STEP + at


def test_frames_of_an_earlier_turn_are_not_good_and_no_damage(log: Path) -> None:
    assert good(log)[:5] == [True] * 5 and not any(good(log)[5:]) and len(good(log)) > 6
    assert [goes_on(log, read) for read in (0, 4, 5, 6, 99)] == [True, True, False, False, False]
    turn_bits(log, frame(6, 8))
    assert goes_on(log, 5), "of no turn that ever was"


def test_a_frame_that_ends_no_transaction_may_have_been_cut_off(log: Path) -> None:
    turn_bits(log, frame(3, 500))
    assert goes_on(log, 3)
    with log.open("r+b") as file:  # from there on nothing ends
        for number in (3, 4):
            file.seek(frame(number, 4))
            file.write(bytes(4))
    assert not goes_on(log, 3)


@pytest.mark.parametrize(
    ("places", "bad"),
    [
        ((frame(0, 8),), {0}),
        ((frame(0, 30),), {0}),
        ((frame(2, 1),), {2}),
        ((frame(2, 17),), {2, 3}),
        ((frame(4, FRAME_HEADER_BYTES + 4095),), {4}),
        ((2,), set()),  # the log's header: then the first frame is believed
        ((17,), set()),
        ((25,), set()),
    ],
)
def test_a_frame_is_judged_by_the_one_before(log: Path, places: tuple[int, ...], bad: set[int]) -> None:
    turn_bits(log, *places)
    assert {number for number, is_good in enumerate(good(log)[:5]) if not is_good} == bad


@pytest.mark.parametrize("at", [0, 4, 8, 9, 13, 16, 20, 24, 31])
def test_a_log_whose_header_is_damaged_is_damaged_if_sqlite_reads_nothing_of_it(log: Path, at: int) -> None:
    turn_bits(log, at)
    assert goes_on(log, 0, 0) and goes_on(log, 0)


def test_a_log_without_frames_is_whole(log: Path) -> None:
    for size in (LOG_HEADER_BYTES, 10, 0):
        os.truncate(log, size)
        assert not goes_on(log, 0, 0) and good(log) == []
    os.truncate(log, LOG_HEADER_BYTES)
    assert not goes_on(log, 0, 0), "of a header that is none nothing can be lost"


def test_where_sqlite_read_nothing_the_header_says_how_long_a_frame_is(log: Path) -> None:
    assert goes_on(log, 0, 0)
    os.truncate(log, frame(0, 4_000))
    assert not goes_on(log, 0, 0), "the first frame was not written to its end"


def _sums(data: bytes, before: tuple[int, int]) -> tuple[int, int]:
    first, second = before
    for one, other in struct.iter_unpack(">2I", data):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second


def test_a_log_of_a_machine_of_the_other_byte_order_is_read_too(log: Path, tmp_path: Path) -> None:
    data = bytearray(log.read_bytes())
    data[:4] = BIG_ENDIAN.to_bytes(4, "big")
    sums = _sums(bytes(data[:24]), (0, 0))
    data[24:32] = struct.pack(">2I", *sums)
    for number in range(5):
        at = frame(number, 0)
        sums = _sums(bytes(data[at : at + 8] + data[at + FRAME_HEADER_BYTES : at + STEP]), sums)
        data[at + 16 : at + 24] = struct.pack(">2I", *sums)
    other = tmp_path / "y.db"
    other.with_name("y.db-wal").write_bytes(data)
    assert good(other.with_name("y.db-wal"))[:5] == [True] * 5 and not goes_on(other.with_name("y.db-wal"), 5)
    other.write_bytes((tmp_path / "x.db").read_bytes())
    with closing(sqlite3.connect(other)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM t WHERE a = 'second turn'").fetchone() == (5,), "as SQLite does"

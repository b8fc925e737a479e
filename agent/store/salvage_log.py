"""The write-ahead log of SQLite, read without SQLite: its frames, the damaged ones too, and how far it goes. Writes nothing.

The format is public: https://www.sqlite.org/fileformat2.html, section 4 (2026-11).
"""

import operator
import os
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

LOG_HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
LOG_MAGIC = (0x377F0682, 0x377F0683)
_MOST_TURNS = 1_000_000
"""Each turn of a log has a number, one higher than the turn before it."""
_MOST_VERIFIED_FRAMES = 5_000
"""Checking one takes a fifth of a millisecond."""


class Frame(NamedTuple):
    """A page in the log."""

    page: int
    at: int
    """Where its content begins."""
    is_good: bool
    """Of this turn of the log, and its checksum is right as seen from the frame before."""


def log_frames(log: int, header: bytes, page_bytes: int) -> Iterator[Frame]:
    """All frames of a log, the damaged ones too: what they hold may be all there is of a page."""
    order = _order(int.from_bytes(header[:4], "big"))
    is_whole = _is_log_header(header)
    salts = header[16:24] if is_whole else b""
    before = struct.unpack(">2I", header[24:32]) if is_whole else None
    step = FRAME_HEADER_BYTES + page_bytes
    for number in range(max(0, os.fstat(log).st_size - LOG_HEADER_BYTES) // step):
        at = LOG_HEADER_BYTES + number * step
        head = read_at(log, at, FRAME_HEADER_BYTES)
        if len(head) < FRAME_HEADER_BYTES:
            return
        salts = salts or head[8:16]  # the first frame is always of the last turn
        good = head[8:16] == salts
        after = struct.unpack(">2I", head[16:24])
        if good and before is not None and number < _MOST_VERIFIED_FRAMES:
            content = read_at(log, at + FRAME_HEADER_BYTES, page_bytes)
            good = _checksum(order, head[:8] + content, before) == after
        before = after
        yield Frame(int.from_bytes(head[:4], "big"), at + FRAME_HEADER_BYTES, good)


def log_goes_on(log: int, read_frames: int, page_bytes: int) -> bool:
    """Whether a log of which SQLite reads so many frames is damaged behind them. One that was merely not written to its
    end has frames without the end of a transaction there, and then nothing or what an earlier turn of the log left."""
    header = read_at(log, 0, LOG_HEADER_BYTES)
    size = os.fstat(log).st_size
    if not read_frames and not _is_log_header(header):  # nor does it say how long a frame is
        return size > LOG_HEADER_BYTES
    # Where SQLite has read no frame, its index does not say how long one is.
    step = FRAME_HEADER_BYTES + (page_bytes or int.from_bytes(header[8:12], "big"))
    count = (size - LOG_HEADER_BYTES) // step
    turn = int.from_bytes(header[16:20], "big")
    for number in range(read_frames, count):
        head = read_at(log, LOG_HEADER_BYTES + number * step, FRAME_HEADER_BYTES)
        if head[8:16] == header[16:24]:
            if any(head[4:8]):
                return True
        elif not 0 < (turn - int.from_bytes(head[8:12], "big")) % (1 << 32) <= _MOST_TURNS:
            return True
    return False


def _is_log_header(header: bytes) -> bool:
    magic = int.from_bytes(header[:4], "big")
    return (
        len(header) == LOG_HEADER_BYTES
        and magic in LOG_MAGIC
        and _checksum(_order(magic), header[:24], (0, 0)) == struct.unpack(">2I", header[24:32])
    )


def _order(magic: int) -> str:
    return ">" if magic == LOG_MAGIC[1] else "<"


@cache
def _weights(pairs: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What each word of so many pairs adds to the two sums, and at the end what the sums before add to them."""
    first, second = [], []
    a, b, c, d = 1, 0, 0, 1  # a power of ((1, 1), (1, 2)), which one pair applies to the sums
    for _ in range(pairs):
        # The pair (x, y) adds (x, x + y) to the sums.
        first += [b, a + b]
        second += [d, c + d]
        a, b, c, d = (a + b) & 0xFFFFFFFF, (a + 2 * b) & 0xFFFFFFFF, (c + d) & 0xFFFFFFFF, (c + 2 * d) & 0xFFFFFFFF
    first += [b, a]
    second += [d, c]
    return tuple(reversed(first)), tuple(reversed(second))


def _checksum(order: str, data: bytes, before: Sequence[int]) -> tuple[int, int]:
    """Of whole pairs of words, going on from the sums before. It is linear, so it is two products and no loop."""
    if len(data) % 8:
        return (-1, -1)
    words = (*before, *struct.unpack(f"{order}{len(data) // 4}I", data))
    first, second = _weights(len(data) // 8)
    return sum(map(operator.mul, words, first)) & 0xFFFFFFFF, sum(map(operator.mul, words, second)) & 0xFFFFFFFF


def read_at(file: int | None, at: int, size: int) -> bytes:
    """What is there; a place that the disk cannot read is empty."""
    if file is None:
        return b""
    try:
        return os.pread(file, size, at)
    except OSError:
        return b""

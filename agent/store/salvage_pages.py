"""The page format of SQLite files, read without SQLite: pages in all the versions that a file and its log hold, the records
of their leaves, and overflow chains. It knows no table, trusts no number that it reads, and writes nothing.

The format is public: https://www.sqlite.org/fileformat2.html (2026-11).
"""

import errno
import os
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from agent.store.salvage_log import LOG_HEADER_BYTES, LOG_MAGIC, Frame, log_frames, read_at

MAGIC = b"SQLite format 3\x00"
PAGE_BYTES = 4096
"""What SQLite takes by itself."""
TABLE_LEAF, INDEX_LEAF, TABLE_INTERIOR, INDEX_INTERIOR = 0x0D, 0x0A, 0x05, 0x02
_FIRST_HEADER_BYTES = 100
_SAMPLED_BYTES = 1 << 18

Value = int | float | str | bytes | None


class Cell(NamedTuple):
    """A row where it begins."""

    rowid: int | None
    """None in an index."""
    size: int
    """Of the whole record."""
    local: bytes
    overflow: int
    """Page where it goes on; 0 if it ends here."""
    is_in_order: bool = True
    """Whether its row id can be right: those of a page grow."""


class PageFile:
    """The pages of an open database and of its log, which may be missing."""

    def __init__(self, database: int, log: int | None) -> None:
        """Takes descriptors that can be read at any place, and leaves them open."""
        self._database, self._log = database, log
        self.database_bytes = os.fstat(database).st_size
        log_header = read_at(log, 0, LOG_HEADER_BYTES)
        self.page_bytes = self._page_bytes(log_header)
        self.count = -(-self.database_bytes // self.page_bytes)
        """Pages of the database, a cut one at its end included."""
        self.usable = self.page_bytes  # a session's pages reserve nothing at their ends, whatever a damaged header says
        self.frames = list(log_frames(log, log_header, self.page_bytes)) if log is not None else []
        self._places: dict[int, list[Frame]] = {}
        for frame in self.frames:
            self._places.setdefault(frame.page, []).append(frame)
        self._left = 2 * (self.database_bytes + len(self.frames) * self.page_bytes) + (64 << 20)
        """Bytes of overflow that are still followed, so that chains that share pages come to an end."""

    def versions(self, page: int) -> Iterator[bytes]:
        """What stands in a page, the newest first; what may be of another page comes last."""
        frames = self._places.get(page, [])
        for frame in reversed(frames):
            if frame.is_good:
                yield read_at(self._log, frame.at, self.page_bytes)
        if 0 < page <= self.count:
            yield read_at(self._database, (page - 1) * self.page_bytes, self.page_bytes)
        for frame in reversed(frames):
            if not frame.is_good:
                yield read_at(self._log, frame.at, self.page_bytes)

    def newest(self, page: int) -> bytes:
        """Empty where there is no such page."""
        return next(self.versions(page), b"")

    def cells(self) -> Iterator[tuple[int, Cell]]:
        """The cells of all pages that hold rows, with the page's kind; the newest versions of all pages first."""
        logged = [page for page in self._places if page > self.count]
        for page in (*self._pages_with_data(), *sorted(logged)):
            yield from _cells_with_kind(self.newest(page), self.usable, is_first=page == 1)
        for page in self._places:
            versions = self.versions(page)
            next(versions, b"")
            for content in versions:
                yield from _cells_with_kind(content, self.usable)

    def _pages_with_data(self) -> Iterator[int]:
        """All pages of the database but those in holes, which take no room on the disk and would take long to look at."""
        at, size = 0, self.page_bytes
        while at < self.database_bytes:
            start, end = at, self.database_bytes
            try:
                start = os.lseek(self._database, at, os.SEEK_DATA)
                end = os.lseek(self._database, start, os.SEEK_HOLE)
            except (OSError, AttributeError) as error:  # not every system knows of holes
                if getattr(error, "errno", 0) == errno.ENXIO:  # nothing but a hole is left
                    return
            yield from range(start // size + 1, -(-end // size) + 1)
            at = -(-end // size) * size

    def whole(self, cell: Cell) -> bytes | None:
        """The record of a cell, its overflow followed; None where that is broken."""
        if not cell.overflow:
            return cell.local
        parts, missing, page = [cell.local], cell.size - len(cell.local), cell.overflow
        if missing > self._left:
            return None
        while missing > 0:
            content = self.newest(page)
            part = content[4 : min(self.usable, missing + 4)]
            if not part:
                return None
            page = int.from_bytes(content[:4], "big")
            parts.append(part)
            missing -= len(part)
            self._left -= len(part)
        return b"".join(parts)

    def _page_bytes(self, log_header: bytes) -> int:
        """As the headers say; if they disagree, the size with which the most cells can be read."""
        header = read_at(self._database, 0, 18)
        said = [PAGE_BYTES]
        if int.from_bytes(log_header[:4], "big") in LOG_MAGIC:
            said.insert(0, int.from_bytes(log_header[8:12], "big"))
        if header[:16] == MAGIC:
            said.insert(0, int.from_bytes(header[16:18], "big"))
        sizes = list(dict.fromkeys(size if size != 1 else 1 << 16 for size in said))
        sizes = [size for size in sizes if 512 <= size <= 1 << 16 and not size & (size - 1)]
        if len(sizes) == 1:
            return sizes[0]
        sample = read_at(self._database, 0, _SAMPLED_BYTES)
        return max(sizes, key=lambda size: _readable_cells(sample, size))


def page_cells(page: bytes, usable: int, kind: int, *, is_first: bool = False) -> Iterator[Cell]:
    """The cells of a page; none if it is of another kind."""
    start = _FIRST_HEADER_BYTES if is_first else 0
    if len(page) < start + 8 or page[start] != kind:
        return
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    pointers = start + (8 if kind in (TABLE_LEAF, INDEX_LEAF) else 12)
    for at in range(pointers, min(pointers + 2 * count, len(page) - 1), 2):
        cell = _cell(page, int.from_bytes(page[at : at + 2], "big"), usable, kind)
        if cell is not None:
            yield cell


def _cells_with_kind(page: bytes, usable: int, *, is_first: bool = False) -> Iterator[tuple[int, Cell]]:
    kind = page[_FIRST_HEADER_BYTES if is_first else 0] if len(page) > _FIRST_HEADER_BYTES else 0
    if kind in (TABLE_LEAF, INDEX_LEAF, INDEX_INTERIOR):
        cells = list(page_cells(page, usable, kind, is_first=is_first))
        right = _growing([cell.rowid or 0 for cell in cells]) if kind == TABLE_LEAF else None
        for place, cell in enumerate(cells):
            yield kind, cell if right is None or place in right else cell._replace(is_in_order=False)


def _growing(numbers: Sequence[int]) -> set[int] | None:
    """Places of the most numbers that grow from one to the next; None for all."""
    if all(one < other for one, other in pairwise(numbers)):
        return None
    last: list[int] = []
    """The lowest number at which a run of each length ends, and its place."""
    places: list[int] = []
    before: list[int] = []
    for place, number in enumerate(numbers):
        length = bisect_left(last, number)
        last[length : length + 1], places[length : length + 1] = [number], [place]
        before.append(places[length - 1] if length else -1)
    found, place = set[int](), places[-1]
    while place >= 0:
        found.add(place)
        place = before[place]
    return found


def children(page: bytes) -> list[int]:
    """The pages beneath an inner page of a table, in order; the first page is none."""
    if len(page) < 12 or page[0] != TABLE_INTERIOR:
        return []
    count = int.from_bytes(page[3:5], "big")
    pointers = [int.from_bytes(page[at : at + 2], "big") for at in range(12, 12 + 2 * count, 2)]
    return [int.from_bytes(page[at : at + 4], "big") for at in (*pointers, 8)]


def _cell(page: bytes, at: int, usable: int, kind: int) -> Cell | None:
    if kind == INDEX_INTERIOR:
        at += 4
    size, at = varint(page, at)
    rowid: int | None = None
    if kind == TABLE_LEAF:
        rowid, at = varint(page, at)
        rowid -= (rowid >> 63) << 64
    if not 0 < at < usable or size < 2:
        return None
    most = usable - 35 if kind == TABLE_LEAF else (usable - 12) * 64 // 255 - 23
    if size <= most:
        local = page[at : min(at + size, usable)]
        return Cell(rowid, size, local, 0) if len(local) == size else None
    least = (usable - 12) * 32 // 255 - 23
    kept = least + (size - least) % (usable - 4)
    kept = kept if kept <= most else least
    overflow = int.from_bytes(page[at + kept : at + kept + 4], "big")
    return Cell(rowid, size, page[at : at + kept], overflow) if overflow and at + kept + 4 <= usable else None


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and the place behind it; the place is 0 where the data ends before."""
    value = 0
    for place in range(at, min(at + 8, len(data))):
        byte = data[place]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + 1
    return (value << 8 | data[at + 8], at + 9) if at + 8 < len(data) else (0, 0)


_SIZES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)


def serial_types(record: bytes) -> list[int] | None:
    """The types of a record's columns; None if it does not begin like a record."""
    end, at = varint(record, 0)
    types: list[int] = []
    while 0 < at < end <= len(record):
        kind, at = varint(record, at)
        types.append(kind)
    return types if at == end and at else None


def record_size(types: Sequence[int]) -> int:
    """Bytes of the values alone."""
    return sum((kind - 12) // 2 if kind >= 12 else _SIZES[kind] if kind < 10 else 0 for kind in types)


def values(record: bytes, types: Sequence[int]) -> list[Value] | None:
    """The values of a whole record; None if it has not the length that its types say."""
    at, _ = varint(record, 0)
    if at + record_size(types) != len(record):
        return None
    found: list[Value] = []
    for kind in types:
        size = record_size((kind,))
        raw = record[at : at + size]
        at += size
        if kind >= 12:
            found.append(raw if kind % 2 == 0 else raw.decode("utf-8", "replace"))
        elif kind == 7:
            found.append(float(struct.unpack(">d", raw)[0]))
        elif kind in (8, 9):
            found.append(kind - 8)
        else:
            found.append(None if kind == 0 else int.from_bytes(raw, "big", signed=True))
    return found


def _readable_cells(sample: bytes, size: int) -> int:
    pages = (sample[at : at + size] for at in range(0, len(sample), size))
    cells = (
        cell for number, page in enumerate(pages) for cell in page_cells(page, size, TABLE_LEAF, is_first=not number)
    )
    return sum(1 for cell in cells if serial_types(cell.local))

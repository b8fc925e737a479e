"""Reads a spill piece by piece, so that it can be looked at as a text, or as two where its middle is missing."""

import re
from collections.abc import Iterator
from typing import BinaryIO

WINDOW_BYTES = 64 * 1024
"""A search for secrets holds the interpreter; this bounds for how long."""
_GAP = b"\n[... %d bytes are missing here ...]\n"
"""As agent/spawner/output.py writes it."""
_MOST_WORD_BYTES = 4_096
_LAST_WORD = re.compile(rb"\S{0,%d}\Z" % _MOST_WORD_BYTES)
_FIRST_WORD = re.compile(rb"\S{0,%d}" % _MOST_WORD_BYTES)


def pieces(source: BinaryIO, missing_bytes: int) -> Iterator[bytes]:
    """All of it in order; an empty piece stands where a text ends.

    `missing_bytes`: what is missing in its middle. The words on both sides of that are left out: they may be halves of
    secrets, which nobody knows for such.
    """
    gap = _GAP % missing_bytes
    seam = _find(source, gap) if missing_bytes else -1
    if seam >= 0:
        yield from _until(source, seam)
        yield b""
        data = source.read(WINDOW_BYTES)[len(gap) :]
        yield gap + _FIRST_WORD.sub(b"", data, count=1)
    while data := source.read(WINDOW_BYTES):
        yield data
    yield b""


def _until(source: BinaryIO, end: int) -> Iterator[bytes]:
    """What stands before `end`, without its last word."""
    left = end
    while left > WINDOW_BYTES + _MOST_WORD_BYTES:
        yield source.read(WINDOW_BYTES)
        left -= WINDOW_BYTES
    yield _LAST_WORD.sub(b"", source.read(left), count=1)


def _find(source: BinaryIO, wanted: bytes) -> int:
    """Where it stands, -1 if nowhere; a piece at a time, since what is mapped into memory counts as used."""
    start, before, found = 0, b"", -1
    while found < 0 and (data := source.read(16 * WINDOW_BYTES)):
        at = (before + data).find(wanted)
        found = start - len(before) + at if at >= 0 else -1
        before, start = (before + data)[-len(wanted) :], start + len(data)
    source.seek(0)
    return found

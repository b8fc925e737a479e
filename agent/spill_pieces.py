"""Reads a spill piece by piece, so that it can be looked at as a text, or as two where its middle is missing, and writes what
it becomes without secrets.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

WINDOW_BYTES = 64 * 1024
"""A search for secrets holds the interpreter; this bounds for how long."""
_GAP = b"\n[... %d bytes are missing here ...]\n"
"""As agent/spawner/output.py writes it, between two words."""
_NEAR_BYTES = 8 * 1024
"""So near the middle it stands, since neither half is shorter than the other by more than two long words."""


def pieces(source: BinaryIO, missing_bytes: int) -> Iterator[bytes]:
    """All of it in order; an empty piece stands where a text ends. `missing_bytes`: what is missing in its middle."""
    if missing_bytes and (seam := _seam(source, _GAP % missing_bytes)) > 0:
        while data := source.read(min(WINDOW_BYTES, seam - source.tell())):
            yield data
        yield b""
    while data := source.read(WINDOW_BYTES):
        yield data
    yield b""


def _seam(source: BinaryIO, gap: bytes) -> int:
    """Where the text before the gap ends; negative where there is none."""
    start = max(0, source.seek(0, 2) // 2 - _NEAR_BYTES)
    source.seek(start)
    place = source.read(2 * _NEAR_BYTES).find(gap)
    source.seek(0)
    return start + place if place >= 0 else -1


class CleanCopy:
    """What a file becomes that is read from its beginning: nothing is written before something in it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._clean = path.with_name(path.name + ".clean")
        self._same_bytes = 0
        self._copy: BinaryIO | None = None

    def __enter__(self) -> "CleanCopy":
        return self

    def write(self, data: bytes, *, is_changed: bool) -> None:
        """What follows; `is_changed`: it, or what came before, is not as it stands in the file. Raises: OSError."""
        if self._copy is None and not is_changed:
            self._same_bytes += len(data)
            return
        if self._copy is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._copy = os.fdopen(os.open(self._clean, flags, 0o600), "wb")
            with self._path.open("rb") as same:
                while self._same_bytes and (piece := same.read(min(1 << 20, self._same_bytes))):
                    self._same_bytes -= self._copy.write(piece)
        self._copy.write(data)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Put the copy in the file's place if there is one and all went well. Raises: OSError."""
        if self._copy is None:
            return
        try:
            self._copy.close()
            if error is None:
                self._clean.replace(self._path)
        finally:
            self._clean.unlink(missing_ok=True)

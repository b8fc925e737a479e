"""A window of the lines of an open file, without holding more of it than needed.

A line ends with LF or CRLF; with CR only where the file has no LF at all. Lines are counted from 1.
"""

import codecs
import hashlib
import os
import threading
import time

from msgspec import Struct

from agent.encodings import decode
from agent.files import CHUNK_BYTES, MAX_HASHED_BYTES, describe_binary, read_bytes
from agent.permissions.path_text import os_error
from agent.permissions.workspace import OpenedFile
from agent.tools.base import ToolError

_WHOLE_BYTES = 8 * 1024 * 1024
_SNIFFED_BYTES = 8_192
_SCAN_LIMIT_S = 5.0
_BYTES_PER_CHAR = 4


class FileLines(Struct, frozen=True):
    first: int
    """1-based number of `lines[0]`."""
    lines: tuple[str, ...]
    """Without line ends; long ones cut."""
    cut: frozenset[int]
    """Numbers of the lines that were cut."""
    total: int | None
    """Lines of the file; None where counting them would take too long."""
    encoding: str
    sha256: str | None
    """Of the whole file; None where it is too large."""


def read_lines(
    opened: OpenedFile, shown: str, first: int, count: int, max_chars: int, stop: threading.Event
) -> FileLines:
    """
    Raises:
        ToolError: binary, unreadable, or the window lies too far inside a huge file to get there in time.
    """
    try:
        head = os.pread(opened.fd, _SNIFFED_BYTES, 0)
    except OSError as error:
        raise os_error(error, shown, "read") from None
    wide = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE))
    if b"\0" in head and not wide:
        raise _binary(shown, head, opened.stat.st_size)
    if opened.stat.st_size > _WHOLE_BYTES and not wide:
        return _Scan(opened.fd, first, count, max_chars).run(shown, opened.stat.st_size, stop)
    data = read_bytes(opened, max(_WHOLE_BYTES, opened.stat.st_size) if not wide else 2 * _WHOLE_BYTES, shown)
    decoded = decode(data)
    if decoded is None:
        raise _binary(shown, data, len(data))
    text, encoding = decoded
    lines = _split(text)
    window = lines[first - 1 : first - 1 + count]
    cut = frozenset(number for number, line in enumerate(window, first) if len(line) > max_chars)
    kept = tuple(line[:max_chars] for line in window)
    return FileLines(first, kept, cut, len(lines), encoding.label, hashlib.sha256(data).hexdigest())


def _binary(shown: str, head: bytes, size_bytes: int) -> ToolError:
    return ToolError(
        f"{shown} is {describe_binary(head, size_bytes)}. Only text can be read; use a command for others."
    )


def _split(text: str) -> list[str]:
    end = "\r" if "\n" not in text else "\n"
    lines = text.split(end)
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if end == "\n" and "\r" in text else lines


class _Scan:
    """One pass over a large file that keeps the window alone."""

    def __init__(self, fd: int, first: int, count: int, max_chars: int) -> None:
        self._fd = fd
        self._first = first
        self._count = count
        self._max_chars = max_chars
        self._max_bytes = max_chars * _BYTES_PER_CHAR + 1
        self._number = 1
        """Of the line that the scan is in."""
        self._lines: list[bytes] = []
        self._line = bytearray()
        self._last_byte = b""

    def run(self, shown: str, size_bytes: int, stop: threading.Event) -> FileLines:
        hashed = size_bytes <= MAX_HASHED_BYTES
        digest = hashlib.sha256()
        deadline = time.monotonic() + _SCAN_LIMIT_S
        place, ended = 0, False
        while not (ended or stop.is_set()):
            try:
                chunk = os.pread(self._fd, CHUNK_BYTES, place)
            except OSError as error:
                raise os_error(error, shown, "read") from None
            place += len(chunk)
            ended = not chunk
            if hashed:
                digest.update(chunk)
            self._take(chunk)
            self._last_byte = chunk[-1:] or self._last_byte
            if not hashed and (self._has_window() or time.monotonic() > deadline):
                break
        if (ended and self._last_byte != b"\n") or (not ended and self._line):
            self._finish_line()
        if not ended and not self._lines:
            raise ToolError(
                f"Line {self._first:,} of {shown} lies too far inside to be reached in {_SCAN_LIMIT_S:.0f} s "
                f"({size_bytes:,} bytes). Use a command (tail, sed, grep)."
            )
        return self._result(digest.hexdigest() if hashed else None, self._number - 1 if ended else None)

    def _has_window(self) -> bool:
        """Also when only the part of the last line is missing that would be cut."""
        missing = self._count - len(self._lines)
        return missing == 0 or (missing == 1 and len(self._line) == self._max_bytes)

    def _take(self, chunk: bytes) -> None:
        place = 0
        while place < len(chunk):
            if self._number < self._first:
                place = self._skip(chunk, place)
            elif len(self._lines) < self._count:
                end = chunk.find(b"\n", place)
                stop = len(chunk) if end < 0 else end
                self._line += chunk[place : min(stop, place + self._max_bytes - len(self._line))]
                place = stop + 1
                if end >= 0:
                    self._finish_line()
            else:
                self._number += chunk.count(b"\n", place)
                return

    def _skip(self, chunk: bytes, place: int) -> int:
        """Pass over lines before the window; the place behind them."""
        wanted = self._first - self._number
        present = chunk.count(b"\n", place)
        if present < wanted:
            self._number += present
            return len(chunk)
        for _ in range(wanted):
            place = chunk.index(b"\n", place) + 1
        self._number = self._first
        return place

    def _finish_line(self) -> None:
        if self._number >= self._first and len(self._lines) < self._count:
            self._lines.append(bytes(self._line))
            self._line.clear()
        self._number += 1

    def _result(self, sha256: str | None, total: int | None) -> FileLines:
        whole = [_whole_characters(line) if len(line) == self._max_bytes else line for line in self._lines]
        decoded = decode(b"\n".join(whole))
        text, label = (decoded[0], decoded[1].label) if decoded else (b"\n".join(whole).decode("latin-1"), "unknown")
        lines = [line.removesuffix("\r") for line in text.split("\n")] if whole else []
        cut = frozenset(n for n, line in enumerate(lines, self._first) if len(line) > self._max_chars)
        return FileLines(self._first, tuple(s[: self._max_chars] for s in lines), cut, total, label, sha256)


def _whole_characters(line: bytes) -> bytes:
    """Without the part of a UTF-8 character at its end."""
    for length in range(1, 4):
        if line[-length] >= 0xC0:
            return line[:-length]
        if line[-length] < 0x80:
            break
    return line

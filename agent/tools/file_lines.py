"""A window of the lines of an open file, in memory that does not grow with the file.

A line ends with LF or CRLF; with CR only where the file has no LF at all. Lines are counted from 1. A file up to 64 MiB is
gone through to its end, which gives its hash, its encoding and the number of its lines; a larger one as far as the window.
"""

import codecs
import hashlib
import os
import threading
import time
from collections.abc import Iterator

from msgspec import Struct

from agent.encodings import Detector, Encoding, bom_of
from agent.files import MAX_HASHED_BYTES, describe_binary
from agent.permissions.path_text import os_error
from agent.permissions.workspace import OpenedFile
from agent.tools.base import ToolError

_PIECE_BYTES = 256 * 1024
_SCAN_LIMIT_S = 5.0
_BYTES_PER_CHAR = 4
_HEAD_BYTES = 32


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


class Wanted(Struct, frozen=True):
    """A window of lines."""

    first: int
    count: int
    max_chars: int
    """Of a line."""
    max_bytes: int
    """Of all lines, as UTF-8; the window ends with the line that reaches it."""


def read_lines(opened: OpenedFile, shown: str, wanted: Wanted, stop: threading.Event) -> FileLines:
    """
    Raises:
        ToolError: binary, unreadable, or the window lies too far inside a huge file to get there in time.
    """
    text = _TextPieces(opened, shown, stop)
    window = _Window(wanted, b"\n")
    for piece in text:
        window.take(piece)
        if not text.is_hashed and (window.is_full or text.is_late):
            break
    if text.ended and not window.has_line_ends and window.has_returns:
        text = _TextPieces(opened, shown, stop)
        window = _Window(wanted, b"\r")
        for piece in text:
            window.take(piece)
    if text.ended or window.has_rest:
        window.finish()
    if not text.ended and not window.lines:
        raise ToolError(
            f"Line {wanted.first:,} of {shown} lies too far inside to be reached in {_SCAN_LIMIT_S:.0f} s "
            f"({opened.stat.st_size:,} bytes). Use a command (tail, sed, grep)."
        )
    encoding = text.encoding()
    lines, cut = window.decoded(encoding)
    total = window.number - 1 if text.ended else None
    return FileLines(wanted.first, lines, cut, total, encoding.label, text.sha256)


class _TextPieces:
    """The bytes of a file behind its byte order mark, piece by piece; those of UTF-16 and UTF-32 as UTF-8."""

    def __init__(self, opened: OpenedFile, shown: str, stop: threading.Event) -> None:
        self._opened = opened
        self._shown = shown
        self._stop = stop
        self._deadline = time.monotonic() + _SCAN_LIMIT_S
        self._digest = hashlib.sha256()
        self._detector = Detector()
        self._head = b""
        self._marked: Encoding | None = None
        self.is_hashed = opened.stat.st_size <= MAX_HASHED_BYTES
        self.ended = False

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self._deadline

    @property
    def sha256(self) -> str | None:
        return self._digest.hexdigest() if self.is_hashed else None

    def encoding(self) -> Encoding:
        """
        Raises:
            ToolError: binary.
        """
        encoding = self._marked or self._detector.result()
        if encoding is None:
            raise self._binary()
        return encoding

    def __iter__(self) -> Iterator[bytes]:
        place = 0
        decoder: codecs.IncrementalDecoder | None = None
        while not (self.ended or self._stop.is_set()):
            try:
                piece = os.pread(self._opened.fd, _PIECE_BYTES, place)
            except OSError as error:
                raise os_error(error, self._shown, "read") from None
            if place == 0:
                self._head = piece[:_HEAD_BYTES]
                self._marked = bom_of(piece)
                if self._marked is not None and self._marked.codec != "utf-8":
                    decoder = codecs.getincrementaldecoder(self._marked.codec)("strict")
            self.ended = not piece
            place += len(piece)
            # One that grows while it is read, or has no size since the kernel makes it up.
            self.is_hashed = self.is_hashed and place <= MAX_HASHED_BYTES
            if self.is_hashed:
                self._digest.update(piece)
            text = piece[len(self._marked.bom) :] if self._marked is not None and place == len(piece) else piece
            if decoder is not None:
                text = self._transcoded(decoder, text)
            elif self._marked is None:
                self._detector.feed(piece, last=self.ended)
                if self._detector.result() is None:
                    raise self._binary()
            if text:
                yield text

    def _transcoded(self, decoder: codecs.IncrementalDecoder, piece: bytes) -> bytes:
        try:
            return decoder.decode(piece, self.ended).encode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise self._binary() from None

    def _binary(self) -> ToolError:
        what = describe_binary(self._head, self._opened.stat.st_size)
        return ToolError(f"{self._shown} is {what}. Only text can be read; use a command for others.")


class _Window:
    """Takes pieces of a text, and keeps of them the lines that are wanted."""

    def __init__(self, wanted: Wanted, line_end: bytes) -> None:
        self._wanted = wanted
        self._line_end = line_end
        self._line_bytes = wanted.max_chars * _BYTES_PER_CHAR + 1
        self._room = wanted.max_bytes * _BYTES_PER_CHAR  # of a line that is cut a fourth may be shown
        self._line = bytearray()
        self._at_start = True
        """No byte of the line that it is in came yet."""
        self.number = 1
        """Of that line."""
        self.lines: list[bytes] = []
        self.has_line_ends = False
        self.has_returns = False

    @property
    def has_rest(self) -> bool:
        return len(self._line) > 0

    @property
    def is_full(self) -> bool:
        """Also when only the part of the last line is missing that would be cut."""
        missing = self._wanted.count - len(self.lines)
        return self._room <= 0 or missing == 0 or (missing == 1 and len(self._line) == self._line_bytes)

    def take(self, piece: bytes) -> None:
        self.has_line_ends = self.has_line_ends or self._line_end in piece
        self.has_returns = self.has_returns or b"\r" in piece
        place = 0
        while place < len(piece):
            if self.number < self._wanted.first:
                place = self._skip(piece, place)
            elif len(self.lines) < self._wanted.count and self._room > 0:
                end = piece.find(self._line_end, place)
                stop = len(piece) if end < 0 else end
                self._line += piece[place : min(stop, place + self._line_bytes - len(self._line))]
                self._at_start = False
                place = stop + 1
                if end >= 0:
                    self._finish_line()
            else:
                self.number += piece.count(self._line_end, place)
                self._at_start = piece.endswith(self._line_end)
                return

    def finish(self) -> None:
        """The text ends here, or what follows is not wanted."""
        if not self._at_start:
            self._finish_line()

    def decoded(self, encoding: Encoding) -> tuple[tuple[str, ...], frozenset[int]]:
        """The lines, and the numbers of those that were cut."""
        is_single_byte = encoding.codec in ("latin-1", "cp1252")
        codec, errors = (encoding.codec, encoding.errors) if is_single_byte else ("utf-8", "surrogateescape")
        lines: list[str] = []
        cut: list[int] = []
        for number, line in enumerate(self.lines, self._wanted.first):
            whole = _whole_characters(line) if len(line) == self._line_bytes and not is_single_byte else line
            text = whole.decode(codec, errors)
            text = text.removesuffix("\r") if self._line_end == b"\n" else text
            if len(text) > self._wanted.max_chars:
                cut.append(number)
            lines.append(text[: self._wanted.max_chars])
        return tuple(lines), frozenset(cut)

    def _skip(self, piece: bytes, place: int) -> int:
        """Pass over lines before the window; the place behind them."""
        wanted = self._wanted.first - self.number
        present = piece.count(self._line_end, place)
        if present < wanted:
            self.number += present
            self._at_start = piece.endswith(self._line_end)
            return len(piece)
        for _ in range(wanted):
            place = piece.index(self._line_end, place) + 1
        self.number = self._wanted.first
        self._at_start = True
        return place

    def _finish_line(self) -> None:
        if self.number >= self._wanted.first and len(self.lines) < self._wanted.count and self._room > 0:
            self.lines.append(bytes(self._line))
            self._room -= len(self._line) + 1
        self._line.clear()
        self.number += 1
        self._at_start = True


def _whole_characters(line: bytes) -> bytes:
    """Without the part of a UTF-8 character at its end."""
    for length in range(1, 4):
        if line[-length] >= 0xC0:
            return line[:-length]
        if line[-length] < 0x80:
            break
    return line

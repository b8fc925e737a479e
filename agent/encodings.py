"""Bytes to text and back without losing one: which encoding a file has, its BOM, its line ends.

Every decoding here is exact: encoding an unchanged text gives the same bytes. Nothing is guessed beyond byte order marks,
strict UTF-8 and the two Western single-byte sets, in which bytes of any other set survive untouched.
"""

import codecs
import re
import unicodedata

from msgspec import Struct

_SNIFFED_BYTES = 8_192
_PIECE_BYTES = 256 * 1024
_NO_C1 = bytes(byte for byte in range(256) if not 0x80 <= byte <= 0x9F)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8", "UTF-8 with BOM"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32LE"),  # before UTF-16LE, whose BOM begins it
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32BE"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16LE"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16BE"),
)
_LINE_END = re.compile(r"\r\n|\r|\n")
_INVALID = re.compile("[\udc80-\udcff]")


class Encoding(Struct, frozen=True):
    codec: str
    label: str
    """For people and the model, for instance "UTF-16LE"."""
    bom: bytes = b""
    errors: str = "strict"
    """"surrogateescape" where single bytes are not valid: they become lone surrogates and return as they were."""


UTF8 = Encoding("utf-8", "UTF-8")


class NotEncodableError(Exception):
    """The text holds a character that the encoding does not have; the message names it and its place."""


def decode(data: bytes) -> tuple[str, Encoding] | None:
    """The text without its BOM, and how to encode it again. None: binary."""
    if (marked := bom_of(data)) is not None:
        return _decode_as(data, marked)
    if b"\0" in data[:_SNIFFED_BYTES]:
        return None
    try:
        return data.decode(), UTF8
    except UnicodeDecodeError:
        return None if (encoding := _not_utf8(data)) is None else _decode_as(data, encoding)


def encode(text: str, encoding: Encoding) -> bytes:
    """The bytes of `text`, BOM first.

    Raises:
        NotEncodableError: see `check_encodable`.
    """
    try:
        return encoding.bom + text.encode(encoding.codec, encoding.errors)
    except UnicodeEncodeError:
        check_encodable(text, encoding, "the content")
        raise


def check_encodable(text: str, encoding: Encoding, where: str) -> None:
    """
    Raises:
        NotEncodableError: names the character, its line and column (1-based) in `text`, which `where` describes.
    """
    try:
        text.encode(encoding.codec)
    except UnicodeEncodeError as error:
        character = text[error.start]
        line = text.count("\n", 0, error.start) + 1
        column = error.start - (text.rfind("\n", 0, error.start) + 1) + 1
        shown = repr(character) if character.isprintable() else "a character"
        name = unicodedata.name(character, "no name")
        raise NotEncodableError(
            f"{shown} (U+{ord(character):04X} {name}) at line {line}, column {column} of {where} cannot be written in "
            f"{encoding.label}, the file's encoding."
        ) from None


def has_undecodable(text: str) -> bool:
    """Whether single bytes of the file could not be decoded."""
    return _INVALID.search(text) is not None


def newline_of(text: str) -> str:
    """The line end that most lines have, of a tie the first; "\\r" only where nothing else ends a line."""
    pairs = text.count("\r\n")
    feeds = text.count("\n") - pairs
    if pairs == feeds == 0:
        return "\r" if "\r" in text else "\n"
    if pairs == feeds:
        return "\r\n" if text[text.index("\n") - 1 : text.index("\n")] == "\r" else "\n"
    return "\r\n" if pairs > feeds else "\n"


def newline_label(text: str) -> str:
    """The line ends as words: "LF", "CRLF", "CR" or "mixed line ends"."""
    found = {"\r\n": "CRLF", "\n": "LF", "\r": "CR"}
    pairs = text.count("\r\n")
    kinds = [("\r\n", pairs), ("\n", text.count("\n") - pairs), ("\r", text.count("\r") - pairs)]
    used = [found[end] for end, count in kinds if count]
    return "mixed line ends" if len(used) > 1 else used[0] if used else "LF"


def with_newlines(text: str, newline: str) -> str:
    """`text` with every line ended by `newline`."""
    normal = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    return normal if newline == "\n" else normal.replace("\n", newline)


def split_lines(text: str) -> tuple[list[str], list[str]]:
    """Lines without their ends, and the ends: always one end fewer than lines. "" is one empty line."""
    if "\r" not in text:
        lines = text.split("\n")
        return lines, ["\n"] * (len(lines) - 1)
    return _LINE_END.split(text), _LINE_END.findall(text)


def _decode_as(data: bytes, encoding: Encoding) -> tuple[str, Encoding] | None:
    try:
        text = data[len(encoding.bom) :].decode(encoding.codec, encoding.errors)
    except UnicodeDecodeError:
        return None
    exact = text.encode(encoding.codec, encoding.errors) == data[len(encoding.bom) :]
    return (text, encoding) if exact else None


class Detector:
    """Tells the encoding of bytes that come in pieces, as `decode` does of all at once. Keeps none of them.

    A byte order mark is for `bom_of`; the pieces are what comes behind it.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._pending = False
        self._seen = 0
        self._nul: int | None = None
        self._valid = self._invalid = 0
        """Characters beyond ASCII, and bytes that are no part of any."""
        self._high = b""
        """Which of the bytes 0x80 to 0x9F there are."""

    def feed(self, piece: bytes, *, last: bool = False) -> None:
        if self._nul is None and (place := piece.find(b"\0")) >= 0:
            self._nul = self._seen + place
        self._seen += len(piece)
        if piece.isascii() and not self._pending:
            return
        text = self._decoder.decode(piece, last)
        self._pending = self._decoder.getstate()[0] != b""
        # Counted without a list of what is counted: a piece may be nothing else. A surrogate takes three bytes.
        known = text.encode("utf-8", "ignore")
        invalid = (len(text.encode("utf-8", "surrogatepass")) - len(known)) // 3
        self._invalid += invalid
        self._valid += len(text) - len(text.encode("ascii", "ignore")) - invalid
        self._high = bytes(set(self._high) | set(piece.translate(None, _NO_C1)))

    def result(self) -> Encoding | None:
        """Of what came so far. None: binary."""
        if self._nul is not None and (self._nul < _SNIFFED_BYTES or self._invalid):
            return None
        if not self._invalid:
            return UTF8
        # Damaged UTF-8 where most of the bytes beyond ASCII form valid sequences, else single bytes.
        if self._valid > self._invalid:
            return Encoding("utf-8", "UTF-8 with invalid bytes", errors="surrogateescape")
        # Bytes 0x80-0x9F are control characters in Latin-1 and letters in Windows-1252, which leaves five undefined.
        if not self._high:
            return Encoding("latin-1", "Latin-1")
        if any(byte in b"\x81\x8d\x8f\x90\x9d" for byte in self._high):
            return Encoding("latin-1", "an unknown single-byte encoding, read as Latin-1")
        return Encoding("cp1252", "Windows-1252")


def bom_of(head: bytes) -> Encoding | None:
    """The encoding that a byte order mark at the start tells; None: there is none."""
    for bom, codec, label in _BOMS:
        if head.startswith(bom):
            # Only in UTF-8 can a damaged part be stepped over.
            return Encoding(codec, label, bom, "surrogateescape" if codec == "utf-8" else "strict")
    return None


def _not_utf8(data: bytes) -> Encoding | None:
    detector = Detector()
    for place in range(0, len(data), _PIECE_BYTES):
        detector.feed(data[place : place + _PIECE_BYTES], last=place + _PIECE_BYTES >= len(data))
    return detector.result()

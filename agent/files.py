"""Whole text files through an open descriptor: bytes, text, encoding and hash at one moment.

Writing is agent/atomic_write.py's; where a path leads and whether it may be opened is the workspace's.
"""

import hashlib
import os

from msgspec import Struct

from agent.encodings import Encoding, decode
from agent.permissions.path_text import os_error
from agent.permissions.workspace import OpenedFile
from agent.tools.base import ToolError

MAX_TEXT_BYTES = 16 * 1024 * 1024
"""Larger files are not edited as text."""
MAX_HASHED_BYTES = 64 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"BM", "a BMP image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (or a document or package made of one)"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x7fELF", "an ELF program or library"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program or library"),
    (b"\xca\xfe\xba\xbe", "a Java class or Mach-O program"),
    (b"\0asm", "a WebAssembly module"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"OggS", "an Ogg file"),
    (b"ID3", "an MP3 file"),
    (b"MZ", "a Windows program"),
)


class TextFile(Struct, frozen=True):
    """A text file as it was when it was read. `text` is without the BOM and keeps every line end as it is."""

    text: str
    encoding: Encoding
    sha256: str
    """Of the whole file's bytes."""
    size_bytes: int
    mode: int


def read_text(opened: OpenedFile, shown: str) -> TextFile:
    """
    Raises:
        ToolError: too large, binary, or unreadable.
    """
    data = read_bytes(opened, MAX_TEXT_BYTES, shown)
    decoded = decode(data)
    if decoded is None:
        raise ToolError(f"{shown} is {describe_binary(data, len(data))}, not text.")
    text, encoding = decoded
    return TextFile(text, encoding, hashlib.sha256(data).hexdigest(), len(data), opened.stat.st_mode)


def read_bytes(opened: OpenedFile, max_bytes: int, shown: str) -> bytes:
    """The whole content.

    Raises:
        ToolError: larger than `max_bytes`, or unreadable.
    """
    pieces: list[bytes] = []
    size = 0
    try:
        while size <= max_bytes and opened.stat.st_size <= max_bytes:
            piece = os.pread(opened.fd, CHUNK_BYTES, size)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
            size += len(piece)
    except OSError as error:
        raise os_error(error, shown, "read") from None
    raise ToolError(
        f"{shown} is {max(size, opened.stat.st_size):,} bytes long; at most {max_bytes:,} are handled as one text. "
        "Work on a part of it with a command (sed, awk, a script)."
    )


def hash_of(fd: int) -> str:
    """sha256 of everything behind an open descriptor."""
    digest = hashlib.sha256()
    place = 0
    while piece := os.pread(fd, CHUNK_BYTES, place):
        digest.update(piece)
        place += len(piece)
    return digest.hexdigest()


def describe_binary(head: bytes, size_bytes: int) -> str:
    """What a binary file is, by its first bytes."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        kind = "a WebP image"
    elif head[4:8] == b"ftyp":
        kind = "an MP4 or HEIF file"
    elif head.startswith((b"\xff\xfe", b"\xfe\xff")):
        kind = "damaged UTF-16 or UTF-32, or data"
    else:
        kind = next((name for magic, name in _MAGIC if head.startswith(magic)), "of an unknown type")
    return f"a binary file ({kind}, {size_bytes:,} bytes)"

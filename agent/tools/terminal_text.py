"""What a command's output bytes say once a terminal had shown them: plain text for the model.

Escape sequences and control characters go, a line that was drawn over (`\r`, backspace) keeps its last state, bytes that
are no UTF-8 become U+FFFD, and output that is no text at all is only described.
"""

import re

from msgspec import Struct

_ERASE = r"\x1b\[[012]?K"
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*(?:[@-~]|\Z)"  # CSI
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]"  # any other escape
)
_IS_ERASE = re.compile(_ERASE)
_STROKE = re.compile(rf"{_ERASE}|[\r\b]|[^\r\b\x1b]+|\x1b")
_CONTROL = re.compile(r"[\x01-\x08\x0b-\x1f\x7f-\x9f]")
_NO_TEXT = re.compile(r"[\x01-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f\ufffd]|\x00(?=\x00)")
"""A single NUL is a separator, as `find -print0` writes it."""
_BINARY_FRACTION = 0.1
_BINARY_MIN_CHARS = 64
_TRIM_BYTES = 4096


class ShownOutput(Struct, frozen=True):
    text: str
    binary: bool = False
    omitted_bytes: int = 0
    """Between head and tail."""


def show_output(head: bytes, tail: bytes, total_bytes: int) -> ShownOutput:
    """The text of an output of which the head and the tail are known. Line ends at its very end are cut."""
    omitted = total_bytes - len(head) - len(tail)
    if is_binary(head):
        return ShownOutput(f"[Binary output, {total_bytes:,} bytes, not shown.]", binary=True)
    if omitted <= 0:
        return ShownOutput(plain_text(head + tail).rstrip("\n"))
    head, tail = _trim_end(head), _trim_start(tail)
    omitted = total_bytes - len(head) - len(tail)
    first, last = plain_text(head).rstrip("\n"), plain_text(tail).rstrip("\n")
    return ShownOutput(f"{first}\n[… {omitted:,} bytes left out …]\n{last}", omitted_bytes=omitted)


def is_binary(data: bytes) -> bool:
    text = data.decode("utf-8", "replace")
    return len(text) >= _BINARY_MIN_CHARS and len(_NO_TEXT.findall(text)) > _BINARY_FRACTION * len(text)


def plain_text(data: bytes) -> str:
    """The text without anything that acts on a terminal; `\n` and `\t` stay, NUL becomes U+2400."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    text = _SEQUENCE.sub(lambda found: found[0] if _IS_ERASE.fullmatch(found[0]) else "", text)
    if "\r" in text or "\b" in text or "\x1b" in text:
        text = "\n".join(_last_state(line) for line in text.split("\n"))
    return _CONTROL.sub("", text.replace("\0", "␀"))


def _last_state(line: str) -> str:
    """The line after everything was drawn over it, as a terminal of endless width would show it."""
    if not ("\r" in line or "\b" in line or "\x1b" in line):
        return line
    cells: list[str] = []
    column = 0
    for stroke in _STROKE.findall(line):
        if stroke == "\r":
            column = 0
        elif stroke == "\b":
            column = max(0, column - 1)
        elif stroke.startswith("\x1b"):
            _erase(cells, column, stroke)
        else:
            cells[column : column + len(stroke)] = stroke
            column += len(stroke)
    return "".join(cells).rstrip(" ") if cells and cells[-1] == " " else "".join(cells)


def _erase(cells: list[str], column: int, stroke: str) -> None:
    match stroke[2:-1]:
        case "1":
            cells[:column] = " " * min(column, len(cells))
        case "2":
            cells[:] = " " * column
        case "" | "0" if stroke != "\x1b":
            del cells[column:]


def _trim_end(data: bytes) -> bytes:
    """Without the last line, which is cut; of a long one without so much that no half of a word stays which could be that of
    a secret."""
    cut = data.rfind(b"\n", len(data) - _TRIM_BYTES)
    return data[: cut + 1] if cut >= 0 else data[: max(0, len(data) - _TRIM_BYTES)]


def _trim_start(data: bytes) -> bytes:
    cut = data.find(b"\n", 0, _TRIM_BYTES)
    return data[cut + 1 :] if cut >= 0 else data[_TRIM_BYTES:]

"""From an instruction file's bytes to text for a model: any usual encoding is read, and what cannot be seen is removed.

Hidden characters are removed because a reviewer cannot see them while a model reads them; they are counted by kind.
"""

import codecs
import re

from msgspec import Struct

from agent.instructions.markdown import comments

MAX_READ_BYTES = 1 << 20
"""Of an instruction file; more is never looked at."""
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is the beginning of this one
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_HIDDEN = (
    ("tag", re.compile("[\U000e0000-\U000e0fff]+")),  # tags, and the variation selectors behind them
    ("bidi", re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+")),
    (
        "zero-width",
        re.compile(
            "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164"
            "\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a]+"
        ),
    ),
    ("control", re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]+")),
)


class CleanText(Struct, frozen=True):
    text: str
    """Line ends are `\\n`; no blank lines at either end. The first line keeps its indentation, which may mean code."""
    hidden: dict[str, int]
    """How many characters were removed, by kind: tag, bidi, zero-width, control."""
    first_line: int = 1
    """In which line of the file the text begins."""


class NotTextError(Exception):
    """The bytes are no text in any encoding that instruction files have."""


def read_text(data: bytes, *, whole: bool = True) -> CleanText:
    """Decode and clean. Without `whole`, a character that the end of `data` cuts in two is left out.

    A byte order mark decides; else UTF-8, UTF-16 where every other byte is zero, and at last Windows-1252 or Latin-1.

    Raises:
        NotTextError: it holds zero bytes as binary files do.
    """
    text = _decode(data, whole).replace("\r\n", "\n").replace("\r", "\n")
    hidden: dict[str, int] = {}
    for kind, pattern in _HIDDEN:
        if (removed := sum(len(piece) for piece in pattern.findall(text))) > 0:
            hidden[kind] = removed
            text = pattern.sub("", text)
    skipped = text[: len(text) - len(text.lstrip())].count("\n")
    return CleanText(text.split("\n", skipped)[skipped].rstrip(), hidden, skipped + 1)


def without_comments(text: str) -> tuple[str, frozenset[int]]:
    """The text without its HTML comments, in as many lines; and the lines (0-based) that are blank where comments were, with
    blank ones behind them.

    A comment in code is code, and one that is never closed is text.
    """
    if not (spans := comments(text)):
        return text, frozenset()
    lines = text.split("\n")
    for span in reversed(spans):
        line = lines[span.line]
        kept = line[: span.start] + line[span.end :]
        lines[span.line] = kept if line[span.end :].strip() else kept.rstrip()
    blank: set[int] = set()
    for at in sorted({span.line for span in spans}):
        while at < len(lines) and not lines[at].strip() and at not in blank:
            blank.add(at)
            at += 1
    return "\n".join(lines), frozenset(blank)


def _decode(data: bytes, whole: bool) -> str:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return codecs.getincrementaldecoder(encoding)("replace").decode(data[len(mark) :], whole)
    if b"\0" in data:
        encoding = _bare_utf16(data)
        return codecs.getincrementaldecoder(encoding)("replace").decode(data, whole)
    try:
        return codecs.getincrementaldecoder("utf-8")("strict").decode(data, whole)
    except UnicodeDecodeError:
        try:
            return data.decode("cp1252")
        except UnicodeDecodeError:
            return data.decode("latin-1")


def _bare_utf16(data: bytes) -> str:
    """UTF-16 without a mark shows in mostly Latin text as a zero in every other byte."""
    for offset, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        half, other = data[offset::2], data[1 - offset :: 2]
        if half.count(0) * 10 >= len(half) * 7 and other.count(0) * 20 <= len(other):
            return encoding
    raise NotTextError

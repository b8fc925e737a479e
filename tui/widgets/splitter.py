"""Cuts text into pieces that are rendered one by one: Markdown while it arrives, and plain text that is there whole.

Each line is looked at once, and no piece grows without bound. However a text arrives, the pieces are the same.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_LINES = 100
MAX_CHARS = 4096

_FENCE = re.compile(r" {0,3}(`{3,}(?!.*`)|~{3,})\s*([\w+#.-]*)")
_ITEM = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])\s+\S")
_OPENING_ITEM = re.compile(r"(?:[-*+]|1[.)])\s+\S")
"""What may begin a list right below a paragraph."""
_HEADING = re.compile(r"#{1,6}(?:\s|$)")
_TABLE_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\||$)")
_DEFINITION = re.compile(r" {0,3}\[([^\[\]]{1,200})\]:\s+<?(\S+?)>?(?:\s|$)")


class Piece(NamedTuple):
    text: str
    language: str | None = None
    """Of a code fence, "" where it names none; None: Markdown."""
    joins: bool = False
    """Goes on from the piece before without a blank row between."""


class Splitter:
    """Cuts one Markdown text. `references` holds its link definitions (label → address) as far as they were seen."""

    def __init__(self) -> None:
        self.references: dict[str, str] = {}
        self._lines: list[str] = []
        self._chars = 0
        self._gap = False
        """A blank line was seen inside a list."""
        self._joins = False
        self._fence = ""
        self._language = ""
        self._rest = ""
        self._done: list[Piece] = []

    def feed(self, text: str) -> list[Piece]:
        """The pieces that this text completes."""
        *lines, rest = (self._rest + text).split("\n")
        for line in lines:
            self._add(self._cut_long(line))
        self._rest = self._cut_long(rest)
        done, self._done = self._done, []
        return done

    def tail(self) -> Piece | None:
        """The unfinished piece as it stands; None where there is nothing to show.

        A last line that may yet become a fence is left out, so that its marks do not flash up.
        """
        language = self._language if self._fence else None
        rest = "" if self._may_be_fence(self._rest) else self._rest
        if not self._fence and not self._lines and (opened := _FENCE.match(rest)):
            return Piece("", opened[2], self._joins)
        lines = [*self._lines, rest] if rest else self._lines
        return Piece("\n".join(lines), language, self._joins) if any(lines) or self._fence else None

    def finish(self) -> list[Piece]:
        """The text is complete; what was open is closed."""
        done = self.feed("\n") if self._rest else []
        self._close_code()
        done += self._done
        self._done = []
        return done

    def _cut_long(self, line: str) -> str:
        while len(line) > MAX_CHARS:
            at = line.rfind(" ", MAX_CHARS // 2, MAX_CHARS) + 1 or MAX_CHARS
            self._append(line[:at])
            self._cut(goes_on=True)
            line = line[at:]
        return line

    def _closes(self, line: str) -> bool:
        mark = line.strip()
        return mark.startswith(self._fence) and not mark.strip(self._fence[0])

    def _may_be_fence(self, line: str) -> bool:
        mark = line.strip()
        if self._fence:
            return bool(mark) and not mark.strip(self._fence[0])
        return mark in ("`", "``", "~", "~~")

    def _add(self, line: str) -> None:
        if self._fence:
            self._add_code(line)
        elif not line or line.isspace():
            self._gap = bool(self._lines)
            if self._lines and not _ITEM.match(self._lines[0]):
                self._cut()
            elif self._lines:
                self._lines.append("")
        else:
            self._add_prose(line)

    def _add_code(self, line: str) -> None:
        if self._closes(line):
            self._close_code()
            return
        if len(self._lines) >= MAX_LINES or self._chars > MAX_CHARS:
            self._cut(goes_on=True)
        self._append(line)

    def _close_code(self) -> None:
        # An empty fence is drawn too: one empty line of code.
        if self._fence and not self._lines and not self._joins:
            self._lines.append("")
        self._cut()
        self._fence = ""

    def _add_prose(self, line: str) -> None:
        is_list = bool(self._lines) and _ITEM.match(self._lines[0]) is not None
        indented = line[0] in " \t"
        fence = None if is_list and indented else _FENCE.match(line)
        heading = _HEADING.match(line)
        if self._lines:
            ends_list = self._gap and not (is_list and (indented or _ITEM.match(line)))
            if fence or heading or ends_list:
                self._cut()
            elif self._chars > (4 * MAX_CHARS if indented else MAX_CHARS):
                self._cut_full(line)
            elif not is_list and not indented and _OPENING_ITEM.match(line):
                self._cut(goes_on=True)
        self._gap = False
        if fence:
            self._fence, self._language = fence[1], fence[2]
            return
        if definition := _DEFINITION.match(line):
            self.references.setdefault(definition[1], definition[2])
        self._append(line)
        if heading:
            self._cut()

    def _cut_full(self, line: str) -> None:
        """Cut for the size alone; a long table goes on with its header."""
        is_table = not self._gap and line[0] == "|" and len(self._lines) > 1 and _TABLE_RULE.match(self._lines[1])
        header = self._lines[:2] if is_table else []
        self._cut(goes_on=not self._gap)
        self._lines = header

    def _append(self, line: str) -> None:
        self._lines.append(line)
        self._chars += len(line)

    def _cut(self, goes_on: bool = False) -> None:
        if self._lines:
            text = "\n".join(self._lines)
            text = text if self._fence else text.rstrip("\n")
            self._done.append(Piece(text, self._language if self._fence else None, self._joins))
        self._lines, self._chars, self._gap, self._joins = [], 0, False, goes_on and bool(self._lines or self._joins)


def split_plain(text: str) -> Iterator[str]:
    """A plain text in pieces of at most `MAX_LINES` lines and about `MAX_CHARS` characters; at least one, maybe empty."""
    lines: list[str] = []
    chars = 0
    for whole in text.split("\n"):
        for line in _short_lines(whole):
            if lines and (len(lines) >= MAX_LINES or chars + len(line) > MAX_CHARS):
                yield "\n".join(lines)
                lines, chars = [], 0
            lines.append(line)
            chars += len(line)
    yield "\n".join(lines)


def _short_lines(line: str) -> Iterator[str]:
    for start in range(0, len(line) or 1, MAX_CHARS):
        yield line[start : start + MAX_CHARS]

"""A text with mixed line ends seen as one with plain newlines, and replacements that keep the ends of untouched lines."""

import functools
import re
from array import array
from bisect import bisect_right
from difflib import SequenceMatcher

from agent.encodings import newline_of, split_lines, with_newlines

_MAX_COMPARED = 2_000_000  # lines times lines


class PlainView:
    """`plain` is `text` with every line end as a newline; places in it can be mapped back."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.plain = with_newlines(text, "\n")
        self.newline = _only_newline(text, text.count("\r\n"))
        """The one line end of the whole text; None where they are mixed."""

    @functools.cached_property
    def _pairs(self) -> "array[int]":
        """Where the CRLF pairs stand in `plain`: one at p moves everything behind p by one."""
        found = re.finditer("\r\n", self.text) if "\r" in self.text else ()
        return array("I", (pair.start() - shift for shift, pair in enumerate(found)))

    def original(self, place: int) -> int:
        """The place in `text` of a place in `plain`."""
        return place + bisect_right(self._pairs, place - 1)

    def slice(self, start: int, end: int) -> str:
        """The original of `plain[start:end]`."""
        return self.text[self.original(start) : self.original(end)]


def _only_newline(text: str, pairs: int) -> str | None:
    feeds, returns = text.count("\n"), text.count("\r")
    if pairs:
        return "\r\n" if pairs == feeds == returns else None
    return None if feeds and returns else "\r" if returns else "\n"


def adapt(view: PlainView, start: int, end: int, old: str, new: str) -> str:
    """What to put in the place of `view.plain[start:end]` so that it reads as `new`, both in plain newlines.

    `old` is what the caller took the region for, with as many lines. Lines that `new` has in common with `old` stay as
    they are in the text, line ends included; other lines get the end of the line they replace, or of their neighbour.
    """
    if "\r" not in view.text and view.plain[start:end] == old:
        return new
    if "\n" not in old and view.plain[start:end] == old:
        lines = new.split("\n")
        return _join(view, start, end, lines, [_end_near(view, start, end)] * (len(lines) - 1))
    raw_lines, raw_ends = split_lines(view.slice(start, end))
    old_lines, new_lines = old.split("\n"), new.split("\n")
    near = _end_near(view, start, end)
    ends = [near] * (len(new_lines) - 1)
    lines = list(new_lines)
    for kept, old_from, old_to, new_from, new_to in _changes(old_lines, new_lines):
        for place in range(new_from, new_to):
            source = min(old_from + place - new_from, old_to - 1) if old_to > old_from else old_from - 1
            if kept:
                lines[place] = raw_lines[source]
            if place < len(ends) and 0 <= source < len(raw_ends):
                ends[place] = raw_ends[source]
    return _join(view, start, end, lines, ends)


def _join(view: PlainView, start: int, end: int, lines: list[str], ends: list[str]) -> str:
    """Lines and their ends, where no CR and LF that are two line ends become one CRLF, not at the borders either."""
    last = view.text[max(view.original(start) - 1, 0) : view.original(start)]
    following = view.text[view.original(end) : view.original(end) + 1]
    pieces: list[str] = []
    for line, line_end in zip(lines, [*ends, ""], strict=True):
        merges = line_end == "\n" and not line and last == "\r"
        pieces += (line, "\r\n" if merges else line_end)
        last = (line + line_end)[-1:] or last
    joined = "".join(pieces)
    return joined + "\n" if joined.endswith("\r") and following == "\n" else joined


def _changes(old: list[str], new: list[str]) -> list[tuple[bool, int, int, int, int]]:
    """(kept?, old from, old to, new from, new to), in order, covering `new`."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    changes = [(True, 0, head, 0, head)]
    if len(middle_old) * len(middle_new) > _MAX_COMPARED:
        changes.append((False, head, len(old) - tail, head, len(new) - tail))
    else:
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, middle_old, middle_new).get_opcodes():
            changes.append((tag == "equal", head + i1, head + i2, head + j1, head + j2))
    changes.append((True, len(old) - tail, len(old), len(new) - tail, len(new)))
    return changes


def _end_near(view: PlainView, start: int, end: int) -> str:
    """The line end that follows the region, or the one before it, or the text's usual one."""
    following = view.plain.find("\n", end)
    place = following if following >= 0 else view.plain.rfind("\n", 0, start)
    return newline_of(view.slice(place, place + 1)) if place >= 0 else newline_of(view.text)

"""The long pastes of a text: a marker stands for each in the field, and the text itself is kept whole until it is sent.

It knows lines and columns, and no widget. A marker is text like any other except that it is moved over and deleted as one
character: half of it would stand for nothing.
"""

import re

PASTE_CHARS = 4_000
"""A longer paste stands in the field as a marker and is put in when the message is sent."""
PASTE_LINES = 40


class Pastes:
    """The pastes behind the markers of one field."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._count = 0

    def fold(self, text: str) -> str:
        """The text itself if it is short, else a marker on one line that stands for it from now on. `text` is clean."""
        lines = text.count("\n") + 1
        if len(text) <= PASTE_CHARS and lines <= PASTE_LINES:
            return text
        self._count += 1
        marker = f"[paste {self._count}: {len(text):,} characters, {lines:,} line{'s' * (lines != 1)}]"
        self._texts[marker] = text
        return marker

    def forget(self) -> None:
        """Begin anew: no marker stands for anything."""
        self._texts.clear()

    def expand(self, text: str) -> str:
        """The text with the pastes in place of their markers. What stands in a paste is never taken for a marker."""
        if not self._texts:
            return text
        pattern = "|".join(map(re.escape, self._texts))
        return re.sub(pattern, lambda match: self._texts[match[0]], text)

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Start and end column of each marker in a line, from left to right."""
        found: list[tuple[int, int]] = []
        for marker in self._texts:
            place = line.find(marker)
            while place >= 0:
                found.append((place, place + len(marker)))
                place = line.find(marker, place + len(marker))
        return sorted(found)

    def snapped(self, line: str, column: int, before: int | None) -> int:
        """The column outside of every marker that a cursor gets to which would stand in one. `before` is where it stood in
        the same line: moving from one edge it comes out at the other. None: the nearer edge."""
        for start, end in self.spans(line):
            if start < column < end:
                if before == start:
                    return end
                if before == end:
                    return start
                return start if column - start <= end - column else end
        return column

    def widened(self, line: str, start: int, end: int) -> tuple[int, int]:
        """The range with every marker that it cuts in it whole."""
        for left, right in self.spans(line):
            if start < right and end > left:
                start, end = min(start, left), max(end, right)
        return start, end

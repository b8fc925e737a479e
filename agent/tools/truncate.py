"""Shortens a text to a bound by leaving out its middle. Pure; who caps says what to put in the gap."""

import unicodedata
from typing import Literal

from msgspec import Struct

_MAX_STEPS = 32
_JOINERS = "\u200d\ufe0e\ufe0f"


class Capped(Struct, frozen=True):
    """`head` and `tail` of a text with something left out between, or all of it as `head`."""

    head: str
    tail: str = ""
    omitted_lines: int = 0
    """Line ends in what was left out."""
    omitted_chars: int = 0
    limit: Literal["none", "chars", "lines"] = "none"
    """Which bound was hit; "none": nothing was left out."""

    @property
    def is_whole(self) -> bool:
        return self.limit == "none"

    def text(self, marker: str) -> str:
        """The text with `marker` on a line of its own in the gap; a whole text as it was."""
        if self.is_whole:
            return self.head
        before = "" if not self.head or self.head.endswith("\n") else "\n"
        after = "" if not self.tail else "\n"
        return f"{self.head}{before}{marker}{after}{self.tail}"


def newest(text: str, most_chars: int) -> str:
    """The end of a text, at most so long. It begins with a whole word where one begins in its first half: half of a word may
    be half of a secret, which nobody knows for one."""
    if len(text) <= most_chars:
        return text
    end = text[-most_chars:]
    cut = next((place for place, c in enumerate(end[: most_chars // 2]) if c.isspace()), 0)
    return end[cut:]


def cap_text(text: str, max_chars: int, max_lines: int | None = None) -> Capped:
    """Keep at most `max_chars` characters and `max_lines` lines, half of them from each end; the marker is not counted.

    Cuts fall on line ends where that costs at most half of a part, else between words (half of one may be half of a secret),
    and never inside CRLF or a combining sequence of up to 32 characters.
    """
    head_end, tail_start = len(text), len(text)
    limit: Literal["none", "chars", "lines"] = "none"
    if max_lines is not None and _line_count(text) > max_lines:
        limit = "lines"
        head_end, tail_start = _after_lines(text, (max_lines + 1) // 2), _before_lines(text, max_lines // 2)
    if head_end + len(text) - tail_start > max_chars:
        first = limit == "none"
        limit = "chars"
        head_end = min(head_end, _cut_back(text, (max_chars + 1) // 2))
        cut = _cut_forward(text, len(text) - max_chars // 2)
        tail_start = cut if first else max(tail_start, cut)
    if limit == "none":
        return Capped(text)
    omitted = tail_start - head_end
    return Capped(text[:head_end], text[tail_start:], text.count("\n", head_end, tail_start), omitted, limit)


def _line_count(text: str) -> int:
    return text.count("\n") + (0 if not text or text.endswith("\n") else 1)


def _after_lines(text: str, count: int) -> int:
    place = 0
    for _ in range(count):
        place = text.index("\n", place) + 1
    return place


def _before_lines(text: str, count: int) -> int:
    place = len(text) - 1 if text.endswith("\n") else len(text)
    for _ in range(count):
        place = text.rindex("\n", 0, place)
    return place + 1 if count else len(text)


def _cut_back(text: str, room: int) -> int:
    """Where a head of at most `room` characters ends."""
    line_end = text.rfind("\n", 0, room) + 1
    if line_end > room // 2:
        return line_end
    if (word_end := text.rfind(" ", 0, room) + 1) > room // 2:
        return word_end
    place = room
    for _ in range(_MAX_STEPS):
        if place <= 0 or not _joined(text, place):
            return max(place, 0)
        place -= 1
    return room


def _cut_forward(text: str, start: int) -> int:
    """Where a tail that begins at `start` or later begins."""
    room = len(text) - start
    line_end = text.find("\n", max(start - 1, 0))
    if line_end >= 0 and len(text) - (line_end + 1) >= room / 2:
        return line_end + 1
    word_end = text.find(" ", max(start - 1, 0))
    if word_end >= 0 and len(text) - (word_end + 1) >= room / 2:
        return word_end + 1
    place = start
    for _ in range(_MAX_STEPS):
        if place >= len(text) or not _joined(text, place):
            return place
        place += 1
    return start


def _joined(text: str, place: int) -> bool:
    """Whether the characters on both sides of `place` belong together."""
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    if before == "\r" and after == "\n":
        return True
    if before == "\u200d":
        return True
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return True
    return after in _JOINERS or unicodedata.category(after) in ("Mn", "Me", "Mc")

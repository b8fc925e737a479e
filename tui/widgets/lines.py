"""Lines of styled text: wrapping, cutting and padding to an exact number of cells. Pure; knows nothing of what it draws."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

Span = tuple[str, Style]
"""Text without newlines unless said otherwise, and its style."""

_TOKEN = re.compile(r"\n|[^\s]+|[^\S\n]+")
_TAB = 4


class Line(NamedTuple):
    segments: list[Segment]
    joint: str | None = None
    """What the text has between the line above and this one where that is no line break: a space or nothing."""
    inset: int = 0
    """Cells on the left that are no text (margin, marks, line numbers) and are left out when copying."""


def wrap(spans: Sequence[Span], width: int) -> list[Line]:
    """Break at white space, and inside words longer than a line. Newlines in the spans break too. At least one line."""
    text = "".join(text for text, _ in spans)
    if "\t" in text:
        spans = [(text.expandtabs(_TAB), style) for text, style in spans]
        text = "".join(text for text, _ in spans)
    starts, hard = _breaks(text, max(2, width))
    joints = [None if at in hard else " " if text[at - 1].isspace() else "" for at in starts]
    return _cut(spans, [*starts[1:], len(text) + 1], joints)


def _breaks(text: str, width: int) -> tuple[list[int], set[int]]:
    """Offsets where lines start (the first is 0), and which of these follow a newline."""
    size = len if text.isascii() else cell_len
    starts, hard, column = [0], {0}, 0
    for match in _TOKEN.finditer(text):
        token, at = match[0], match.start()
        if token == "\n":
            starts.append(match.end())
            hard.add(match.end())
            column = 0
            continue
        cells = size(token)
        if column + cells > width and not token.isspace():
            if column:
                starts.append(at)
                column = 0
            if cells > width:
                parts = chop_cells(token, width) or [token]
                for part in parts[:-1]:
                    at += len(part)
                    starts.append(at)
                cells = size(parts[-1])
        column += cells
    return starts, hard


def _cut(spans: Sequence[Span], ends: list[int], joints: list[str | None]) -> list[Line]:
    lines = [Line([], joint) for joint in joints]
    at = line = 0
    for text, style in spans:
        while text:
            part, text = text[: ends[line] - at], text[ends[line] - at :]
            at += len(part)
            full = at == ends[line]
            if kept := part.rstrip() if full else part:
                lines[line].segments.append(Segment(kept, style))
            line += full
    return lines


def fold(spans: Iterable[Span], width: int) -> list[Line]:
    """Lines of code: kept as they are and folded at exactly `width` cells. Newlines in the spans end a line."""
    lines: list[list[Span]] = [[]]
    for text, style in spans:
        first, *rest = text.split("\n")
        if first:
            lines[-1].append((first, style))
        lines.extend([(part, style)] if part else [] for part in rest)
    return [piece for line in lines for piece in _fold_line(line, max(2, width))]


def _fold_line(spans: list[Span], width: int) -> list[Line]:
    pieces: list[list[Segment]] = [[]]
    column = 0
    for raw, style in spans:
        text = raw.expandtabs(_TAB) if "\t" in raw else raw
        length = cell_len(text)
        if column + length > width:
            head = _fitting(text, width - column)
            if head:
                pieces[-1].append(Segment(head, style))
            *full, text = chop_cells(text[len(head) :], width) or [""]
            pieces.extend([Segment(part, style)] for part in full if part)
            pieces.append([])
            column, length = 0, cell_len(text)
        if text:
            pieces[-1].append(Segment(text, style))
            column += length
    return [Line(piece, "" if number else None) for number, piece in enumerate(pieces)]


def _fitting(text: str, width: int) -> str:
    """The longest start of the text that needs at most `width` cells."""
    if width < 1:
        return ""
    # A grapheme has rarely more than a few code points: look at no more than needed of a very long line.
    part = text[: width * 4 + 64]
    return chop_cells(part, width)[0] if cell_len(part) > width else part


def cells(segments: Iterable[Segment]) -> int:
    return sum(len(s.text) if s.text.isascii() else cell_len(s.text) for s in segments)


def pad(segments: list[Segment], width: int, style: Style) -> list[Segment]:
    """The line filled up to `width` cells; a longer one stays as it is."""
    missing = width - cells(segments)
    return [*segments, Segment(" " * missing, style)] if missing > 0 else segments


def to_strip(segments: list[Segment], width: int, style: Style) -> Strip:
    """A row of exactly `width` cells."""
    length = cells(segments)
    if length == width:
        return Strip(segments, width)
    if length < width:
        return Strip([*segments, Segment(" " * (width - length), style)], width)
    return Strip(segments, length).crop_extend(0, width, style)

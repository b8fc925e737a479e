"""A unified diff → blocks of lines with numbers and colours; within a changed line, what differs is marked."""

import re
from array import array
from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

from rich.segment import Segment
from rich.style import Style

from tui.themes import Palette
from tui.widgets.blocks import Block
from tui.widgets.lines import Line, Span, cells, fold, pad
from tui.widgets.page import Page
from tui.widgets.splitter import MAX_CHARS, MAX_LINES

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")

RowKind = Literal["context", "added", "removed", "skipped", "note"]
_KINDS: tuple[RowKind, ...] = get_args(RowKind)


class DiffRow(NamedTuple):
    kind: RowKind
    number: int
    """Line in the new file, for a removed one in the old; 0: none."""
    text: str
    changed: tuple[int, int] | None = None
    """Which characters differ from the line's counterpart, end exclusive; None: no counterpart to compare with."""


def parse_diff(diff: str) -> list[DiffRow]:
    """Rows of a clean unified diff without file headers. Lines before the first hunk are numbered from 1."""
    rows: list[DiffRow] = []
    old = new = 1
    for line in diff.removesuffix("\n").split("\n"):
        if hunk := _HUNK.match(line):
            old, new = int(hunk[1]), int(hunk[2])
            if rows:
                rows.append(DiffRow("skipped", 0, ""))
            continue
        mark, text = line[:1], line[1:]
        if mark == "+":
            rows.append(DiffRow("added", new, text))
            new += 1
        elif mark == "-":
            rows.append(DiffRow("removed", old, text))
            old += 1
        elif mark == "\\":
            rows.append(DiffRow("note", 0, text.strip()))
        else:
            rows.append(DiffRow("context", new, text))
            old, new = old + 1, new + 1
    return _compared(rows)


def _compared(rows: list[DiffRow]) -> list[DiffRow]:
    """Pairs of removed and added lines that follow each other learn where they differ."""
    at = 0
    while at < len(rows):
        removed = _run(rows, at, "removed")
        added = _run(rows, at + removed, "added")
        if removed and removed == added:
            for k in range(at, at + removed):
                before, after = _difference(rows[k].text, rows[k + removed].text)
                rows[k] = rows[k]._replace(changed=before)
                rows[k + removed] = rows[k + removed]._replace(changed=after)
        at += max(1, removed + added)
    return rows


def _run(rows: list[DiffRow], at: int, kind: RowKind) -> int:
    end = at
    while end < len(rows) and rows[end].kind == kind:
        end += 1
    return end - at


def _difference(old: str, new: str) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """Everything between the common start and the common end; None where the lines have hardly anything in common."""
    most = min(len(old), len(new))
    start = next((k for k in range(most) if old[k] != new[k]), most)
    end = next((k for k in range(most - start) if old[-1 - k] != new[-1 - k]), most - start)
    common = len(old[:start].strip()) + len(old[len(old) - end :].strip())
    if common * 2 < most:
        return None, None
    return (start, len(old) - end), (start, len(new) - end)


class DiffPart(Block):
    """Some rows of a diff. `digits`: width of the number column, the same for all parts.

    Small diffs stand open for as long as their session: what rows are besides their text is kept in as little as it takes.
    """

    __slots__ = ("_changed", "_kinds", "_numbers", "digits")

    def __init__(self, rows: list[DiffRow], digits: int) -> None:
        super().__init__("\n".join(row.text for row in rows))
        self._kinds = bytes(_KINDS.index(row.kind) for row in rows)
        self._numbers = array("Q", (min(row.number, 1 << 60) for row in rows))
        self._changed = {at: row.changed for at, row in enumerate(rows) if row.changed is not None} or None
        self.digits = digits

    def _rows(self) -> list[DiffRow]:
        changed = self._changed or {}
        facts = zip(self._kinds, self._numbers, self.text.split("\n"), strict=True)
        return [DiffRow(_KINDS[kind], number, text, changed.get(at)) for at, (kind, number, text) in enumerate(facts)]

    def lines(self, page: Page) -> list[Line]:
        rows = self._rows()
        longest = max((len(row.text) for row in rows), default=0)
        width = page.panel(longest + self.digits + 5)
        return page.body([line for row in rows for line in self._row(row, width, page.palette)])

    def _row(self, row: DiffRow, width: int, palette: Palette) -> Iterator[Line]:
        back, number_style, mark = _look(row.kind, palette)
        number = str(row.number) if row.number else "⋯" if row.kind == "skipped" else ""
        chrome = self.digits + 4
        for k, line in enumerate(fold(_spans(row, back, palette), max(2, width - chrome - 1))):
            gutter = Segment(f" {number if k == 0 else '':>{self.digits}} {mark if k == 0 else ' '} ", number_style)
            yield Line(pad([gutter, *line.segments], width, back), line.joint, cells([gutter]))


def _spans(row: DiffRow, style: Style, palette: Palette) -> list[Span]:
    if row.changed is None or row.changed[0] == row.changed[1]:
        return [(row.text, style)]
    start, end = row.changed
    word = palette.added_word if row.kind == "added" else palette.removed_word
    # The text of a cut row would not tell where its tabs stand.
    spans = [(row.text[:start], style), (row.text[start:end], word), (row.text[end:], style)]
    return [span for span in spans if span[0]]


def _look(kind: RowKind, palette: Palette) -> tuple[Style, Style, str]:
    """Style of the text, of the number and mark, and the mark."""
    if kind == "added":
        return palette.added, palette.added_mark, "+"
    if kind == "removed":
        return palette.removed, palette.removed_mark, "-"
    if kind == "context":
        return palette.panel, palette.panel_dim, " "
    return palette.panel_dim, palette.panel_dim, " "


def diff_blocks(rows: list[DiffRow]) -> list[Block]:
    """The rows in blocks of bounded size."""
    digits = max(2, len(str(max((row.number for row in rows), default=0))))
    parts: list[list[DiffRow]] = [[]]
    chars = 0
    for row in rows:
        for piece in _bounded(row):
            if parts[-1] and (len(parts[-1]) >= MAX_LINES or chars + len(piece.text) > MAX_CHARS):
                parts.append([])
                chars = 0
            parts[-1].append(piece)
            chars += len(piece.text)
    return [DiffPart(part, digits) for part in parts if part]


def _bounded(row: DiffRow) -> Iterator[DiffRow]:
    if len(row.text) <= MAX_CHARS:
        yield row
        return
    for start in range(0, len(row.text), MAX_CHARS):
        yield row._replace(text=row.text[start : start + MAX_CHARS], changed=None)

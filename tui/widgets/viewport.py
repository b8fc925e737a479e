"""Which part of a column is on the screen: pinned to a line of a block, or following the end. Pure.

The place is never an absolute row, so a wrong estimate of what is not on screen cannot move what is.
"""

from collections.abc import Iterator
from typing import NamedTuple

from textual.strip import Strip

from tui.widgets.column import Column


class Place(NamedTuple):
    block: int
    line: int
    """Row within the block, 0-based, the blank ones above its text included."""


class Viewport:
    def __init__(self, column: Column) -> None:
        self._column = column
        self.following = True
        self.top = Place(0, 0)
        """The first row on screen; kept up to date also while following."""

    def window(self, height: int) -> list[Strip]:
        """The rows on screen, at most `height`. Renders nothing else; while following, from the end upwards."""
        if not self.following:
            rows, at_end = self._from_top(height)
            if not at_end:
                return rows
            self.following = True
        return self._from_end(height)

    def _from_top(self, height: int) -> tuple[list[Strip], bool]:
        """The rows from the pinned place down, and whether the last row of the column is among them."""
        at, skip = self.top
        rows: list[Strip] = []
        while at < len(self._column) and len(rows) < height + skip:
            rows += self._column.rows(at).strips
            at += 1
        return rows[skip : skip + height], at >= len(self._column) and len(rows) - skip <= height

    def _from_end(self, height: int) -> list[Strip]:
        at = len(self._column)
        parts: list[list[Strip]] = []
        count = 0
        while at > 0 and count < height:
            at -= 1
            parts.append(self._column.rows(at).strips)
            count += len(parts[-1])
        rows = [strip for part in reversed(parts) for strip in part]
        self.top = Place(at, max(0, count - height))
        return rows[max(0, count - height) :]

    # ---- moving: only blocks that come into view are rendered
    def scroll(self, rows: int) -> None:
        """Move the view down by that many rows, up if negative."""
        if rows > 0 and self.following:
            return
        self.following = False
        self.top = self._moved(self.top, rows)

    def _moved(self, place: Place, rows: int) -> Place:
        at, line = place.block, place.line + rows
        while line < 0 and at > 0:
            at -= 1
            line += len(self._column.rows(at).strips)
        while at < len(self._column) - 1 and line >= (count := len(self._column.rows(at).strips)):
            line -= count
            at += 1
        return Place(at, max(0, line))

    def jump(self, fraction: float) -> None:
        """Go to a place by its share of the whole, 0.0 the beginning, 1.0 the end. Approximate in between."""
        self.following = fraction >= 1
        row = int(max(0.0, fraction) * self._column.height())
        at = self._column.at_row(row)
        self.top = Place(at, max(0, row - self._column.top_of(at)) if fraction > 0 else 0)

    def show(self, block: int) -> None:
        """Put a block's first line at the top of the screen."""
        self.following, self.top = False, Place(block, self._column.blocks[block].above)

    def pin(self) -> None:
        """Stay where the screen is, whatever happens below."""
        self.following = False

    def places(self, height: int) -> Iterator[Place]:
        """The place of each row on screen, from the top; fewer than `height` where the column ends before."""
        at, line = self.top
        shown = 0
        while at < len(self._column) and shown < height:
            count = len(self._column.rows(at).strips)
            for k in range(line, min(count, line + height - shown)):
                yield Place(at, k)
            shown += max(0, count - line)
            at, line = at + 1, 0

    def locate(self, y: int, height: int) -> Place | None:
        """The place of a screen row; None below the end."""
        return next((place for k, place in enumerate(self.places(height)) if k == y), None)

    def thumb(self, height: int) -> tuple[int, int]:
        """First row of the scroll bar's thumb and the row behind its last; equal if everything is on screen."""
        total = self._column.height()
        if total <= height or height < 1:
            return 0, 0
        size = max(1, height * height // total)
        above = self._column.top_of(self.top.block) + self.top.line
        start = height - size if self.following else min(height - size, above * height // total)
        return start, start + size

    # ---- the column changed above or at the pinned place
    def inserted(self, at: int, count: int) -> None:
        if at <= self.top.block:
            self.top = Place(self.top.block + count, self.top.line)

    def removed(self, start: int, end: int) -> None:
        block, line = self.top
        if block >= end:
            self.top = Place(block - (end - start), line)
        elif block >= start:
            self.top = Place(max(0, start - 1), 0)

    def rescaled(self, before: int, after: int) -> None:
        """The block at the top has other lines than before: stay at the same share of it."""
        if before and self.top.line:
            self.top = Place(self.top.block, self.top.line * after // before)

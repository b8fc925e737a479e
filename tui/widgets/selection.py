"""What the mouse has selected in the transcript, its highlight and its text. Pure.

Margins, marks and line numbers are left out, rows that were wrapped are joined again.
"""

from collections.abc import Iterator
from typing import NamedTuple

from rich.style import Style
from textual.strip import Strip

from tui.widgets.column import Column
from tui.widgets.viewport import Place


class Point(NamedTuple):
    block: int
    line: int
    cell: int


class Selection:
    """From where the mouse was pressed to where it is; both cells included. Valid until blocks are inserted or removed."""

    def __init__(self) -> None:
        self._anchor: Point | None = None
        self._head: Point | None = None

    def begin(self, point: Point) -> None:
        self._anchor, self._head = point, None

    def extend(self, point: Point) -> None:
        if self._anchor is not None and (self._head is not None or point != self._anchor):
            self._head = point

    def clear(self) -> bool:
        """True if something was selected."""
        had = bool(self)
        self._anchor = self._head = None
        return had

    def __bool__(self) -> bool:
        return self._anchor is not None and self._head is not None

    @property
    def ends(self) -> tuple[Point, Point] | None:
        """First and last cell in reading order."""
        if self._anchor is None or self._head is None:
            return None
        return (self._anchor, self._head) if self._anchor <= self._head else (self._head, self._anchor)

    def cells(self, place: Place, width: int) -> tuple[int, int] | None:
        """The selected cells of a row, end exclusive; None if there are none."""
        if (ends := self.ends) is None:
            return None
        (first, last), here = ends, (place.block, place.line)
        if not first[:2] <= here <= last[:2]:
            return None
        start = first.cell if here == first[:2] else 0
        end = last.cell + 1 if here == last[:2] else width
        return (start, min(end, width)) if start < end else None


def highlighted(strip: Strip, start: int, end: int, style: Style) -> Strip:
    """The row with some cells laid over with a style."""
    width = strip.cell_length
    if not 0 <= start < end <= width:
        return strip
    middle = Strip([segment._replace(style=(segment.style or Style()) + style) for segment in strip.crop(start, end)])
    return Strip.join([strip.crop(0, start), middle, strip.crop(end, width)])


def selected_text(selection: Selection, column: Column) -> str:
    """The selected text as it would have been typed."""
    return "".join(_pieces(selection, column)).strip("\n")


def _pieces(selection: Selection, column: Column) -> Iterator[str]:
    if (ends := selection.ends) is None:
        return
    first, last = ends
    for at in range(first.block, min(last.block, len(column) - 1) + 1):
        rendered = column.rows(at)
        for line, strip in enumerate(rendered.strips):
            cells = selection.cells(Place(at, line), strip.cell_length)
            if cells is None:
                continue
            start, end = max(cells[0], rendered.insets[line]), cells[1]
            joint = rendered.joints[line]
            yield "\n" if joint is None else joint
            if start < end:
                yield strip.crop(start, end).text.rstrip()

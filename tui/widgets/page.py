"""How a row of the transcript is laid out: a margin, two cells for a mark, the body, a margin."""

from functools import cached_property, lru_cache

from msgspec import Struct
from rich.segment import Segment
from rich.style import Style

from tui.themes import Palette
from tui.widgets.lines import Line, pad

MIN_WIDTH = 8
"""Rows are made at least this wide and cropped to the screen."""
MEASURE = 116
"""Sentences are not set wider than this: longer lines are hard to read."""
_MARK = 2
_ROOMY = 40
"""From this width on there are margins."""


class Page(Struct, frozen=True, dict=True):
    """What a block needs to know to be rendered. Equal pages give equal rows."""

    width: int
    palette: Palette

    @cached_property
    def margin(self) -> int:
        return 1 if self.width >= _ROOMY else 0

    @cached_property
    def indent(self) -> int:
        """Where the body begins."""
        return self.margin + _MARK

    @cached_property
    def room(self) -> int:
        """Cells of the body."""
        return self.width - self.indent - self.margin

    @cached_property
    def measure(self) -> int:
        """Cells of a line of prose."""
        return min(self.room, MEASURE)

    def panel(self, longest: int) -> int:
        """Cells of a panel whose longest line, with its edges, has `longest` cells: as wide as prose, or as it needs."""
        return min(self.room, max(MEASURE, longest))

    def body(self, lines: list[Line]) -> list[Line]:
        """The lines set in the body, without a mark."""
        before = _blank(self.indent, self.palette.text)
        return [Line([before, *line.segments], line.joint, self.indent + line.inset) for line in lines]

    def marked(self, mark: str, style: Style, lines: list[Line]) -> list[Line]:
        """The lines set in the body, a mark of one cell before the first."""
        lines = self.body(lines)
        if lines:
            margin = [_blank(self.margin, self.palette.text)] if self.margin else []
            lines[0] = lines[0]._replace(segments=[*margin, Segment(mark + " ", style), *lines[0].segments[1:]])
        return lines

    def filled(self, lines: list[Line], style: Style) -> list[Line]:
        """The lines set in the body, their background up to the right edge of the measure."""
        return self.body([line._replace(segments=pad(line.segments, self.measure, style)) for line in lines])


@lru_cache(64)
def _blank(width: int, style: Style) -> Segment:
    return Segment(" " * width, style)

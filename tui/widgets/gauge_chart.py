"""A chart of the gauge over the session: one column a step while there is room, then the largest of several in each.

The scale reaches the trigger once a quarter of the way to it is used; before that it fits what was used, since a chart at
the foot of a large window says nothing, and the caption tells where the trigger is. Columns grow from the left, at most
four cells a step, so that a short session does not look like a long one.
"""

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from agent.context.pieces import ChartPoint
from agent.events import GaugeChanged
from tui.sanitize import shorten
from tui.themes import Palette, palette_for
from tui.widgets.kinds import tints
from tui.widgets.lines import to_strip
from tui.widgets.status import short_tokens

MIN_ROWS = 5
"""Caption, three rows of columns, marks. With fewer nothing is drawn."""
AXIS = 7
"""Cells of the axis: a label of five, a blank, the line."""
_MAX_STRETCH = 4
_EIGHTHS = " ▁▂▃▄▅▆▇█"
EVENTS = {"compaction": "▼", "undo": "↶", "clearing": "◇", "edit": "+"}
"""Marks under the chart; of several in one column the first here is shown."""


class Column(Struct, frozen=True):
    used_tokens: int
    event: str = "step"


def columns(points: Sequence[ChartPoint], width: int) -> list[Column]:
    """The points as columns, at most `width`. An event stands in the first column of its point."""
    count = len(points)
    if not count or width < 1:
        return []
    if count > width:
        edges = [at * count // width for at in range(width + 1)]
        return [_merged(points[a:b]) for a, b in pairwise(edges)]
    stretch = min(_MAX_STRETCH, width // count)
    return [
        Column(max(0, point.used_tokens), point.event if first == 0 else "step")
        for point in points
        for first in range(stretch)
    ]


def _merged(points: Sequence[ChartPoint]) -> Column:
    seen = {point.event for point in points}
    event = next((name for name in EVENTS if name in seen), "step")
    return Column(max(0, *(point.used_tokens for point in points)), event)


def scale_top(peak_tokens: int, trigger_tokens: int) -> int:
    """Tokens at the upper edge: at least the peak, rounded up to two digits."""
    wanted = max(10, peak_tokens)
    if trigger_tokens > 0 and peak_tokens * 4 >= trigger_tokens:
        wanted = max(wanted, trigger_tokens + trigger_tokens // 10)
    elif trigger_tokens > 0:
        wanted += wanted // 4
    step = int("1".ljust(max(1, len(str(wanted)) - 1), "0"))
    return -(-wanted // step) * step


class Scale(Struct, frozen=True):
    """How tokens become rows."""

    rows: int
    top_tokens: int
    trigger_tokens: int
    """0 if there is none."""

    @property
    def line(self) -> int | None:
        """The row of the trigger, counted from the top; None where it is above the chart."""
        if not 0 < self.trigger_tokens < self.top_tokens:
            return None
        return self.rows - 1 - self.trigger_tokens * self.rows // self.top_tokens

    def eighths(self, tokens: int, row: int) -> int:
        """How much of the row's cell is filled, 0..8. Whatever is used is seen."""
        whole = -(-tokens * self.rows * 8 // self.top_tokens)
        return min(8, max(0, whole - (self.rows - 1 - row) * 8))

    def label(self, row: int) -> str:
        """That of the trigger goes before those of the scale."""
        middle, line = self.rows // 2, self.line
        if row == line:
            return short_tokens(self.trigger_tokens)
        if row == 0:
            return short_tokens(self.top_tokens)
        if row == middle and self.rows >= 7 and (line is None or abs(line - middle) > 1):
            return short_tokens(self.top_tokens * (self.rows - middle) // self.rows)
        return "0" if row == self.rows - 1 else ""


def chart_rows(points: Sequence[ChartPoint], trigger_tokens: int, size: Size, palette: Palette) -> list[list[Segment]]:
    """Caption, columns with the axis on their left, and the row of marks: `size.height` rows, none if it is too small."""
    if size.height < MIN_ROWS or size.width < AXIS + 4:
        return []
    drawn = columns(points, size.width - AXIS)
    peak = max((column.used_tokens for column in drawn), default=0)
    scale = Scale(size.height - 2, scale_top(peak, trigger_tokens), max(0, trigger_tokens))
    chart = [_caption(points, scale, size.width, palette)]
    for row in range(scale.rows):
        on_line = row == scale.line
        chart.append(
            [
                Segment(f"{scale.label(row):>5} ", palette.warning if on_line else palette.dim),
                Segment("┼" if on_line else "│", palette.faint),
                *(_cell(column, row, scale, palette) for column in drawn),
                Segment("┄" * (size.width - AXIS - len(drawn)) if on_line else "", palette.warning),
            ]
        )
    marks = "".join(EVENTS.get(column.event, " ") for column in drawn)
    chart.append([Segment(" " * 6, palette.dim), Segment("└", palette.faint), Segment(marks, palette.warning)])
    return chart


def _cell(column: Column, row: int, scale: Scale, palette: Palette) -> Segment:
    filled = scale.eighths(column.used_tokens, row)
    is_over = 0 < scale.trigger_tokens <= column.used_tokens
    style = palette.warning if is_over else palette.text + Style(color=tints(palette)("system").fill)
    if row != scale.line or filled not in (0, 8):
        return Segment(_EIGHTHS[filled], style)
    if filled == 0:
        return Segment("┄", palette.warning)
    return Segment("┄", palette.text + Style(color=palette.text.bgcolor, bgcolor=style.color))


def _caption(points: Sequence[ChartPoint], scale: Scale, width: int, palette: Palette) -> list[Segment]:
    seen = {point.event for point in points}
    steps = sum(point.event == "step" for point in points)
    text = f"The gauge over {steps:,} {'step' if steps == 1 else 'steps'}"
    text += "".join(f"  {mark} {name}" for name, mark in EVENTS.items() if name in seen)
    if scale.trigger_tokens and scale.line is None:
        text += f"  (compaction begins at {short_tokens(scale.trigger_tokens)}, above the chart)"
    return [Segment(shorten(text, width), palette.dim)]


class GaugeChart(Widget):
    """As high as its parent makes it."""

    DEFAULT_CSS = "GaugeChart { width: 1fr; height: 8; }"
    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._points: Sequence[ChartPoint] = ()
        self._trigger_tokens = 0
        self._rows: list[Strip] = []
        self._rows_for: tuple[Size, Palette] | None = None

    def show(self, points: Sequence[ChartPoint], gauge: GaugeChanged) -> None:
        self._points, self._trigger_tokens = points, gauge.trigger_tokens
        self._rows_for = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        palette = palette_for(self.app.current_theme)
        if self._rows_for != (self.size, palette):
            self._rows_for = (self.size, palette)
            rows = chart_rows(self._points, self._trigger_tokens, self.size, palette)
            self._rows = [to_strip([*Segment.simplify(row)], self.size.width, palette.text) for row in rows]
        return self._rows[y] if y < len(self._rows) else Strip.blank(self.size.width, palette.text)

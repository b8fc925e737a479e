"""Draws the map of the window: the bar with its marks, and the legend. With colours a cell has two halves and names stand
on what is wide enough; without, each cell is the letter of its kind.
"""

from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from agent.context.pieces import Piece
from agent.events import GaugeChanged
from tui.themes import Palette, palette_for
from tui.widgets.kinds import FREE, RESERVE, kind_of, tints
from tui.widgets.lines import to_strip
from tui.widgets.status import short_tokens
from tui.widgets.window_shape import Band, Bar, WindowShape, legend, window_shape

_MIN_PART = 4
"""Units on average from which on the parts of a kind are told apart by shades."""
_EMPTY = WindowShape((), 1, None, ())


class _Cell(Struct, frozen=True):
    left: str
    right: str
    kind: str
    """The one that has its left half."""


class WindowMap(Widget):
    """Bar, marks and legend. The screen says how many rows each may have."""

    DEFAULT_CSS = "WindowMap { width: 1fr; height: auto; }"
    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._pieces: Sequence[Piece] = ()
        self._shape = _EMPTY
        self._selected: int | None = None
        self._allowed = (2, 1, 4)
        self._rows: list[Strip] = []
        self._rows_for: tuple[Size, Palette] | None = None
        """None where something changed since they were drawn."""

    def show(self, pieces: Sequence[Piece], gauge: GaugeChanged) -> None:
        self._pieces = pieces
        self._shape = window_shape(pieces, gauge)
        self._selected = None
        self._changed(layout=True)

    def select(self, place: int | None) -> None:
        """Mark where the piece at this place stands."""
        if place != self._selected:
            self._selected = place
            self._changed()

    def allow(self, bar: int, marks: int, legend: int) -> None:
        """At most so many rows of each."""
        if (bar, marks, legend) != self._allowed:
            self._allowed = (bar, marks, legend)
            self._changed(layout=True)

    def _changed(self, *, layout: bool = False) -> None:
        self._rows_for = None
        self.refresh(layout=layout)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        bar, marks, legend_rows = self._allowed
        return bar + marks + len(legend(self._shape, width, legend_rows))

    def render_line(self, y: int) -> Strip:
        palette = palette_for(self.app.current_theme)
        if self._rows_for != (self.size, palette):
            self._rows_for = (self.size, palette)
            width = self.size.width
            self._rows = [
                to_strip([*Segment.simplify(row)], width, palette.text) for row in self._drawn(width, palette)
            ]
        return self._rows[y] if y < len(self._rows) else Strip.blank(self.size.width, palette.text)

    def _drawn(self, width: int, palette: Palette) -> list[list[Segment]]:
        mono = self.app.no_color
        bar_rows, mark_rows, legend_rows = self._allowed
        bar = Bar.of(self._shape, width, 1 if mono else 2)
        rows = (
            letter_rows(self._shape, bar, bar_rows, palette)
            if mono
            else bar_rows_of(self._shape, bar, bar_rows, palette)
        )
        if mark_rows:
            marked = None if self._selected is None else bar.extent(self._shape, self._pieces, self._selected)
            rows.append(mark_row(self._shape, marked, width, palette))
        return rows + [_legend_row(row, palette, mono) for row in legend(self._shape, width, legend_rows)]


def trigger_cell(shape: WindowShape, width: int) -> int | None:
    if shape.trigger_tokens is None or width < 1:
        return None
    return min(width - 1, shape.trigger_tokens * width // shape.total_tokens)


def bar_rows_of(shape: WindowShape, bar: Bar, count: int, palette: Palette) -> list[list[Segment]]:
    """The bar in colours, `count` times, with the names on the middle one."""
    cells = _cells(shape, bar, palette)
    trigger = trigger_cell(shape, len(cells))
    names = _names(shape, bar, trigger)
    return [
        [
            _drawn_cell(cell, at, trigger, names.get(at, "") if row == (count - 1) // 2 else "", palette)
            for at, cell in enumerate(cells)
        ]
        for row in range(count)
    ]


def _cells(shape: WindowShape, bar: Bar, palette: Palette) -> list[_Cell]:
    tint = tints(palette)
    units: list[tuple[str, str]] = []
    for band, count in zip(shape.bands, bar.units, strict=True):
        colors = tint(band.kind)
        shaded = _shaded(shape, band, count)
        units += [(band.kind, colors.shade if odd else colors.fill) for odd in shaded]
    return [_Cell(units[at][1], units[at + 1][1], units[at][0]) for at in range(0, len(units) - 1, 2)]


def _shaded(shape: WindowShape, band: Band, units: int) -> list[bool]:
    """For each unit of a band whether it is in the shade: every other part, unless they are too small to be told apart."""
    if len(band.parts) * _MIN_PART > units:
        return [False] * units
    part = 0
    shaded = []
    for unit in range(units):
        middle = (2 * unit + 1) * band.tokens // (2 * units)
        while part + 1 < len(band.parts) and shape.before[band.parts[part + 1]] <= middle:
            part += 1
        shaded.append(part % 2 == 1)
    return shaded


def _names(shape: WindowShape, bar: Bar, trigger: int | None) -> dict[int, str]:
    """What is written on the bar, by cell: the names of the bands that are wide enough, with their tokens if that fits too."""
    written: dict[int, str] = {}
    for band, units, end in zip(shape.bands, bar.units, bar.ends, strict=True):
        first, last = -(-(end - units) // bar.per_cell), end // bar.per_cell
        if trigger is not None and first <= trigger < last:  # beside the mark, where there is more room
            first, last = (first, trigger) if trigger - first > last - trigger else (trigger + 1, last)
        name = kind_of(band.kind).label
        longer = f"{name} {short_tokens(band.tokens)}"
        text = longer if cell_len(longer) + 2 <= last - first else name
        if len(text) == cell_len(text) and len(text) + 2 <= last - first:
            written |= {first + 1 + at: character for at, character in enumerate(text)}
    return written


def _drawn_cell(cell: _Cell, at: int, trigger: int | None, character: str, palette: Palette) -> Segment:
    back = Style(bgcolor=cell.left)
    if at == trigger:
        return Segment("│", palette.warning + back)
    if character.strip():
        return Segment(character, tints(palette)(cell.kind).label + back)
    if cell.left != cell.right:
        if cell.left == "default":  # the terminal's own background cannot be drawn with
            return Segment("▐", Style(color=cell.right, bgcolor=cell.left))
        return Segment("▌", Style(color=cell.left, bgcolor=cell.right))
    if cell.kind == RESERVE:
        return Segment("╱", palette.faint)
    return Segment("·" if cell.left == "default" else " ", palette.faint + back)


def letter_rows(shape: WindowShape, bar: Bar, count: int, palette: Palette) -> list[list[Segment]]:
    """The bar without colours: each cell is its kind's letter."""
    letters = "".join(kind_of(band.kind).letter * units for band, units in zip(shape.bands, bar.units, strict=True))
    trigger = trigger_cell(shape, len(letters))
    if trigger is not None:
        letters = f"{letters[:trigger]}│{letters[trigger + 1 :]}"
    return [[Segment(letters, palette.text)] for _ in range(count)]


def mark_row(shape: WindowShape, marked: tuple[int, int] | None, width: int, palette: Palette) -> list[Segment]:
    """Under the bar: where the selected part stands, and where compaction begins."""
    row = [Segment(" ", palette.text)] * width
    trigger = trigger_cell(shape, width)
    if trigger is not None:
        for at, character in _beside(f"compaction at {short_tokens(shape.trigger_tokens or 0)}", trigger, width):
            row[at] = Segment(character, palette.dim)
        row[trigger] = Segment("▲", palette.warning)
    if marked is not None:
        for at in range(marked[0], min(marked[1], width)):
            row[at] = Segment("▔" if at != trigger else "▲", palette.strong)
    return row


def _beside(text: str, mark: int, width: int) -> Sequence[tuple[int, str]]:
    """The cells of a text on the right of a mark, on its left where the row ends; nothing where neither has room."""
    start = mark + 2
    if start + len(text) > width:
        start = mark - 1 - len(text)
    return [(start + at, character) for at, character in enumerate(text)] if start >= 0 else []


def _legend_row(row: Sequence[tuple[Band, str]], palette: Palette, mono: bool) -> list[Segment]:
    tint = tints(palette)
    segments: list[Segment] = []
    for band, text in row:
        if mono:
            segments.append(Segment(kind_of(band.kind).letter, palette.text))
        elif band.kind in (FREE, RESERVE):
            segments.append(Segment("·" if band.kind == FREE else "╱", palette.dim))
        else:
            segments.append(Segment("■", palette.text + Style(color=tint(band.kind).fill)))
        segments.append(Segment(" " + text, palette.dim if band.kind in (FREE, RESERVE) else palette.text))
    return segments

"""A Markdown table → lines: columns shrink, the widest first, until the table fits, and cells wrap."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment

from tui.themes import Palette
from tui.widgets.lines import Line, Span, cells, wrap

Row = list[list[Span]]

_MIN_COLUMN = 3


def table_lines(rows: Sequence[Row], right_aligned: Sequence[bool], width: int, palette: Palette) -> list[Line]:
    """The first row is the header. A table with too many columns for the width is cut by the caller."""
    count = len(right_aligned)
    if not count:
        return []
    full = [(row + [[] for _ in right_aligned])[:count] for row in rows]
    widths = _widths(full, count, width)
    lines: list[Line] = []
    for number, row in enumerate(full):
        lines += _row_lines(row, widths, right_aligned, palette)
        if number == 0:
            lines.append(Line([Segment("─┼─".join("─" * w for w in widths), palette.faint)]))
    return lines


def _widths(rows: Sequence[Row], count: int, width: int) -> list[int]:
    wanted = [max(1, *(_cell_width(row[k]) for row in rows)) for k in range(count)]
    room = max(count * _MIN_COLUMN, width - 3 * (count - 1))
    limit = max(wanted)
    while limit > _MIN_COLUMN and sum(min(w, limit) for w in wanted) > room:
        limit -= 1 + max(0, limit - room)
    return [min(w, max(limit, _MIN_COLUMN)) for w in wanted]


def _cell_width(spans: list[Span]) -> int:
    text = "".join(text for text, _ in spans)
    return max(map(cell_len, text.split("\n")))


def _row_lines(row: Row, widths: Sequence[int], right_aligned: Sequence[bool], palette: Palette) -> list[Line]:
    columns = [wrap(cell, width) for cell, width in zip(row, widths, strict=True)]
    lines = []
    for y in range(max(map(len, columns))):
        segments: list[Segment] = []
        for k, column in enumerate(columns):
            content = column[y].segments if y < len(column) else []
            gap = Segment(" " * max(0, widths[k] - cells(content)), palette.text)
            if k:
                segments.append(Segment(" │ ", palette.faint))
            segments += [gap, *content] if right_aligned[k] else [*content, gap]
        lines.append(Line(segments))
    return lines

"""A list of lines that can be ticked one by one, with a mark that is moved through them. It knows which are ticked; what a
tick means is its owner's business.
"""

from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from tui.sanitize import one_line, shorten
from tui.widgets.status import Piece

HEAD_CELLS = 8


class Tickable(Struct, frozen=True):
    """One line. All texts may be foreign."""

    head: str
    """One word, in a column of its own."""
    text: str
    tail: str = ""
    """Stands at the right."""


class Ticks(Widget):
    """Empty until `show`. Its parent moves the mark and sets ticks."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: tuple[Tickable, ...] = ()
        self._ticked: set[int] = set()
        self._marked = 0
        self._top = 0
        """Index of the line in the first row."""

    def show(self, lines: Sequence[Tickable], ticked: Sequence[int] = ()) -> None:
        self._lines = tuple(lines)
        self._ticked = set(ticked)
        self._marked = self._top = 0
        self.refresh(layout=True)

    @property
    def marked(self) -> int | None:
        """Index of the marked line; None where there is none."""
        return self._marked if self._lines else None

    @property
    def ticked(self) -> tuple[int, ...]:
        """Indexes of the ticked lines, in their order."""
        return tuple(sorted(self._ticked))

    def move(self, step: int) -> None:
        """Mark another line; it stops at the ends."""
        if self._lines:
            self._marked = min(max(self._marked + step, 0), len(self._lines) - 1)
            self.refresh()

    def tick(self) -> None:
        """Tick the marked line, or take its tick away."""
        if self._lines:
            self._ticked ^= {self._marked}
            self.refresh()

    def tick_all(self) -> None:
        """Tick all lines, or none where all are."""
        everything = set(range(len(self._lines)))
        self._ticked = set() if self._ticked == everything else everything
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines)

    def render(self) -> Content:
        width, height = self.size
        self._top = min(max(self._top, self._marked - height + 1), self._marked)
        shown = range(self._top, min(self._top + height, len(self._lines)))
        rows = [tick_row(self._lines[i], i in self._ticked, i == self._marked, width) for i in shown]
        return Content("\n").join(Content.assemble(*row) for row in rows)


def tick_row(line: Tickable, ticked: bool, marked: bool, width: int) -> list[Piece]:
    """One row of at most `width` cells."""
    tail = one_line(line.tail, 12) if width >= 40 else ""
    head = f"{one_line(line.head, HEAD_CELLS):<{HEAD_CELLS}} " if width >= 30 else ""
    mark = shorten(f"{'▸' if marked else ' '} [{'x' if ticked else ' '}] ", width)
    room = width - cell_len(mark) - cell_len(head) - (cell_len(tail) + 1 if tail else 0)
    text = one_line(line.text, room)
    gap = " " * (room - cell_len(text) + 1) if tail else ""
    style = "bold $primary" if marked else "$foreground"
    return [(mark, style), (head, "$claw-dim"), (text, style), (gap, ""), (tail, "$claw-dim")]

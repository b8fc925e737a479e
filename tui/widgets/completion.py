"""The list of completions above the composer. It is told what to show and says what is chosen; keys reach it through
the composer, which keeps the focus.
"""

from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from tui.sanitize import one_line, shorten
from tui.widgets.status import Piece

MAX_ROWS = 10
LABEL_CELLS = 28


class Choice(Struct, frozen=True):
    """One line of the list. Label and help may be foreign text."""

    insert: str
    """The whole text that the composer then holds; where there is a `span`, what stands in its place."""
    label: str
    help: str = ""
    sends: bool = False
    """Whether Enter sends it at once; Tab only ever inserts."""
    span: tuple[int, int] | None = None
    """Columns of the cursor's line that it replaces."""


class CompletionList(Widget):
    """Hidden while there is nothing to choose from."""

    class Clicked(Message):
        def __init__(self, choice: Choice) -> None:
            super().__init__()
            self.choice = choice

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._choices: tuple[Choice, ...] = ()
        self._index = 0
        self._top = 0
        """Index of the choice in the first row."""
        self._most_rows = MAX_ROWS

    @property
    def is_open(self) -> bool:
        return bool(self._choices)

    @property
    def chosen(self) -> Choice | None:
        return self._choices[self._index] if self._choices else None

    def show(self, choices: Sequence[Choice]) -> None:
        """Show these, the first one chosen; none hides the list."""
        fresh = tuple(choices)
        if fresh == self._choices:
            return
        self._choices = fresh
        self._index = self._top = 0
        self.set_class(bool(fresh), "-open")
        self.refresh(layout=True)

    def hide(self) -> None:
        self.show(())

    def move(self, step: int) -> None:
        """Choose the next (1) or previous (-1) line, round the ends."""
        if self._choices:
            self._index = (self._index + step) % len(self._choices)
            rows = max(1, self.size.height)
            self._top = min(max(self._top, self._index - rows + 1), self._index)
            self.refresh()

    def lift(self, rows: int, most_rows: int) -> None:
        """Stand this many rows above the lower edge of the screen, and be no higher than that."""
        side = self.styles.margin.left
        if self.styles.margin.bottom != rows:
            self.styles.margin = (0, side, rows, side)
        self._most_rows = max(1, most_rows)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return max((sum(cell_len(text) for text, _ in row) for row in self._rows(200)), default=0)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return min(len(self._choices), MAX_ROWS, self._most_rows)

    def render(self) -> Content:
        rows = self._rows(self.size.width)[self._top : self._top + self.size.height]
        return Content("\n").join(Content.assemble(*row) for row in rows)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if 0 <= self._top + event.y < len(self._choices):
            self.post_message(self.Clicked(self._choices[self._top + event.y]))

    def _rows(self, width: int) -> list[list[Piece]]:
        cells = max((cell_len(choice.label) for choice in self._choices), default=0)
        return [
            completion_row(choice, index == self._index, min(cells, LABEL_CELLS), width)
            for index, choice in enumerate(self._choices)
        ]


def completion_row(choice: Choice, chosen: bool, label_cells: int, width: int) -> list[Piece]:
    """One line, at most `width` cells: a mark, the label, and the help behind a column of `label_cells`."""
    label = one_line(choice.label, 60)
    label += " " * (label_cells - cell_len(label))
    head = shorten(f"▸ {label}" if chosen else f"  {label}", width)
    help_text = shorten(f"  {one_line(choice.help, 100)} ", width - cell_len(head))
    return [(head, "bold $primary" if chosen else "$foreground"), (help_text, "$claw-dim")]

"""The list of a window's parts, drawn a row at a time: ten thousand parts open as quickly as ten. It filters, sorts and
selects; what is done with a part is its screen's business.
"""

import time
from collections.abc import Sequence

from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from agent.context.pieces import Piece
from tui.themes import palette_for
from tui.widgets.kinds import kind_of
from tui.widgets.lines import to_strip
from tui.widgets.piece_row import Columns, Order, row_segments, state_text

_SEARCHED_CHARS = 500
"""Of a detail: more is not seen either."""


class PieceList(ScrollView, can_focus=False):
    """Its screen moves the cursor with keys; a click moves it too, and a click on the selected row opens it."""

    DEFAULT_CSS = """
    PieceList { width: 1fr; height: 1fr; min-height: 1; background: $background; scrollbar-size-vertical: 1;
        scrollbar-gutter: stable; overflow-x: hidden; }
    """
    ALLOW_SELECT = False

    class Selected(Message):
        """Another row, or none, is selected."""

    class Opened(Message):
        """The selected row was clicked."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._pieces: Sequence[Piece] = ()
        self._searched: list[str] = []
        self._total_tokens = 1
        self._now_ms = 0
        self._shown: list[int] = []
        """Places of the pieces, in the order of the rows."""
        self._words: list[str] = []
        self._cursor = 0
        self._marked: frozenset[int] = frozenset()
        self.order: Order = "position"

    # ------------------------------------------------------------------ content

    def show(self, pieces: Sequence[Piece], total_tokens: int, *, follow: bool = True) -> None:
        """Show these pieces; the selected one stays selected if it is still there and to be followed, else its row."""
        before = self.selected if follow else None
        self._pieces, self._total_tokens = pieces, total_tokens
        self._searched = []
        self._now_ms = int(time.time() * 1000)
        self._arrange(None if before is None else _identity(before))

    def filter(self, text: str) -> None:
        """Only pieces that hold all these words, in any case."""
        self._words = text.lower().split()
        self._arrange(self._selected_identity())

    def sort(self, order: Order) -> None:
        """By size the largest is selected; by position what was selected stays so."""
        self.order = order
        self._arrange(self._selected_identity())
        if order == "size":
            self.move_to(0)

    def mark(self, keys: Sequence[int]) -> None:
        """Point out the pieces of these entries."""
        self._marked = frozenset(keys)
        self.refresh()

    @property
    def selected(self) -> Piece | None:
        place = self.selected_place
        return None if place is None else self._pieces[place]

    @property
    def selected_place(self) -> int | None:
        """Among the pieces as they were given."""
        return self._shown[self._cursor] if self._cursor < len(self._shown) else None

    @property
    def count(self) -> tuple[int, int]:
        """Rows shown, and pieces there are."""
        return len(self._shown), len(self._pieces)

    def _selected_identity(self) -> object:
        return None if self.selected is None else _identity(self.selected)

    def _arrange(self, wanted: object) -> None:
        if self._words and not self._searched:
            self._searched = [_searched(piece) for piece in self._pieces]
        found = range(len(self._pieces))
        shown = [place for place in found if all(word in self._searched[place] for word in self._words)]
        if self.order == "size":
            shown.sort(key=lambda place: -self._pieces[place].tokens)
        self._shown = shown
        same = (row for row, place in enumerate(shown) if wanted == _identity(self._pieces[place]))
        self._cursor = max(0, min(next(same, self._cursor), len(shown) - 1))
        self.virtual_size = Size(self.scrollable_content_region.width, len(shown))
        self._moved()

    # ------------------------------------------------------------------ moving

    def move(self, rows: int) -> None:
        """The cursor, down if positive, as far as there are rows."""
        self.move_to(self._cursor + rows)

    def move_to(self, row: int) -> None:
        cursor = max(0, min(row, len(self._shown) - 1))
        if cursor != self._cursor:
            self._cursor = cursor
            self._moved()

    @property
    def page(self) -> int:
        return max(1, self.scrollable_content_region.height - 1)

    def _moved(self) -> None:
        self._keep_in_view()
        self.refresh()
        self.post_message(self.Selected())

    def _keep_in_view(self) -> None:
        height, top = self.scrollable_content_region.height, self.scroll_offset.y
        if height > 0 and not top <= self._cursor < top + height:
            above = self._cursor if self._cursor < top else self._cursor - height + 1
            self.scroll_to(y=above, animate=False, force=True)

    def on_resize(self, event: events.Resize) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._shown))
        self.call_after_refresh(self._keep_in_view)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.stop()
        row = event.y + self.scroll_offset.y
        if event.button != 1 or row >= len(self._shown) or event.x >= self.scrollable_content_region.width:
            return
        if row == self._cursor:
            self.post_message(self.Opened())
        else:
            self.move_to(row)

    # ------------------------------------------------------------------ drawing

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        palette = palette_for(self.app.current_theme)
        row = y + self.scroll_offset.y
        if row >= len(self._shown):
            said = "Nothing matches the filter." if self._words else "Nothing yet."
            text = f"  {said}" if row == 0 else ""
            return to_strip([Segment(text, palette.dim)], width, palette.text)
        piece = self._pieces[self._shown[row]]
        is_here = row == self._cursor
        mark = "▸ " if is_here else "• " if self._marked and not self._marked.isdisjoint(piece.keys) else "  "
        columns = Columns.at(width)
        segments = [
            Segment(mark, palette.strong),
            *row_segments(piece, columns, self._total_tokens, self._now_ms, palette),
        ]
        if is_here:  # in one colour, which can be read on that of a selection
            segments = [Segment("".join(segment.text for segment in segments), palette.text + palette.selection)]
        return to_strip(segments, width, palette.text + palette.selection if is_here else palette.text)


def _identity(piece: Piece) -> object:
    return piece.kind, piece.name, piece.keys


def _searched(piece: Piece) -> str:
    kind, state = kind_of(piece.kind).label, state_text(piece, 20)
    return f"{kind} {piece.name} {piece.detail[:_SEARCHED_CHARS]} {piece.origin} {state}".lower()

"""Rows of text of any length in a scrolled view: wrapped once a width, drawn a line at a time, no child widgets.

It remembers which rows have been on the screen, since a dialog must not take an answer to what nobody could see.
"""

from collections.abc import Sequence

from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.exact import Row, wrap_rows

_KINDS = ("title", "dim", "warning", "path", "command", "added", "removed", "hunk")


class Pager(ScrollView, can_focus=False):
    """Shows `rows`. Its parent scrolls it with keys; the wheel works by itself."""

    class Moved(Message):
        """Other rows are on the screen."""

    COMPONENT_CLASSES = {f"pager--{kind}" for kind in _KINDS}  # noqa: RUF012 - Textual declares it as a class variable

    def __init__(self, rows: Sequence[Row] = (), *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows = list(rows)
        self._wrapped: list[Row] = []
        self._wrapped_for = -1
        self._seen_rows = 0
        """Rows from the top on that were on the screen without a gap."""
        self.looked_at = False
        """Whether it has been on the screen at all."""
        self.end_seen = False
        self.all_seen = False

    def show(self, rows: Sequence[Row]) -> None:
        """Show other rows, from their beginning; none of them has been seen."""
        self._rows = list(rows)
        self._wrapped_for = -1
        self._seen_rows = 0
        self.end_seen = self.all_seen = False
        self.refresh(layout=True)
        self.call_after_refresh(self._note_seen)

    @property
    def rows_below(self) -> int:
        """How many rows are under the lower edge."""
        return max(0, len(self._wrapped) - self.scroll_offset.y - self.scrollable_content_region.height)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(wrap_rows(self._rows, max(1, width))) if width != self._wrapped_for else len(self._wrapped)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        self._wrap(width)
        place = y + self.scroll_offset.y
        base = self.rich_style
        if place >= len(self._wrapped):
            return Strip.blank(width, base)
        row = self._wrapped[place]
        style = self.get_component_rich_style(f"pager--{row.kind}") if row.kind in _KINDS else base
        return Strip([Segment(row.text, style)]).adjust_cell_length(width, style)

    def on_mount(self) -> None:
        self.call_after_refresh(self._note_seen)

    def on_resize(self, event: events.Resize) -> None:
        self._wrap(self.scrollable_content_region.width)
        self.call_after_refresh(self._note_seen)

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        if self.is_mounted:
            self._note_seen()

    def _wrap(self, width: int) -> None:
        if width == self._wrapped_for or width < 1:
            return
        self._wrapped_for = width
        self._wrapped = wrap_rows(self._rows, width)
        self._seen_rows = 0  # the rows are other ones now; what was seen to its end stays seen
        self.virtual_size = Size(width, len(self._wrapped))

    def _note_seen(self) -> None:
        height = self.scrollable_content_region.height
        if height < 1 or self._wrapped_for < 1:
            return
        self.looked_at = True
        top = self.scroll_offset.y
        if top <= self._seen_rows:
            self._seen_rows = max(self._seen_rows, top + height)
        self.end_seen = self.end_seen or top + height >= len(self._wrapped)
        self.all_seen = self.all_seen or self._seen_rows >= len(self._wrapped)
        self.post_message(self.Moved())

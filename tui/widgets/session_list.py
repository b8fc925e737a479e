"""The list of sessions, drawn a row at a time: two thousand open as quickly as ten. What is done with one is its screen's
business, and so is which of them are shown.
"""

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.bridge import SessionSummary
from tui.money import money
from tui.sanitize import one_line, shorten
from tui.themes import Palette, palette_for
from tui.widgets.lines import to_strip

_MARK_CELLS = 2
_GAP = "  "


class Columns(NamedTuple):
    """Widths in cells; 0: not shown."""

    title: int
    project: int
    when: int
    entries: int
    cost: int

    @classmethod
    def at(cls, width: int, *, with_project: bool) -> "Columns":
        when = 10 if width >= 36 else 0
        entries = 13 if width >= 96 else 8 if width >= 60 else 0
        cost = 8 if width >= 72 else 0
        project = max(12, width // 5) if with_project and width >= 60 else 0
        taken = sum(part + len(_GAP) for part in (project, when, entries, cost) if part)
        return cls(max(1, width - _MARK_CELLS - taken), project, when, entries, cost)


def row_segments(session: SessionSummary, columns: Columns, current: str, palette: Palette) -> list[Segment]:
    """One session as a row without its mark, as wide as its columns."""
    here = " · open here" if session.id == current else ""
    title = one_line(session.title, columns.title) or ("(no title)" if session.is_known else "…")
    title = shorten(title, max(1, columns.title - cell_len(here)))
    style = palette.text if session.title else palette.dim
    segments = [Segment(title, style), Segment(here, palette.dim)]
    segments.append(Segment(" " * max(0, columns.title - cell_len(title + here)), palette.text))
    if columns.project:
        name = session.project.rstrip("/").rpartition("/")[2] or session.project
        segments.append(Segment(_GAP + _left(one_line(name, columns.project), columns.project), palette.dim))
    word = "entries" if columns.entries > 10 else "ent."
    entries = f"{session.entries:,} {word}" if session.entries else ""
    cost = money(session.cost_usd) if session.cost_usd else ""
    for text, width in ((session.when, columns.when), (entries, columns.entries), (cost, columns.cost)):
        if width:
            segments.append(Segment(_GAP + one_line(text, width).rjust(width), palette.dim))
    return segments


def _left(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


class SessionList(ScrollView, can_focus=False):
    """Its screen moves the cursor with keys; a click moves it too, and a click on the selected row opens it."""

    DEFAULT_CSS = """
    SessionList { width: 1fr; height: 1fr; min-height: 1; background: $surface; scrollbar-size-vertical: 1;
        scrollbar-gutter: stable; overflow-x: hidden; }
    """
    ALLOW_SELECT = False

    class Selected(Message):
        """Another row, or none, is selected."""

    class Opened(Message):
        """The selected row was clicked."""

    def __init__(self, current: str, *, id: str | None = None) -> None:
        """`current` is the id of the session that is open here."""
        super().__init__(id=id)
        self._current = current
        self._sessions: Sequence[SessionSummary] = ()
        self._nothing = ""
        self._cursor = 0
        self._with_project = False
        self._surface: Style | None = None
        """What lies behind the rows; to ask for it anew for each of them would take longer than to draw them."""

    def show(
        self, sessions: Sequence[SessionSummary], nothing: str, *, with_project: bool, follow: bool = True
    ) -> None:
        """Show these; `nothing` is said where there are none. The selected session stays selected if it is still there
        and to be followed; otherwise the first is."""
        before = self.selected if follow else None
        self._sessions, self._nothing, self._with_project = sessions, nothing, with_project
        places = (place for place, session in enumerate(sessions) if before is not None and session.id == before.id)
        self._cursor = max(0, min(next(places, self._cursor if follow else 0), len(sessions) - 1))
        self.virtual_size = Size(self.scrollable_content_region.width, len(sessions))
        self._keep_in_view()
        self.refresh()
        if (self.selected and self.selected.id) != (before and before.id):
            self.post_message(self.Selected())

    @property
    def selected(self) -> SessionSummary | None:
        return self._sessions[self._cursor] if self._cursor < len(self._sessions) else None

    # ------------------------------------------------------------------ moving

    def move(self, rows: int) -> None:
        """The cursor, down if positive, as far as there are rows. Where none are shown yet it counts for those that come."""
        cursor = max(0, self._cursor + rows)
        if not self._sessions:
            self._cursor = cursor
            return
        cursor = min(cursor, len(self._sessions) - 1)
        if cursor != self._cursor:
            self._cursor = cursor
            self._keep_in_view()
            self.refresh()
            self.post_message(self.Selected())

    @property
    def page(self) -> int:
        return max(1, self.scrollable_content_region.height - 1)

    def _keep_in_view(self) -> None:
        height, top = self.scrollable_content_region.height, self.scroll_offset.y
        if height > 0 and not top <= self._cursor < top + height:
            above = self._cursor if self._cursor < top else self._cursor - height + 1
            self.scroll_to(y=above, animate=False, force=True)

    def on_resize(self, event: events.Resize) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._sessions))
        self.call_after_refresh(self._keep_in_view)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.stop()
        row = event.y + self.scroll_offset.y
        if event.button != 1 or row >= len(self._sessions) or event.x >= self.scrollable_content_region.width:
            return
        if row == self._cursor:
            self.post_message(self.Opened())
        else:
            self.move(row - self._cursor)

    # ------------------------------------------------------------------ drawing

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        palette = palette_for(self.app.current_theme)
        if self._surface is None:
            self._surface = Style(bgcolor=self.rich_style.bgcolor)
        surface = self._surface
        base = palette.text + surface
        row = y + self.scroll_offset.y
        if row >= len(self._sessions):
            text = f"  {self._nothing}" if row == 0 else ""
            return to_strip([Segment(shorten(text, width), palette.dim + surface)], width, base)
        columns = Columns.at(width, with_project=self._with_project)
        segments = row_segments(self._sessions[row], columns, self._current, palette)
        if row == self._cursor:  # in one colour, which can be read on that of a selection
            style = palette.text + palette.selection
            return to_strip([Segment("▸ " + "".join(s.text for s in segments), style)], width, style)
        segments = [Segment(s.text, (s.style or palette.text) + surface) for s in segments]
        return to_strip([Segment("  ", base), *segments], width, base)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._surface = None

"""The widget that shows a column of blocks: frames, the frame clock, the mouse. It knows nothing of what the blocks mean.

It is one widget without children and without Textual's scrolling: `render_lines` hands out the strips that are on screen.
A frame makes that list anew and refreshes the rows whose strip is another one; cached blocks give the same strips, so a
frame costs what is new. Dragging selects text, and releasing the button copies it: that is an explicit act of the user,
and the only way from here to the clipboard beside `copy_selection`.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby

from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from tui.themes import CLAW_DARK, palette_for
from tui.widgets.blocks import Foldable
from tui.widgets.column import Column
from tui.widgets.page import MIN_WIDTH, Page
from tui.widgets.selection import Point, Selection, highlighted, selected_text
from tui.widgets.viewport import Viewport

_FRAME_S = 1 / 16
"""Between two frames that new content causes."""
_SCROLL_FRAME_S = 1 / 60
_IDLE_FACTOR = 8
"""A frame waits this many times the cost of the one before: drawing takes an eighth of the time, however bad the content."""
_WHEEL_ROWS = 3


class BlockView(Widget):
    DEFAULT_CSS = "BlockView { width: 1fr; height: 1fr; background: $background; }"
    ALLOW_SELECT = False

    class Copied(Message):
        """Selected text was copied to the clipboard."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class FollowChanged(Message):
        """The view began or ceased to follow the end."""

        def __init__(self, following: bool) -> None:
            super().__init__()
            self.following = following

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.column = Column(Page(MIN_WIDTH, palette_for(CLAW_DARK)))
        self.viewport = Viewport(self.column)
        self.on_thumb: Callable[[tuple[int, int]], None] | None = None
        """Told after each frame where the scroll bar's thumb is."""
        self.on_frame: Callable[[], None] | None = None
        """Called with each frame that new content causes."""
        self._selection = Selection()
        self._rows: list[Strip] = []
        self._drawn_size = Size(0, 0)
        """What the rows were made for."""
        self._was_following = True
        self._wheel = 0
        self._pressed = False
        self._due: asyncio.TimerHandle | None = None
        self._due_pause_s = 0.0
        """What `_due` was scheduled with."""
        self._last_frame_s = 0.0
        self._frame_cost_s = 0.0

    # ---- what subclasses fill in
    def update_column(self) -> None:
        """Bring what has arrived into the column; called before each frame."""

    def toggle(self, block: Foldable) -> None:
        """Fold or unfold a block."""

    # ---- frames
    def content_changed(self) -> None:
        """Draw soon: at once if nothing was drawn lately."""
        self._schedule(max(_FRAME_S, _IDLE_FACTOR * self._frame_cost_s))

    def _schedule(self, pause_s: float) -> None:
        if self._due is not None and pause_s >= self._due_pause_s:
            return  # the usual case, for each piece that arrives between two frames
        if not self.is_attached or not self._drawn_size:
            return
        loop = asyncio.get_running_loop()
        at = max(loop.time(), self._last_frame_s + pause_s)
        if self._due is not None:
            if self._due.when() <= at:
                return
            self._due.cancel()
        self._due, self._due_pause_s = loop.call_at(at, self.frame), pause_s

    def frame(self) -> None:
        """Draw now what has changed."""
        loop = asyncio.get_running_loop()
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if not self.is_attached:
            return
        self._last_frame_s = loop.time()
        self._adapt()
        self.update_column()
        if self._wheel:
            self.viewport.scroll(self._wheel)
            self._wheel = 0
        self._show(self._made_rows())
        if self.on_frame is not None:
            self.on_frame()
        self._frame_cost_s = loop.time() - self._last_frame_s

    def _adapt(self) -> None:
        """Take over a new size or palette."""
        page = Page(max(MIN_WIDTH, self.size.width), palette_for(self.app.current_theme))
        self._drawn_size = self.size
        if page == self.column.page:
            return
        top = self.viewport.top.block
        pinned = not self.viewport.following and top < len(self.column)
        before = len(self.column.rows(top).strips) if pinned else 0
        self.column.set_page(page)
        if pinned:
            self.viewport.rescaled(before, len(self.column.rows(top).strips))
        self._rows = []

    def _made_rows(self) -> list[Strip]:
        width, height = self._drawn_size
        rows = self.viewport.window(height)
        if self._selection:
            rows = self._with_selection(rows)
        if width < MIN_WIDTH:
            rows = [row.crop(0, width) for row in rows]
        missing = height - len(rows)
        return [*rows, *([Strip.blank(width, self.column.page.palette.text)] * missing)]

    def _with_selection(self, rows: Sequence[Strip]) -> list[Strip]:
        style = self.column.page.palette.selection
        marked = []
        for place, row in zip(self.viewport.places(len(rows)), rows, strict=False):
            cells = self._selection.cells(place, row.cell_length)
            marked.append(highlighted(row, *cells, style) if cells else row)
        return marked

    def _show(self, rows: list[Strip]) -> None:
        old, self._rows = self._rows, rows
        if len(old) == len(rows):
            for y, row in enumerate(rows):
                if row is not old[y] and row == old[y]:
                    rows[y] = old[y]
            changed = [row is not old[y] for y, row in enumerate(rows)]
        else:
            changed = [True] * len(rows)
        if regions := _runs(changed, self._drawn_size.width):
            self.refresh(*regions)
        if self.on_thumb is not None:
            self.on_thumb(self.viewport.thumb(self._drawn_size.height))
        if self.viewport.following != self._was_following:
            self._was_following = self.viewport.following
            self.post_message(self.FollowChanged(self._was_following))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Called by the compositor. Strips are handed out as they are: they hold their escape codes in a cache."""
        if self._drawn_size != self.size or len(self._rows) != self.size.height:
            self.frame()
        rows = self._rows[crop.y : crop.bottom]
        if filters := self.get_line_filters():
            background = self.background_colors[1]
            for line_filter in filters:
                rows = [row.apply_filter(line_filter, background) for row in rows]
        return rows if crop.width == self.size.width else [row.crop(crop.x, crop.right) for row in rows]

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, self._restyle)

    def _restyle(self, _: Theme) -> None:
        self.frame()

    def on_resize(self) -> None:
        # Rows of the old width must never be handed out, so this does not wait for the clock.
        self.frame()

    # ---- moving
    @property
    def following(self) -> bool:
        """Whether the view stays at the end as the transcript grows."""
        return self.viewport.following

    def scroll_rows(self, rows: int) -> None:
        """Down by that many rows, up if negative."""
        self.update_column()
        self.viewport.scroll(rows)
        self.frame()

    def page_up(self) -> None:
        self.scroll_rows(-max(1, self.size.height - 2))

    def page_down(self) -> None:
        self.scroll_rows(max(1, self.size.height - 2))

    def home(self) -> None:
        self.jump(0)

    def end(self) -> None:
        self.jump(1)

    def jump(self, fraction: float) -> None:
        """To a share of the whole: 0 the beginning, 1 the end (and follow it)."""
        self.update_column()
        self.viewport.jump(fraction)
        self.frame()

    # ---- selection
    @property
    def selected_text(self) -> str:
        """What the mouse selected; empty if nothing is."""
        return selected_text(self._selection, self.column)

    def copy_selection(self) -> bool:
        """Copy the selection to the clipboard; False if nothing is selected."""
        text = self.selected_text
        if text:
            self.app.copy_to_clipboard(text)
            self.post_message(self.Copied(text))
        return bool(text)

    def clear_selection(self) -> bool:
        """True if there was one."""
        if not self._selection.clear():
            return False
        self._schedule(0)
        return True

    # ---- mouse
    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._turn_wheel(event, -_WHEEL_ROWS)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._turn_wheel(event, _WHEEL_ROWS)

    def _turn_wheel(self, event: events.MouseEvent, rows: int) -> None:
        event.stop()
        self._wheel += rows
        self._schedule(_SCROLL_FRAME_S)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button != 1:
            return
        self._pressed = True
        self.clear_selection()
        if point := self._point(event):
            self._selection.begin(point)
        self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if not self._pressed:
            return
        if not 0 <= event.y < self.size.height:
            self.scroll_rows(-1 if event.y < 0 else 1)
        if point := self._point(event):
            self._selection.extend(point)
            self._schedule(_SCROLL_FRAME_S)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if not self._pressed:
            return
        self._pressed = False
        self.release_mouse()
        if self._selection:
            self.copy_selection()
        elif (point := self._point(event)) and point.block < len(self.column.blocks):
            block = self.column.blocks[point.block]
            if isinstance(block, Foldable) and point.line >= block.above:
                self.toggle(block)

    def _point(self, event: events.MouseEvent) -> Point | None:
        """Where the mouse is; outside the view the nearest row. None while there is no row."""
        y = min(max(0, event.y), self.size.height - 1)
        places = list(self.viewport.places(self.size.height))
        if not places:
            return None
        place = places[min(y, len(places) - 1)]
        return Point(place.block, place.line, max(0, min(event.x, self.size.width - 1)))


def _runs(changed: Sequence[bool], width: int) -> list[Region]:
    """Regions of neighbouring rows that changed."""
    regions, y = [], 0
    for is_changed, group in groupby(changed):
        count = len(list(group))
        if is_changed:
            regions.append(Region(0, y, width, count))
        y += count
    return regions

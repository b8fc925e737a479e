"""The transcript's scroll bar, one column wide. A neighbour of the rows and no part of them, so that they stay cached."""

from collections.abc import Callable

from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tui.themes import palette_for


class ScrollBar(Widget):
    """Shows the part of the whole that is on screen; a press or drag jumps there."""

    DEFAULT_CSS = "ScrollBar { width: 1; height: 1fr; }"
    ALLOW_SELECT = False

    def __init__(self, jump: Callable[[float], None]) -> None:
        super().__init__()
        self._jump = jump
        self._thumb = (0, 0)
        self._dragging = False

    def show(self, thumb: tuple[int, int]) -> None:
        """Rows of the thumb, the end exclusive; equal for none."""
        if thumb != self._thumb:
            self._thumb = thumb
            self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        palette = palette_for(self.app.current_theme)
        on, off = Strip([Segment("┃", palette.thumb)], 1), Strip([Segment(" ", palette.track)], 1)
        start, end = self._thumb
        rows = [on if start <= y < end else off for y in crop.line_range]
        for line_filter in self.get_line_filters():
            background = self.background_colors[1]
            rows = [row.apply_filter(line_filter, background) for row in rows]
        return rows

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.stop()
        self._dragging = True
        self.capture_mouse()
        self._go(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragging:
            event.stop()
            self._go(event)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        event.stop()
        self._dragging = False
        self.release_mouse()

    def _go(self, event: events.MouseEvent) -> None:
        self._jump(min(1.0, max(0.0, event.y / max(1, self.size.height - 1))))

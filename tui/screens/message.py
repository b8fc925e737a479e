"""Text of any length to read: help, the parts of the window, a long message. Scrolls with keys and the wheel."""

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from tui.exact import Row
from tui.sanitize import clean, one_line
from tui.screens.dialog import Dialog
from tui.widgets.pager import Pager


class MessageScreen(Dialog[None]):
    """Closed by Esc, q or Enter. Rows are clean; `from_text` makes them of foreign text."""

    def __init__(self, title: str, rows: Sequence[Row]) -> None:
        super().__init__()
        self._title = title
        self._rows = rows

    @classmethod
    def from_text(cls, title: str, text: str) -> "MessageScreen":
        """A viewer of foreign text, line by line."""
        rows = [Row(line) for line in clean(text.expandtabs(4)).split("\n")]
        return cls(title, rows)

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Pager(self._rows, id="text")

    def on_mount(self) -> None:
        self.query_one("#box").border_title = Content(one_line(self._title, 60))

    def on_pager_moved(self) -> None:
        below = self.query_one(Pager).rows_below
        self.query_one("#box").border_subtitle = f"{below:,} more rows" if below else "Esc"

    def on_key(self, event: events.Key) -> None:
        pager = self.query_one(Pager)
        page = max(1, pager.scrollable_content_region.height - 1)
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -page, "pagedown": page, "space": page}
        if event.key in ("q", "enter", "f1"):
            self.finish(None)
        elif event.key in steps:
            pager.scroll_to(y=pager.scroll_offset.y + steps[event.key], animate=False)
        elif event.key in ("home", "ctrl+home", "g"):
            pager.scroll_home(animate=False, x_axis=False)
        elif event.key in ("end", "ctrl+end", "G"):
            pager.scroll_end(animate=False, x_axis=False)
        else:
            return
        event.stop()

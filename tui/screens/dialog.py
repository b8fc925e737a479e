"""What the dialogs have in common: they lie over the main screen, Esc closes them without a result, and where the
terminal is small they give up their frame.
"""

from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from tui.widgets.pager import Pager

Result = TypeVar("Result")

SMALL_ROWS = 12
SMALL_COLUMNS = 40


class Dialog(ModalScreen[Result], Generic[Result]):
    """Dismissed with None by Esc."""

    AUTO_FOCUS = ""
    _finished = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", show=False),
        # The base screen moves the focus with these; in a dialog that would only lose it.
        Binding("tab,shift+tab", "ignore", show=False),
    ]

    def finish(self, result: Result | None) -> None:
        """Close with a result, once: of two keys in a row the second finds the dialog closed already."""
        if not self._finished and self.is_active:
            self._finished = True
            self.dismiss(result)

    def action_close(self) -> None:
        self.finish(None)

    def action_ignore(self) -> None:
        return

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(self.is_small, "-small")
        frame_rows = 0 if self.is_small else 2
        for text in self.query(Pager):
            text.styles.max_height = max(1, self.app.size.height - frame_rows - self.rows_beside_text)

    @property
    def rows_beside_text(self) -> int:
        """Rows of the dialog that the scrolled text must leave free, its frame not counted."""
        return 0

    @property
    def is_small(self) -> bool:
        return self.app.size.height < SMALL_ROWS or self.app.size.width < SMALL_COLUMNS

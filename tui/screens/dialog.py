"""What the dialogs have in common: they lie over the main screen, Esc closes them without a result, where the terminal is
small they give up their frame, and they know which keys are too early to be meant for them.
"""

import time
from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from tui.widgets.pager import Pager

Result = TypeVar("Result")

SMALL_ROWS = 12
SMALL_COLUMNS = 40
GUARD_S = 0.3
"""How long a dialog must have been on the screen before a key chooses something that cannot be taken back."""


class Dialog(ModalScreen[Result], Generic[Result]):
    """Dismissed with None by Esc."""

    AUTO_FOCUS = ""
    _finished = False
    opens_at_s = float("inf")
    """The time (of events) from which on a key may choose; infinite until the dialog was drawn."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", show=False),
        # The base screen moves the focus with these; in a dialog that would only lose it.
        Binding("tab,shift+tab", "ignore", show=False),
    ]

    async def on_event(self, event: events.Event) -> None:
        """Keys that were typed behind the one that closed this dialog are meant for what lies under it."""
        if not self._finished:
            return await super().on_event(event)
        if isinstance(event, events.Key):
            # Made anew: the event itself counts as delivered already.
            again = events.Key(event.key, event.character)
            again.time = event.time
            self.app.post_message(again)
        elif isinstance(event, events.Paste):
            self.app.post_message(events.Paste(event.text))
        else:
            await super().on_event(event)
        return None

    @property
    def is_drawn(self) -> bool:
        return self.opens_at_s != float("inf")

    def on_screen_resume(self) -> None:
        self.opens_at_s = float("inf")
        self.call_after_refresh(self.guard)

    def guard(self) -> None:
        """From now on, and for a moment, no key chooses."""
        self.opens_at_s = time.monotonic() + GUARD_S

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

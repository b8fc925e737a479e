"""What the dialogs that decide something have in common: no answer is taken that could be a slip. Keys are ignored until
the dialog has been on the screen and quiet for a moment, clicks never answer, and letters that mean nothing here go to the
composer. What the answers are and what they do is the business of each dialog.
"""

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widget import Widget

from tui.bridge import StrayKeys
from tui.exact import Row
from tui.screens.dialog import GUARD_S, Dialog
from tui.widgets.choices import Answerable, Choices
from tui.widgets.pager import Pager

Result = TypeVar("Result")

FULL_ROWS = 16
"""From this height on each answer has a row of its own."""


class Question(Dialog[Result], Generic[Result]):
    """Rows to read and answers below them. Dismissed with a result, or with None when the question was taken back."""

    answer_rows = 2
    """How many answers there are."""
    near_answers = "y"
    """Keys of the answers that need only the end to be seen."""
    escape_answers = "n"
    """The answer that Esc gives; empty: it closes the dialog without a result."""

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__()
        self._rows = rows
        self._withdrawn = False

    def answers(self, near: str | None, far: str | None) -> Sequence[Answerable]:
        """What is offered now. `near` says why what needs the end of the text to be seen is withheld, `far` why what
        needs all of it; each is None once it is not."""
        raise NotImplementedError

    def give(self, answer: Answerable) -> None:
        """An answer that is not withheld was chosen."""
        raise NotImplementedError

    def extras(self) -> Iterable[Widget]:
        """Widgets below the answers."""
        return ()

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Pager(self._rows, id="exact")
            yield Choices(id="choices")
            yield from self.extras()

    def on_mount(self) -> None:
        self._refresh_answers()
        self.watch(self.app, "app_focus", self._focus_changed, init=False)

    def on_resize(self, event: events.Resize) -> None:
        self.query_one(Choices).single_row = self._single_row

    @property
    def _single_row(self) -> bool:
        return self.app.size.height < FULL_ROWS or self.is_small

    @property
    def rows_beside_text(self) -> int:
        return (1 if self._single_row else self.answer_rows) + (0 if self.is_small else 1)

    # ------------------------------------------------------------------ taking the question back

    def on_screen_resume(self) -> None:
        if self._withdrawn:
            self.finish(None)

    def withdraw(self) -> None:
        """The question is void: close as soon as the dialog is on top."""
        self._withdrawn = True
        self.finish(None)

    # ------------------------------------------------------------------ what is offered

    def on_pager_moved(self) -> None:
        self._refresh_answers()

    def _refresh_answers(self) -> None:
        pager = self.query_one(Pager)
        far = None if pager.all_seen else "PageDown first" if pager.looked_at else ""
        near = None if pager.end_seen else "End first" if pager.looked_at else ""
        self.query_one(Choices).answers = tuple(self.answers(near, far))
        below = pager.rows_below
        self.query_one("#box").border_subtitle = f"{below:,} more rows: PageDown, End" if below else ""

    # ------------------------------------------------------------------ keys

    def _focus_changed(self, focused: bool) -> None:
        if focused and self.is_drawn:
            self.guard()

    def on_key(self, event: events.Key) -> None:
        """Moving is free at once; everything that answers has to pass the guard."""
        if self.takes_key_elsewhere(event):
            return
        event.stop()
        event.prevent_default()
        too_early = event.time < self.opens_at_s
        if event.is_printable and event.character and (too_early or not self._means_something(event.key)):
            # Somebody is writing: it goes to the composer, and the rest of the word must not answer.
            self._wait_for_quiet(event.time)
            self.post_message(StrayKeys(event.character))
        elif not self.move(event.key):
            if too_early:
                self._wait_for_quiet(event.time)
            else:
                self._answer(event.key)

    def takes_key_elsewhere(self, event: events.Key) -> bool:
        """Whether a field of the dialog has the key."""
        return False

    def _means_something(self, key: str) -> bool:
        return key == "space" or any(answer.key == key.lower() for answer in self.query_one(Choices).answers)

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self.post_message(StrayKeys(event.text))

    def _wait_for_quiet(self, time_s: float) -> None:
        if self.is_drawn:
            self.opens_at_s = max(self.opens_at_s, time_s + GUARD_S)

    def move(self, key: str) -> bool:
        """Scroll the text or mark another answer; False if the key does neither."""
        pager, choices = self.query_one(Pager), self.query_one(Choices)
        page = max(1, pager.scrollable_content_region.height - 1)
        rows = {"pagedown": page, "space": page, "pageup": -page, "ctrl+down": 1, "ctrl+up": -1}
        if key in rows:
            pager.scroll_to(y=pager.scroll_offset.y + rows[key], animate=False)
        elif key == "end":
            pager.scroll_end(animate=False, x_axis=False)
        elif key == "home":
            pager.scroll_home(animate=False, x_axis=False)
        elif key in ("up", "left"):
            choices.move(-1)
        elif key in ("down", "right", "tab"):
            choices.move(1)
        else:
            return False
        return True

    def _answer(self, key: str) -> None:
        choices = self.query_one(Choices)
        if key == "escape":
            if not self.escape_answers:
                return self.finish(None)
            key = self.escape_answers
        index = choices.marked if key == "enter" else None
        for place, answer in enumerate(choices.answers):
            if place == index or (index is None and answer.key == key.lower()):
                return self._take(answer)
        return None

    def _take(self, answer: Answerable) -> None:
        if answer.withheld is None:
            return self.give(answer)
        # The first press shows what was not seen; the guard runs anew, so a double press is no answer.
        if answer.key in self.near_answers:
            self.query_one(Pager).scroll_end(animate=False, x_axis=False)
        else:
            self.move("pagedown")
        return self.guard()

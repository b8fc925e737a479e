"""Where the user writes: a text field that grows, sends with Enter, remembers what was sent, completes and swallows
pastes of any size. It knows neither sessions nor commands: it hands on what was sent and asks a function for completions.
"""

import unicodedata
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea

from tui.history import PromptHistory
from tui.sanitize import clean
from tui.widgets.completion import Choice, CompletionList

PASTE_CHARS = 4_000
"""A longer paste stands in the field as one token and is put in when the message is sent."""
PASTE_LINES = 40
_ANY_EMOJI = "👧"

Complete = Callable[[str], Sequence[Choice]]


class Composer(TextArea):
    """The field. Whatever is inserted is made visible first, so that what is seen is what is sent."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "escape", show=False),
        Binding("tab", "complete", show=False),
        Binding("ctrl+j,shift+enter", "newline", show=False),
        Binding("ctrl+underscore", "undo", show=False),
        # These belong to the application; a text field would take them.
        Binding("shift+tab", "app.cycle_mode", show=False),
        Binding("pageup", "app.scroll('up')", show=False),
        Binding("pagedown", "app.scroll('down')", show=False),
        Binding("ctrl+home", "app.scroll('home')", show=False),
        Binding("ctrl+end", "app.scroll('end')", show=False),
        Binding("ctrl+d", "end_or_delete", show=False),
        Binding("ctrl+z", "app.suspend_process", show=False),
    ]

    class EscapePressed(Message):
        """Escape, and there was no list to close."""

    class EndPressed(Message):
        """Ctrl+D on an empty field."""

    def __init__(
        self,
        complete: Complete,
        on_send: Callable[[str], None],
        popup: CompletionList,
        history: PromptHistory,
        *,
        id: str | None = None,
    ) -> None:
        """`on_send` gets each text that was sent. It is called at once and not by a message, so that the emptied field
        and what becomes of the text are painted together."""
        super().__init__(
            id=id,
            soft_wrap=True,
            tab_behavior="focus",
            highlight_cursor_line=False,
            placeholder=Content("Ask for something, or type / for commands"),
        )
        self.cursor_blink = False
        self.match_cursor_bracket = False
        self._complete = complete
        self._on_send = on_send
        self._popup = popup
        self._history = history
        self._pastes: dict[str, str] = {}
        self._paste_count = 0
        self._closed_for: str | None = None
        """The text for which the list was closed by hand or by moving through the history."""

    # ------------------------------------------------------------------ text

    @property
    def whole_text(self) -> str:
        """The text with the pastes in place of their tokens."""
        text = self.text
        for token, pasted in self._pastes.items():
            text = text.replace(token, pasted)
        return text

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()

    def put(self, text: str) -> None:
        """Replace the text; the cursor goes to its end. A long text stands as a token."""
        self._pastes.clear()
        self.load_text(self._fit(clean(text)))
        self.move_cursor(self.document.end)

    def insert_text(self, text: str) -> None:
        """Insert at the cursor what came from elsewhere (a paste, keys typed into a dialog)."""
        start, end = self.selection
        fitted = self._fit(clean(text.replace("\r\n", "\n").replace("\r", "\n")))
        if result := self._replace_via_keyboard(fitted, start, end):
            self.move_cursor(result.end_location)

    def discard(self) -> None:
        """Empty the field; Up brings the text back."""
        self._history.add(self.whole_text)
        self.put("")

    def _fit(self, text: str) -> str:
        lines = text.count("\n") + 1
        if len(text) <= PASTE_CHARS and lines <= PASTE_LINES:
            return text
        self._paste_count += 1
        token = f"[paste {self._paste_count}: {len(text):,} characters, {lines:,} lines]"
        self._pastes[token] = text
        return token

    def render_line(self, y: int) -> Strip:
        if self.content_size.width < 1:  # the placeholder cannot be wrapped to no width
            return Strip.blank(self.size.width, self.rich_style)
        return super().render_line(y)

    # ------------------------------------------------------------------ keys

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self._enter()
        elif (
            len(typed := event.character or "") == 1 and not event.is_printable and unicodedata.category(typed) != "Cc"
        ):
            # Wide and no-break spaces and joiners, which the text field takes for control characters.
            event.stop()
            event.prevent_default()
            self._insert_unprintable(typed)

    def _insert_unprintable(self, character: str) -> None:
        before = self._before_cursor()[-2:]
        # A joiner may stand between two characters that it joins; whether the next is one of them is not known yet.
        if any(character in clean(before + character + after) for after in (before[-1:], _ANY_EMOJI)):
            self._replace_via_keyboard(character, *self.selection)
        else:
            self.insert_text(character)

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.insert_text(event.text)

    def _enter(self) -> None:
        self._offer()
        choice = self._popup.chosen
        if choice is not None and (choice.insert != self.text or choice.sends):
            self.take(choice)
            if not choice.sends:
                return
        elif self._before_cursor().endswith("\\"):
            self.action_delete_left()
            self.action_newline()
            return
        self.send()

    def send(self) -> None:
        """Hand the text on and empty the field; a blank text does nothing."""
        text = self.whole_text
        if not text.strip():
            return
        self.put("")
        self._popup.hide()
        self._on_send(text)

    def action_newline(self) -> None:
        self._replace_via_keyboard("\n", *self.selection)

    def action_escape(self) -> None:
        self._offer()
        if self._popup.is_open:
            self._closed_for = self.text
            self._popup.hide()
        else:
            self.post_message(self.EscapePressed())

    def action_complete(self) -> None:
        self._offer()
        if choice := self._popup.chosen:
            self.take(choice)

    def action_end_or_delete(self) -> None:
        if self.text:
            self.action_delete_right()
        else:
            self.post_message(self.EndPressed())

    def action_cursor_up(self, select: bool = False) -> None:
        self._offer()
        if self._popup.is_open:
            self._popup.move(-1)
        elif not select and self._row() == 0 and (older := self._history.older(self.whole_text)) is not None:
            self._show_past(older)
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        self._offer()
        if self._popup.is_open:
            self._popup.move(1)
        elif (
            not select
            and self._row() >= self.wrapped_document.height - 1
            and ((newer := self._history.newer()) is not None)
        ):
            self._show_past(newer)
        else:
            super().action_cursor_down(select)

    def _show_past(self, text: str) -> None:
        self.put(text)
        self._closed_for = self.text

    def _row(self) -> int:
        return self.wrapped_document.location_to_offset(self.cursor_location).y

    def _before_cursor(self) -> str:
        row, column = self.cursor_location
        return self.document.get_line(row)[:column]

    # ------------------------------------------------------------------ completion

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._offer()

    def on_text_area_selection_changed(self, event: TextArea.SelectionChanged) -> None:
        event.stop()
        self._offer()

    def _offer(self) -> None:
        """Bring the list up to date. A key that uses it does so first: the message that the text changed may still wait
        behind it, and what the list offered for an earlier text must not be taken."""
        text = self.text
        if text != self._closed_for:
            self._closed_for = None
        at_end = self.cursor_location == self.document.end
        fits = text.startswith("/") and "\n" not in text and at_end and self._closed_for is None
        self._popup.show(self._complete(text) if fits else ())

    def take(self, choice: Choice) -> None:
        """Put a completion in place of the text."""
        self.load_text(choice.insert)
        self.move_cursor(self.document.end)

"""Where the user writes: a text field that grows, sends with Enter, remembers what was sent, completes and swallows
pastes of any size. It knows neither sessions nor commands: what it needs is asked of its surroundings.
"""

import unicodedata
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.document._document import Selection
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea

from agent.mentions import find_mentions, leaves_project, mention
from tui.composing.dropped import dropped_paths
from tui.composing.history import PromptHistory
from tui.sanitize import clean
from tui.widgets.completion import Choice, CompletionList
from tui.widgets.marked_area import MarkedArea
from tui.widgets.offers import Offers
from tui.widgets.pastes import PASTE_CHARS
from tui.widgets.surroundings import Surroundings

__all__ = ["INVITATION", "PASTE_CHARS", "Composer"]

INVITATION = "Ask for something, or type / for commands"
_ANY_EMOJI = "👧"


class Composer(MarkedArea):
    """The field. Whatever is inserted is made visible first, so that what is seen is what is sent."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "escape", show=False),
        Binding("tab", "complete", show=False),
        Binding("ctrl+j,shift+enter", "newline", show=False),
        Binding("alt+enter", "queue", show=False),
        Binding("ctrl+g", "edit_outside", show=False),
        Binding("ctrl+r", "search_history", show=False),
        Binding("ctrl+v", "paste_clipboard", show=False),
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
        self, around: Surroundings, popup: CompletionList, history: PromptHistory, *, id: str | None = None
    ) -> None:
        super().__init__(
            id=id,
            soft_wrap=True,
            tab_behavior="focus",
            highlight_cursor_line=False,
            placeholder=Content(INVITATION),
        )
        self.cursor_blink = False
        self.match_cursor_bracket = False
        self._around = around
        self._popup = popup
        self._offers = Offers(popup, around.complete, around.find_files)
        self._history = history
        self._not_typed: set[str] = set()
        """Mentions of files outside that came in with a paste: nobody asked for them."""

    # ------------------------------------------------------------------ text

    @property
    def whole_text(self) -> str:
        """The text with the pastes in place of their markers."""
        return self._pastes.expand(self.text)

    @property
    def mentions(self) -> tuple[str, ...]:
        """The files that the text names, as they are written; those in long pastes are not meant."""
        return tuple(path for path in find_mentions(self.text) if path not in self._not_typed)

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()

    def put(self, text: str) -> None:
        """Replace the text; the cursor goes to its end. A long text stands as a marker."""
        self._pastes.forget()
        self._not_typed.clear()
        self.load_text(self._pastes.fold(clean(text)))
        self.move_cursor(self.document.end)

    def insert_text(self, text: str) -> None:
        """Insert at the cursor what came from elsewhere (a paste, keys typed into a dialog)."""
        start, end = self.selection
        folded = self._pastes.fold(clean(text.replace("\r\n", "\n").replace("\r", "\n")))
        self._not_typed.update(path for path in find_mentions(folded) if leaves_project(path))
        if result := self._replace_via_keyboard(folded, start, end):
            self.move_cursor(result.end_location)

    def insert_mention(self, *paths: str) -> None:
        """Name files at the cursor, or in place of what is selected."""
        line, column = self.document.get_line(self.cursor_location[0]), min(self.selection)[1]
        before = "" if column == 0 or line[column - 1 : column].isspace() else " "
        self._not_typed.difference_update(paths)
        self._replace_via_keyboard(before + " ".join(map(mention, paths)) + " ", *self.selection)

    def discard(self) -> None:
        """Empty the field; Up brings the text back."""
        self._history.add(self.whole_text)
        self.put("")

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
        if not event.text:  # what a terminal makes of an image
            return self._around.paste_clipboard()
        is_command = self.text.startswith(("!", "/"))
        start = min(self.selection)
        self.insert_text(event.text)
        if not is_command and (paths := dropped_paths(event.text)):
            self.history.checkpoint()  # undo gives the path itself
            self.selection = Selection(start, self.cursor_location)
            self.insert_mention(*paths)
        return None

    def _enter(self) -> None:
        self._offer()
        choice = self._popup.chosen
        if choice is not None and not self._stands_already(choice):
            self.take(choice)
            if not choice.sends:
                return
        elif self._before_cursor().endswith("\\"):
            self.action_delete_left()
            self.action_newline()
            return
        self.send()

    def _stands_already(self, choice: Choice) -> bool:
        """Whether taking the choice would change nothing but white space, so that Enter is meant to send."""
        if choice.span is None:
            return choice.insert == self.text and not choice.sends
        start, end = choice.span
        return self.document.get_line(self.cursor_location[0])[start:end] == choice.insert.rstrip()

    def send(self, *, after_turn: bool = False) -> None:
        """Hand the text on and empty the field. A blank text sends what waits already, if anything does, unless it is
        to wait itself."""
        text, mentions = self.whole_text, self.mentions
        if not text.strip():
            return None if after_turn else self._around.send_waiting()
        self.put("")
        self._popup.hide()
        return self._around.send(text, mentions, after_turn=after_turn)

    def action_queue(self) -> None:
        self.send(after_turn=True)

    def action_edit_outside(self) -> None:
        self._around.edit_outside()

    def action_search_history(self) -> None:
        self._around.search_history()

    def action_paste_clipboard(self) -> None:
        self._around.paste_clipboard()

    def action_newline(self) -> None:
        self._replace_via_keyboard("\n", *self.selection)

    def action_escape(self) -> None:
        self._offer()
        if self._popup.is_open:
            self._offers.close(self.text)
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
        elif not self.text and (waiting := self._around.take_back()) is not None:
            self._show_past(waiting)
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
        self._offers.close(self.text)

    def _row(self) -> int:
        return self.wrapped_document.location_to_offset(self.cursor_location).y

    def _before_cursor(self) -> str:
        row, column = self.cursor_location
        return self.document.get_line(row)[:column]

    # ------------------------------------------------------------------ completion

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._offer()
        self._around.text_changed()

    def on_text_area_selection_changed(self, event: TextArea.SelectionChanged) -> None:
        event.stop()
        self._offer()

    def _offer(self) -> None:
        """Bring the list up to date. A key that uses it does so first: the message that the text changed may still wait
        behind it, and what the list offered for an earlier text must not be taken."""
        row, column = self.cursor_location
        at_end = (row, column) == self.document.end
        self._offers.update(self.text, self.document.get_line(row), column, at_end=at_end)
        self._lift_list()

    offer_again = _offer

    def on_resize(self) -> None:
        self._lift_list()

    def _lift_list(self) -> None:
        """Keep the list above the field, whose height follows the text."""
        if self._popup.is_open:
            below = self.outer_size.height + 1  # the status line
            self._popup.lift(below, self.screen.size.height - below)

    def take(self, choice: Choice) -> None:
        """Put a completion in place of the text, or of the part that it is for."""
        if choice.span is None:
            self.load_text(choice.insert)
            self.move_cursor(self.document.end)
            return
        row = self.cursor_location[0]
        start, end = choice.span
        result = self.replace(choice.insert, (row, start), (row, end), maintain_selection_offset=False)
        self.move_cursor(result.end_location)

"""A list to choose one line from, with a field above that filters it. Shared by the model and the session picker."""

from collections.abc import Callable, Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.sanitize import clean, one_line
from tui.screens.dialog import Dialog
from tui.widgets.text_field import TextField

Line = tuple[str, str, str]
"""Result, label, detail. Label and detail may be foreign text."""


class Picker(Dialog[str]):
    """Dismissed with the result of the chosen line; with the text of the field itself where nothing matches it and
    `free_text` is on; with None by Esc."""

    def __init__(self, title: str, placeholder: str, *, free_text: bool = False) -> None:
        super().__init__()
        self._title = title
        self._placeholder = placeholder
        self._free_text = free_text
        self._lines: Sequence[Line] = ()
        self._shown: list[Line] = []
        self._early: list[str] | None = []
        """Keys that moved the mark before there were lines; None once there are."""

    def compose(self) -> ComposeResult:
        with Vertical(id="box", classes="picker"):
            yield TextField(placeholder=self._placeholder, id="filter")
            yield OptionList(id="lines", markup=False, compact=True)
            yield Static("Looking…", id="note", markup=False)

    def on_mount(self) -> None:
        box = self.query_one("#box")
        box.border_title = Content(one_line(self._title, 60))
        lines = self.query_one("#lines", OptionList)
        lines.can_focus = False
        self.query_one("#filter", Input).focus()

    def fill(self, lines: Sequence[Line], nothing: str, marked: int = 0) -> None:
        """Show these lines; `nothing` is said where there are none. `marked` is the one to begin with where nothing is
        filtered; what was pressed while they were awaited moves the mark from there."""
        self._lines = lines
        self.query_one("#note", Static).update(Content("" if lines else clean(nothing)))
        self._filter(self.query_one("#filter", Input).value)
        if self._shown and not self.is_filtered:
            self.query_one("#lines", OptionList).highlighted = marked
        early, self._early = self._early or (), None
        for key in early:
            self._moves[key]()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._early is not None:
            self._early.clear()
        self._filter(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        options = self.query_one("#lines", OptionList)
        if options.highlighted is not None and options.highlighted < len(self._shown):
            self.finish(self._shown[options.highlighted][0])
        elif self._free_text and event.value.strip():
            self.finish(event.value.strip())

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.finish(self._shown[event.option_index][0])

    def on_key(self, event: events.Key) -> None:
        if (move := self._moves.get(event.key)) is None:
            return
        event.stop()
        if self._early is not None:
            self._early.append(event.key)
        else:
            move()

    @property
    def _moves(self) -> dict[str, Callable[[], None]]:
        options = self.query_one("#lines", OptionList)
        return {
            "up": options.action_cursor_up,
            "down": options.action_cursor_down,
            "pageup": options.action_page_up,
            "pagedown": options.action_page_down,
        }

    def _filter(self, wanted: str) -> None:
        words = wanted.lower().split()
        self._shown = [
            line for line in self._lines if all(w in f"{line[0]} {line[1]} {line[2]}".lower() for w in words)
        ]
        options = self.query_one("#lines", OptionList)
        options.set_options([Option(self.draw(line)) for line in self._shown])
        options.highlighted = 0 if self._shown else None

    def draw_again(self) -> None:
        """The lines at another width; the mark stays."""
        options = self.query_one("#lines", OptionList)
        marked = options.highlighted
        self._filter(self.query_one("#filter", Input).value)
        if marked is not None and marked < len(self._shown):
            options.highlighted = marked

    @property
    def is_filtered(self) -> bool:
        return bool(self.query_one("#filter", Input).value.strip())

    def draw(self, line: Line) -> Content:
        """A line as it is shown."""
        _, label, detail = line
        return Content.assemble(one_line(label, 70), ("  " + one_line(detail, 60) if detail else "", "$claw-dim"))

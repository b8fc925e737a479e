"""The list of completions above the composer. It is told what to show and says what is chosen; keys reach it through
the composer, which keeps the focus.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from tui.sanitize import one_line


@dataclass(frozen=True)
class Choice:
    """One line of the list. Label and help may be foreign text."""

    insert: str
    """The whole text that the composer then holds."""
    label: str
    help: str = ""
    sends: bool = False
    """Whether Enter sends it at once; Tab only ever inserts."""


class CompletionList(OptionList, can_focus=False):
    """Hidden while there is nothing to choose from."""

    class Clicked(Message):
        def __init__(self, choice: Choice) -> None:
            super().__init__()
            self.choice = choice

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False, compact=True)
        self._choices: tuple[Choice, ...] = ()

    @property
    def is_open(self) -> bool:
        return bool(self._choices)

    @property
    def chosen(self) -> Choice | None:
        index = self.highlighted
        return self._choices[index] if index is not None and index < len(self._choices) else None

    def show(self, choices: Sequence[Choice]) -> None:
        """Show these, the first one chosen; none hides the list."""
        fresh = tuple(choices)
        if fresh == self._choices:
            return
        self._choices = fresh
        self.set_class(bool(fresh), "-open")
        width = max((len(choice.label) for choice in fresh), default=0)
        self.set_options([Option(_line(choice, min(width, 28))) for choice in fresh])
        self.highlighted = 0 if fresh else None

    def hide(self) -> None:
        self.show(())

    def move(self, step: int) -> None:
        """Choose the next (1) or previous (-1) line, round the ends."""
        if self._choices and self.highlighted is not None:
            self.highlighted = (self.highlighted + step) % len(self._choices)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.post_message(self.Clicked(self._choices[event.option_index]))


def _line(choice: Choice, width: int) -> Content:
    label = one_line(choice.label, 60)
    return Content.assemble((label.ljust(width), "bold"), ("  " + one_line(choice.help, 100), "$claw-dim"))

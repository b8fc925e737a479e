"""A list of lines of which one is marked, for dialogs that hold the keys themselves. What a line means is theirs."""

from collections.abc import Sequence
from typing import Any

from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option


class ChoiceList(OptionList, can_focus=False):
    """Its parent moves the mark; a click chooses, as `OptionSelected` says."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False, compact=True)

    def show(self, lines: Sequence[Content], marked: int = 0) -> None:
        options: list[Any] = [Option(line) for line in lines]
        self.set_options(options)
        self.highlighted = min(marked, len(lines) - 1) if lines else None

    def move(self, key: str) -> bool:
        """Do what a key that moves means; False for any other."""
        match key:
            case "up" | "ctrl+p":
                self.action_cursor_up()
            case "down" | "ctrl+n":
                self.action_cursor_down()
            case "pageup":
                self.action_page_up()  # type: ignore[no-untyped-call] # Textual does not annotate it
            case "pagedown":
                self.action_page_down()  # type: ignore[no-untyped-call]
            case "home":
                self.action_first()
            case "end":
                self.action_last()
            case _:
                return False
        return True

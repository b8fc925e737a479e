"""Searching what was sent before: the newest first, narrowed down with every letter; Enter puts it into the composer."""

from collections.abc import Sequence

from textual.binding import Binding
from textual.content import Content
from textual.widgets import OptionList

from tui.sanitize import one_line, shorten
from tui.screens.picker import Line, Picker

_SEARCHED_CHARS = 2_000
"""Of each message; the whole of a long one would make every key slow."""
_SHOWN_CELLS = 90


class HistorySearch(Picker):
    """Dismissed with the index of the chosen text behind a NUL, which no search matches; with None by Esc."""

    BINDINGS = [Binding("ctrl+r", "older", show=False)]  # noqa: RUF012 - as Textual declares it

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__("Earlier messages", "Search")
        self._texts = texts

    def on_mount(self) -> None:
        self.query_one("#box").border_subtitle = Content("Enter takes it over · Ctrl+R the next older · Esc")
        lines: list[Line] = [(f"\0{index}", text[:_SEARCHED_CHARS], "") for index, text in enumerate(self._texts)]
        self.fill(lines, "Nothing was sent yet.")

    def action_older(self) -> None:
        self.query_one("#lines", OptionList).action_cursor_down()

    def draw(self, line: Line) -> Content:
        text = line[1]
        more = text.strip().count("\n")
        tail = f"  +{more} line{'s' * (more != 1)}" if more else ""
        return Content.assemble(shorten(one_line(text, _SHOWN_CELLS), _SHOWN_CELLS), (tail, "$claw-dim"))

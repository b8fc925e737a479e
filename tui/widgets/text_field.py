"""Fields whose text holds nothing that could drive a terminal, wherever it was typed, pasted or dropped from. Textual's own
draw what they are given.
"""

from textual.document._document import EditResult, Location
from textual.widgets import Input, TextArea

from tui.sanitize import clean

MOST_CHARS = 20_000
"""Of a field of one line; what is pasted beyond it is left out."""


class TextField(Input):
    """One line."""

    def replace(self, text: str, start: int, end: int) -> None:
        room = max(0, MOST_CHARS - len(self.value))
        super().replace(clean(text[:room]).replace("\n", " ").replace("\t", " "), start, end)


class TextBox(TextArea):
    """Several lines. What a program loads into it is clean already."""

    def _replace_via_keyboard(self, insert: str, start: Location, end: Location) -> EditResult | None:
        text = clean(insert.replace("\r\n", "\n").replace("\r", "\n"))
        return super()._replace_via_keyboard(text, start, end)

"""The answers of a dialog: one row each, or all in one row where there is little room. It holds which one is marked; the
dialog decides what a key means, so a click only ever marks.
"""

from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from tui.sanitize import shorten
from tui.widgets.status import Piece


class Answerable(Struct, frozen=True):
    """An answer that may be offered. Texts are clean already."""

    key: str
    label: str
    short: str
    """One word, for the single row."""
    withheld: str | None = None
    """Why it cannot be chosen now, empty where that goes without saying; None if it can."""


def choice_rows(answers: Sequence[Answerable], marked: int, width: int) -> list[list[Piece]]:
    """One row an answer."""
    rows: list[list[Piece]] = []
    for index, answer in enumerate(answers):
        here = index == marked
        style = "$claw-dim" if answer.withheld is not None else ("bold $primary" if here else "$foreground")
        label = f"{answer.label} ({answer.withheld})" if answer.withheld else answer.label
        head = f"{'▸' if here else ' '} {answer.key}  "
        rows.append([(shorten(head, width), style), (shorten(label, max(0, width - cell_len(head))), style)])
    return rows


def choice_row(answers: Sequence[Answerable], marked: int, width: int) -> list[Piece]:
    """All in one row: the keys, and the marked one with its word where that fits."""
    pieces: list[Piece] = []
    spare = width - 2 * len(answers)
    for index, answer in enumerate(answers):
        word = f" {answer.short}" if index == marked and cell_len(answer.short) + 1 <= spare else ""
        style = "$claw-dim" if answer.withheld is not None else ("reverse" if index == marked else "bold $primary")
        pieces += [(answer.key + word, style), (" ", "")]
    return pieces


class Choices(Widget):
    """Set `answers` and `single_row`; `marked` is the index of the marked one."""

    answers: reactive[tuple[Answerable, ...]] = reactive((), layout=True)
    marked: reactive[int] = reactive(0)
    single_row: reactive[bool] = reactive(False, layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return 1 if self.single_row else len(self.answers)

    def render(self) -> Content:
        width = self.size.width
        if self.single_row:
            return Content.assemble(*choice_row(self.answers, self.marked, width))
        rows = [Content.assemble(*row) for row in choice_rows(self.answers, self.marked, width)]
        return Content("\n").join(rows)

    def move(self, step: int) -> None:
        if self.answers:
            self.marked = (self.marked + step) % len(self.answers)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.stop()
        if not self.single_row and 0 <= event.y < len(self.answers):
            self.marked = event.y

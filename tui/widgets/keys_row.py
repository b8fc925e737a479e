"""The row at the foot of a dialog that names its keys, the most important first, as far as they fit."""

from collections.abc import Sequence

from rich.cells import cell_len
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from tui.sanitize import shorten

Keys = Sequence[tuple[str, str]]
"""Key and what it does, the most important first."""


def keys_row(keys: Keys, width: int) -> list[tuple[str, str]]:
    """The row as (text, style). What does not fit is left out; the first is cut at worst."""
    pieces: list[tuple[str, str]] = []
    room = width
    for key, meaning in keys:
        separator = " · " if pieces else ""
        cells = cell_len(f"{separator}{key} {meaning}")
        if cells > room:
            return pieces or [(shorten(f"{key} {meaning}", width), "bold")]
        pieces += [(separator, "$claw-dim"), (key, "bold $primary"), (f" {meaning}", "$claw-dim")]
        room -= cells
    return pieces


class KeysRow(Widget):
    """Set `keys`."""

    keys: reactive[Keys] = reactive((), layout=False)

    def render(self) -> Content:
        return Content.assemble(*keys_row(self.keys, self.size.width))

"""How models stand in a list: name, window, price and abilities in columns, and which of them words are meant for."""

from collections.abc import Sequence

from rich.cells import cell_len
from textual.content import Content

from tui.listed_models import ModelChoice, SilentProvider, abilities_text, price_text, window_text
from tui.sanitize import one_line

_WINDOW, _PRICE, _ABILITIES = 6, 20, 13
_LEAST_NAME = 28
"""Below this the columns give way, the last one first."""


def filtered(models: Sequence[ModelChoice], wanted: str) -> list[ModelChoice]:
    """Those that every word is a part of, in their order; abilities count too."""
    words = wanted.lower().split()
    return [model for model in models if all(word in _searched(model) for word in words)]


def _searched(model: ModelChoice) -> str:
    return f"{model.name} {model.detail} {abilities_text(model)}".lower()


def model_line(model: ModelChoice, width: int, *, is_current: bool = False, in_provider: bool = False) -> Content:
    """One line of at most `width` cells. `in_provider`: the provider goes without saying."""
    columns = [
        (window_text(model.window_tokens), _WINDOW),
        (price_text(model.price), _PRICE),
        (abilities_text(model), _ABILITIES),
    ]
    if model.detail:
        columns.append((one_line(model.detail, 60), 60))
    mark = "▸ " if is_current else "  "
    room = width - len(mark) - (4 if is_current else 0)
    while columns and room - sum(cells + 1 for _, cells in columns) < _LEAST_NAME:
        columns.pop()
    name_cells = max(1, room - sum(cells + 1 for _, cells in columns))
    name = one_line(model.name.partition("/")[2] if in_provider else model.name, name_cells)
    tail = "".join(f" {text:<{cells}}" for text, cells in columns).rstrip()
    gap = " " * (name_cells - cell_len(name)) if tail else ""
    style = "bold" if is_current else ""
    return Content.assemble((mark + name, style), gap, (tail, "$claw-dim"), (" now" if is_current else "", "$success"))


def silent_text(provider: SilentProvider) -> str:
    return f"{one_line(provider.name, 40)}: {one_line(provider.why, 110)}"

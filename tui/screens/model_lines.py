"""How models stand in a list: name, window, price and abilities in columns, and which of them words are meant for."""

from collections.abc import Sequence

from rich.cells import cell_len
from textual.content import Content

from tui.launch.listed_models import ModelChoice, SilentProvider, abilities_text, price_text, short_name, window_text
from tui.sanitize import one_line

_LEAST_NAME = 28
"""Before names get less than this, the columns give way, the last one first."""
_NOW = " · now"


def filtered(models: Sequence[ModelChoice], wanted: str) -> list[ModelChoice]:
    """Those that every word is a part of, in their order; abilities count too."""
    words = wanted.lower().split()
    return [model for model in models if all(word in _searched(model) for word in words)]


def _searched(model: ModelChoice) -> str:
    return f"{model.name} {model.detail} {abilities_text(model)}".lower()


def columns(model: ModelChoice) -> tuple[tuple[str, int], ...]:
    """The facts as (text, cells)."""
    return (
        (window_text(model.window_tokens), 5),
        (price_text(model.price), 12),
        (abilities_text(model), 13),
    )


def name_cells(models: Sequence[ModelChoice], width: int, *, in_provider: bool = False) -> int:
    """How many cells the names get in lines of `width` cells: what the longest needs, if the facts leave that much."""
    longest = max((cell_len(_name(model, width, in_provider)) for model in models), default=0)
    used = [any(text for text, _ in column) for column in zip(*map(columns, models), strict=True)]
    facts = sum(cells + 1 for (_, cells), has in zip(columns(ModelChoice("")), used, strict=False) if has)
    return max(1, min(longest, max(_LEAST_NAME, width - 2 - facts), width - 2))


def model_line(
    model: ModelChoice, width: int, cells: int, *, is_current: bool = False, in_provider: bool = False
) -> Content:
    """One line of at most `width` cells, the name in `cells` of them; facts that find no room are left out.

    `in_provider`: the provider goes without saying.
    """
    mark, style = ("▸ ", "bold") if is_current else ("  ", "")
    room = width - len(mark) - cells
    tail = ""
    for text, column in columns(model):
        if column + 1 > room:
            break
        tail += f" {one_line(text, column):<{column}}"
        room -= column + 1
    tail = tail.rstrip()
    room = width - len(mark) - cells - cell_len(tail) - (len(_NOW) if is_current else 0)
    if model.detail and room > 2:
        tail += f" {one_line(model.detail, room - 1)}"
    if is_current and room >= 0:
        tail += _NOW
    name = _name(model, cells, in_provider)
    return Content.assemble((mark + name, style), " " * (cells - cell_len(name)) if tail else "", (tail, "$claw-dim"))


def _name(model: ModelChoice, cells: int, in_provider: bool) -> str:
    name = model.name.partition("/")[2] if in_provider else model.name
    return one_line(name if cell_len(name) <= cells else short_name(name), cells)


def silent_text(provider: SilentProvider) -> str:
    return f"{one_line(provider.name, 40)}: {one_line(provider.why, 110)}"

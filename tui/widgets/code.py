"""Source code → coloured lines on the palette's panel. Lexers are imported when the first code block is drawn."""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.style import Style

from tui.themes import Palette
from tui.widgets.lines import Line, Span, fold

if TYPE_CHECKING:
    from pygments.lexer import Lexer
    from pygments.token import _TokenType

_MAX_LEXED_CHARS = 20_000
"""Longer single blocks (one endless line) are drawn plain: some lexers take quadratic time."""


def code_lines(language: str, text: str, width: int, palette: Palette, streaming: bool = False) -> list[Line]:
    """Folded at `width`, not padded. While it streams, line by line (each lexed once), the unfinished last one plain."""
    return fold(_streaming_spans(language, text, palette) if streaming else _lexed(language, text, palette), width)


def warm_up() -> None:
    """Import what the first code block needs; call it in a thread."""
    _lexer("python")


def _streaming_spans(language: str, text: str, palette: Palette) -> Iterator[Span]:
    *finished, last = text.split("\n")
    for line in finished:
        yield from _lexed_line(language, line, palette)
        yield "\n", palette.panel
    yield last, palette.panel


@lru_cache(512)
def _lexed_line(language: str, line: str, palette: Palette) -> tuple[Span, ...]:
    return tuple(_lexed(language, line, palette))


def _lexed(language: str, text: str, palette: Palette) -> list[Span]:
    lexer = _lexer(language.lower()) if language and len(text) <= _MAX_LEXED_CHARS else None
    if lexer is None:
        return [(text, palette.panel)]
    return [(value, _style(palette, kind)) for kind, value in lexer.get_tokens(text)]


@lru_cache(64)
def _lexer(language: str) -> "Lexer | None":
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@lru_cache(1024)
def _style(palette: Palette, kind: "_TokenType") -> Style:
    name = str(kind).removeprefix("Token").removeprefix(".")
    while name and name not in palette.syntax:
        name = name.rpartition(".")[0]
    return palette.syntax.get(name, palette.panel)

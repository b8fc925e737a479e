"""One piece of Markdown → lines. Pure. The parser is imported when the first piece is drawn."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from tui.sanitize import clean
from tui.themes import Palette
from tui.widgets.code import code_lines
from tui.widgets.inline import inline_spans
from tui.widgets.lines import Line, pad, wrap
from tui.widgets.tables import Row, table_lines

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_MIN_ROOM = 8


def markdown_lines(text: str, width: int, palette: Palette, references: Mapping[str, str] | None = None) -> list[Line]:
    """Lines of at most `width` cells, save for what cannot be made narrower. `references`: link label → address."""
    return _Renderer(width, palette).run(_parser().parse(text, _environment(references or {})))


def warm_up() -> None:
    """Import what the first piece needs; call it in a thread."""
    _parser()


@lru_cache(1)
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


def _environment(references: Mapping[str, str]) -> dict[str, Any]:
    if not references:
        return {}
    from markdown_it.common.utils import normalizeReference

    parser = _parser()
    known = {normalizeReference(label): parser.normalizeLink(url) for label, url in references.items()}
    return {
        "references": {
            label: {"title": "", "href": url, "map": [0, 0]} for label, url in known.items() if parser.validateLink(url)
        }
    }


class _Renderer:
    def __init__(self, width: int, palette: Palette) -> None:
        self._width = width
        self._palette = palette
        self._lines: list[Line] = []
        self._indent: list[Segment] = []
        """What stands before each line of the open lists and quotes."""
        self._bullet: Segment | None = None
        """Stands once in place of the last indent."""
        self._counters: list[int | None] = []
        self._base = [palette.text]
        self._rows: list[Row] = []
        self._aligned: list[bool] | None = None
        """Columns that are set to the right, while a table is open."""
        self._on: dict[str, Callable[[Token], None]] = {
            "inline": self._inline,
            "heading_open": self._open_heading,
            "heading_close": self._close_base,
            "bullet_list_open": lambda _: self._counters.append(None),
            "ordered_list_open": lambda token: self._counters.append(_start(token)),
            "bullet_list_close": self._close_list,
            "ordered_list_close": self._close_list,
            "list_item_open": self._open_item,
            "list_item_close": self._close_item,
            "blockquote_open": self._open_quote,
            "blockquote_close": self._close_quote,
            "fence": self._code,
            "code_block": self._code,
            "hr": lambda _: self._emit([Line([Segment("─" * self._room, palette.faint)])]),
            "table_open": self._open_table,
            "tr_open": lambda _: self._rows.append([]),
            "th_open": self._open_column,
            "table_close": self._close_table,
            "html_block": self._html,
        }

    def run(self, tokens: "list[Token]") -> list[Line]:
        for token in tokens:
            if token.type in _STANDS_APART and self._lines and not self._bullet and not token.hidden:
                self._lines.append(Line([*self._indent]))
            if handle := self._on.get(token.type):
                handle(token)
        return self._lines

    @property
    def _room(self) -> int:
        return max(_MIN_ROOM, self._width - sum(cell_len(s.text) for s in self._indent))

    def _emit(self, lines: list[Line]) -> None:
        for line in lines:
            before = [*self._indent[:-1], self._bullet] if self._bullet else self._indent
            self._bullet = None
            self._lines.append(Line([*before, *line.segments], line.joint))

    def _inline(self, token: "Token") -> None:
        children = token.children or []
        if self._aligned is None:
            self._emit(wrap(inline_spans(children, self._palette, self._base[-1]), self._room))
        else:
            style = self._palette.text if self._rows[1:] else self._palette.strong
            self._rows[-1].append(inline_spans(children, self._palette, style))

    def _open_heading(self, token: "Token") -> None:
        self._base.append(self._palette.heading if token.tag in ("h1", "h2") else self._palette.strong)

    def _close_base(self, _: "Token") -> None:
        self._base.pop()

    def _close_list(self, _: "Token") -> None:
        self._counters.pop()

    def _open_item(self, _: "Token") -> None:
        number = self._counters[-1]
        mark = "• " if number is None else f"{number}. "
        if number is not None:
            self._counters[-1] = number + 1
        self._bullet = Segment(mark, self._palette.dim)
        self._indent.append(Segment(" " * cell_len(mark), self._palette.text))

    def _close_item(self, _: "Token") -> None:
        if self._bullet:
            self._emit([Line([])])
        self._indent.pop()

    def _open_quote(self, _: "Token") -> None:
        if self._bullet:
            self._emit([Line([])])
        self._indent.append(Segment("│ ", self._palette.faint))
        self._base.append(self._palette.quote)

    def _close_quote(self, _: "Token") -> None:
        self._indent.pop()
        self._base.pop()

    def _code(self, token: "Token") -> None:
        language = token.info.split()[0] if token.info.split() else ""
        self._emit(panel_lines(language, clean(token.content.rstrip("\n")), self._room, self._palette))

    def _html(self, token: "Token") -> None:
        self._emit(wrap([(clean(token.content.rstrip("\n")), self._palette.dim)], self._room))

    def _open_table(self, _: "Token") -> None:
        self._rows, self._aligned = [], []

    def _open_column(self, token: "Token") -> None:
        if self._aligned is not None:
            self._aligned.append("right" in str(token.attrGet("style") or ""))

    def _close_table(self, _: "Token") -> None:
        self._emit(table_lines(self._rows, self._aligned or [], self._room, self._palette))
        self._aligned = None


_STANDS_APART = frozenset(
    ("paragraph_open", "heading_open", "fence", "code_block", "table_open", "blockquote_open", "hr", "html_block")
)


def _start(token: "Token") -> int:
    return int(token.attrGet("start") or 1)


def panel_lines(language: str, text: str, width: int, palette: Palette, streaming: bool = False) -> list[Line]:
    """Code on its panel: `width` cells wide, one cell of room on either side."""
    edge: Segment = Segment(" ", palette.panel)
    back: Style = palette.panel
    lines = code_lines(language, text, max(2, width - 2), palette, streaming)
    return [Line(pad([edge, *line.segments], width, back), line.joint, 1) for line in lines]

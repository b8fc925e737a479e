"""How a part of a window becomes one row of a list, and what stands above the rows. Pure but for the widget of the head."""

from typing import Literal

from msgspec import Struct
from rich.segment import Segment
from textual.content import Content
from textual.widget import Widget

from agent.context.pieces import Piece
from tui.sanitize import one_line, shorten
from tui.themes import Palette
from tui.widgets.kinds import kind_of, tints
from tui.widgets.lines import pad
from tui.widgets.status import short_tokens
from tui.widgets.window_shape import share_text

Order = Literal["position", "size"]

MARKS = {"shortened": "▾", "dropped": "×"}
PIN_MARK = "◆"


class Columns(Struct, frozen=True):
    """Widths in cells; 0 for what is left out. Between two columns is one blank."""

    tokens: int
    share: int
    age: int
    kind: int
    state: int
    """2 for marks, more for words."""
    detail: int
    origin: int

    @classmethod
    def at(cls, width: int) -> "Columns":
        """What a row of this width has room for; two cells in front are kept for the cursor."""
        tokens, share, age, kind, state, origin = 9, 5, 4, 12, 2, 0
        if width >= 110:
            state, origin = 17, max(12, width // 6)
        elif width < 60:
            share = 0
        if width < 44:
            tokens, age, kind = 5, 0, 0
        taken = 2 + sum(w + 1 for w in (tokens, share, age, kind, state, origin) if w)
        return cls(tokens, share, age, kind, state, max(1, width - taken), origin)


def short_age(time_ms: int | None, now_ms: int) -> str:
    """At most four characters: "now", "5m", "3h", "12d", "40w"; empty for what has no age."""
    if time_ms is None:
        return ""
    seconds = max(0, (now_ms - time_ms) // 1000)
    if seconds < 60:
        return "now"
    for unit, size, end in (("m", 60, 3_600), ("h", 3_600, 86_400), ("d", 86_400, 8_640_000)):
        if seconds < end:
            return f"{seconds // size}{unit}"
    return f"{min(999, seconds // 604_800)}w"


def state_text(piece: Piece, width: int) -> str:
    """In words, or as two marks where there is no room for words."""
    if width <= 2:
        return (PIN_MARK if piece.is_pinned else " ") + MARKS.get(piece.state, "")
    words = ["pinned"] if piece.is_pinned else []
    return ", ".join(words + ([piece.state] if piece.state != "whole" else []))


def what_text(piece: Piece, width: int) -> str:
    """Name and detail, clean and on one line."""
    name, detail = piece.name.strip(), piece.detail[: 8 * width + 64].strip()
    if detail in name or detail.startswith(name):
        return one_line(max(name, detail, key=len), width)
    return one_line(f"{name} · {detail}", width)


def row_segments(piece: Piece, columns: Columns, total_tokens: int, now_ms: int, palette: Palette) -> list[Segment]:
    """One row without its cursor."""
    is_gone = piece.state == "dropped"
    plain = palette.dim if is_gone else palette.text
    tokens = short_tokens(piece.tokens) if columns.tokens < 6 else f"{piece.tokens:,}"
    share = share_text(piece.tokens, total_tokens)
    tint = palette.dim if is_gone else tints(palette)(piece.kind).text
    segments: list[Segment] = []
    for text, width, style, right in (
        ("–" if is_gone else tokens, columns.tokens, plain, True),
        ("" if is_gone else share, columns.share, palette.dim, True),
        (short_age(piece.time_ms, now_ms), columns.age, palette.dim, True),
        (kind_of(piece.kind).label, columns.kind, tint, False),
        (state_text(piece, columns.state), columns.state, palette.warning, False),
        (what_text(piece, columns.detail), columns.detail, plain, False),
        (one_line(piece.origin, columns.origin), columns.origin, palette.dim, False),
    ):
        if not width:
            continue
        text = shorten(text, width)
        cell = [Segment(text.rjust(width), style)] if right else pad([Segment(text, style)], width, palette.text)
        segments += [*cell, Segment(" ", palette.text)]
    return segments


def head_text(width: int, order: Order) -> str:
    """The names of the columns; the one that orders the rows has an arrow."""
    columns = Columns.at(width)
    arrow = "▾" if order == "size" else ""
    named = (
        ("tokens" + arrow if columns.tokens > 5 else "tok" + arrow, columns.tokens, True),
        ("share", columns.share, True),
        ("age", columns.age, True),
        ("kind", columns.kind, False),
        ("state" if columns.state > 2 else "", columns.state, False),
        ("part" if arrow else "part, in the order of the request", columns.detail, False),
        ("from", columns.origin, False),
    )
    cells = [shorten(text, width) for text, width, _ in named]
    return "  " + " ".join(
        text.rjust(width) if right else text.ljust(width)
        for text, (_, width, right) in zip(cells, named, strict=True)
        if width
    )


class ListHead(Widget):
    """The names of the columns, as wide as the list below it without its scroll bar."""

    DEFAULT_CSS = "ListHead { height: 1; width: 1fr; color: $claw-dim; text-style: underline; }"
    ALLOW_SELECT = False
    order: Order = "position"

    def render(self) -> Content:
        return Content(shorten(head_text(max(1, self.size.width - 1), self.order), self.size.width))

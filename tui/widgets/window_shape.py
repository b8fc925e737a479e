"""What a map of the window shows: one bar as long as the model's context window, each kind of part as wide as its share, and
a legend with tokens and shares. Pure; the widget draws it.

Kinds stand together and in the order of a request, so the end of the bar is what is used and can be compared with the
mark where compaction begins. A part is never too small to be seen: what that takes is taken from the largest. All shares
are of the model's whole context window; where that is unknown, of what is used.
"""

from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len

from agent.context.pieces import Piece
from agent.events import GaugeChanged
from tui.widgets.kinds import FREE, RESERVE, kind_of, order_of
from tui.widgets.status import short_tokens


class Band(Struct, frozen=True):
    """All parts of one kind, or the free room or the reserve."""

    kind: str
    tokens: int
    parts: tuple[int, ...] = ()
    """Places of its parts among the pieces, those without tokens left out."""


class WindowShape(Struct, frozen=True):
    """What the map shows, before it is known how wide it is."""

    bands: tuple[Band, ...]
    """Those with tokens alone, in the order of the bar."""
    total_tokens: int
    """Their sum, at least 1."""
    trigger_tokens: int | None
    """None where it would not stand on the bar."""
    before: tuple[int, ...]
    """For each piece, the tokens of its band that stand before it."""


def window_shape(pieces: Sequence[Piece], gauge: GaugeChanged) -> WindowShape:
    """Group the pieces by kind; the free room and the reserve come last."""
    sums: dict[str, int] = {}
    parts: dict[str, list[int]] = {}
    before: list[int] = []
    for place, piece in enumerate(pieces):
        so_far = sums.get(piece.kind, 0)
        before.append(so_far)
        if piece.tokens > 0:
            sums[piece.kind] = so_far + piece.tokens
            parts.setdefault(piece.kind, []).append(place)
    used = sum(sums.values())
    effective, window = gauge.effective_window_tokens, gauge.context_window_tokens
    bands = [Band(kind, sums[kind], tuple(parts[kind])) for kind in sorted(sums, key=order_of)]
    bands += [Band(FREE, effective - used)] if effective > used else []
    bands += [Band(RESERVE, window - max(effective, used))] if window > max(effective, used) else []
    total = max(1, sum(band.tokens for band in bands))
    trigger = gauge.trigger_tokens if 0 < gauge.trigger_tokens <= total else None
    return WindowShape(tuple(bands), total, trigger, tuple(before))


def apportion(sizes: Sequence[int], units: int) -> list[int]:
    """Whole units in proportion to the sizes, together exactly `units`; each size above 0 has at least one while there
    are enough. What is rounded up for that comes off the largest."""
    total = sum(sizes)
    if total <= 0 or units <= 0:
        return [0 for _ in sizes]
    shares = [size * units // total for size in sizes]
    by_remainder = sorted(range(len(sizes)), key=lambda i: -(sizes[i] * units % total))
    for index in by_remainder[: units - sum(shares)]:
        shares[index] += 1
    for index in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        if sizes[index] > 0 and not shares[index]:
            largest = max(range(len(sizes)), key=lambda i: shares[i])
            if shares[largest] < 2:
                break
            shares[largest] -= 1
            shares[index] = 1
    return shares


def share_text(tokens: int, total: int) -> str:
    """Of the whole, in at most four characters: "12%", "1.2%", "<.1%"."""
    fraction = tokens / total if total > 0 else 0.0
    if tokens <= 0:
        return "0%"
    if fraction < 0.001:
        return "<.1%"
    return f"{fraction:.1%}" if fraction < 0.0995 else f"{fraction:.0%}"


class Bar(Struct, frozen=True):
    """The shape at a width. A unit is half a cell, or a whole one without colours."""

    units: tuple[int, ...]
    """Of each band; together the bar's length."""
    ends: tuple[int, ...]
    """The first unit behind each band."""
    per_cell: int

    @classmethod
    def of(cls, shape: WindowShape, width: int, per_cell: int) -> "Bar":
        units = apportion([band.tokens for band in shape.bands], width * per_cell)
        ends, at = [], 0
        for count in units:
            at += count
            ends.append(at)
        return cls(tuple(units), tuple(ends), per_cell)

    def extent(self, shape: WindowShape, pieces: Sequence[Piece], place: int) -> tuple[int, int] | None:
        """The cells of one piece, the end exclusive; at least one cell. None if it has no tokens."""
        piece = pieces[place]
        for band, units, end in zip(shape.bands, self.units, self.ends, strict=True):
            if band.kind == piece.kind and piece.tokens > 0:
                first = end - units + shape.before[place] * units // band.tokens
                last = end - units + -(-(shape.before[place] + piece.tokens) * units // band.tokens)
                start = max(0, min(first, end - 1)) // self.per_cell
                return start, max(start + 1, -(-last // self.per_cell))
        return None


def legend(shape: WindowShape, width: int, max_rows: int) -> list[list[tuple[Band, str]]]:
    """The bands with their texts, in rows of equal columns that leave two cells in front of each text; what finds no place
    is left out, the smallest first."""
    if not shape.bands or max_rows < 1:
        return []
    texts = [(band, _legend_text(band, shape.total_tokens)) for band in shape.bands]
    cells = 2 + max(cell_len(text) for _, text in texts)
    columns = max(1, (width + 1) // (cells + 1))
    pitch = min(cells + 4, (width + 1) // columns)
    while len(texts) > columns * max_rows:
        texts.remove(min(texts, key=lambda item: item[0].tokens))
    return [
        [(band, text.ljust(pitch - 2)) for band, text in texts[at : at + columns]]
        for at in range(0, len(texts), columns)
    ]


def _legend_text(band: Band, total: int) -> str:
    return f"{kind_of(band.kind).label:<12} {short_tokens(band.tokens):>5} {share_text(band.tokens, total):>4}"

"""The line at the foot of the screen: mode, model, folder, branch, cost and the gauge of the window.

`status_pieces` turns plain values into styled text of exactly one row; what does not fit goes by importance. The widget
only holds the values.
"""

from pathlib import Path

from msgspec import Struct
from rich.cells import cell_len
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from tui.launch.listed_models import short_name
from tui.sanitize import one_line, shorten

BAR_CELLS = 10
GAUGE_STYLES = {"calm": "$success", "warning": "$warning", "full": "$error"}
MODE_STYLES = {"plan": "$secondary", "ask": "$primary", "edits": "$warning", "auto": "$error"}
Piece = tuple[str, str]
"""Text and style."""


class StatusFacts(Struct, frozen=True):
    """What the line shows. Names are foreign text."""

    model: str = ""
    mode: str = "ask"
    effort: str | None = None
    used_tokens: int = 0
    is_estimate: bool = True
    effective_window_tokens: int = 0
    """0 while unknown."""
    gauge_level: str = "calm"
    """A key of `GAUGE_STYLES`."""
    cost_usd: float | None = None
    cwd: str = ""
    branch: str = ""


class _Part(Struct, frozen=True):
    importance: int
    """Parts with the lowest value go first; 9 stays."""
    pieces: tuple[Piece, ...]
    right: bool = False
    glued: bool = False
    """Follows the part before it without a gap."""

    @property
    def cells(self) -> int:
        return sum(cell_len(text) for text, _ in self.pieces)


def short_tokens(tokens: int) -> str:
    """1,234 → "1.2k": at most five characters up to 999 million."""
    if tokens < 1_000:
        return str(max(0, tokens))
    if tokens < 99_950:
        return f"{tokens / 1_000:.1f}k"
    if tokens < 999_500:
        return f"{tokens / 1_000:.0f}k"
    return f"{tokens / 1_000_000:.2f}M" if tokens < 9_995_000 else f"{tokens / 1_000_000:.0f}M"


def short_cost(usd: float) -> str:
    return f"${usd:.3f}" if usd < 0.995 else f"${usd:.2f}"


def short_folder(path: Path | str, home: Path | str | None = None) -> str:
    """The path with the home folder as `~`; of a deep one, the first letters of all but the last two parts."""
    text, base = str(path), str(home if home is not None else Path.home())
    if text == base or text.startswith(base.rstrip("/") + "/"):
        text = "~" + text[len(base.rstrip("/")) :]
    parts = text.split("/")
    if len(text) <= 30 or len(parts) <= 3:
        return text
    return "/".join([*(part[:1] for part in parts[:-2]), *parts[-2:]])


def bar_pieces(fraction: float, cells: int, style: str) -> tuple[Piece, ...]:
    """A bar in half cells; a fraction above 0 shows at least half a cell, and one below 1 never looks full."""
    halves = round(min(max(fraction, 0.0), 1.0) * cells * 2)
    if fraction > 0:
        halves = max(1, halves)
    if fraction < 1:
        halves = min(halves, cells * 2 - 1)
    full, half = divmod(halves, 2)
    return (("━" * full + "╸" * half, style), ("━" * (cells - full - half), "$foreground 15%"))


def _gauge_parts(facts: StatusFacts) -> list[_Part]:
    used = ("≈" if facts.is_estimate else "") + short_tokens(facts.used_tokens)
    style = GAUGE_STYLES[facts.gauge_level]
    loud = style if style != "$success" else "$foreground"
    if not facts.effective_window_tokens:
        return [_Part(9, ((used, loud),), right=True)]
    fraction = facts.used_tokens / facts.effective_window_tokens
    return [
        _Part(4, bar_pieces(fraction, BAR_CELLS, style), right=True),
        _Part(9, ((used, loud),), right=True),
        _Part(6, ((f"/{short_tokens(facts.effective_window_tokens)}", "$claw-dim"),), right=True, glued=True),
        _Part(5, ((f" {fraction:.0%}", "$claw-dim"),), right=True, glued=True),
    ]


def _parts(facts: StatusFacts) -> list[_Part]:
    model = one_line(short_name(facts.model), 40)
    if facts.effort:
        model += f" {one_line(facts.effort, 10)}"
    parts = [_Part(8, ((one_line(facts.mode, 10), f"bold {MODE_STYLES.get(facts.mode, '$foreground')}"),))]
    if model:
        parts.append(_Part(7, ((model, "$foreground"),)))
    if facts.cwd:
        parts.append(_Part(2, ((one_line(facts.cwd, 40), "$claw-dim"),)))
    if facts.branch:
        parts.append(_Part(1, ((one_line(facts.branch, 30), "$claw-dim"),)))
    if facts.cost_usd is not None:
        parts.append(_Part(3, ((short_cost(facts.cost_usd), "$claw-dim"),), right=True))
    return parts + _gauge_parts(facts)


def _joined(parts: list[_Part]) -> tuple[list[Piece], list[Piece]]:
    left: list[Piece] = []
    right: list[Piece] = []
    for part in parts:
        side = right if part.right else left
        if side and not part.glued:
            side.append(("  ", ""))
        side.extend(part.pieces)
    return left, right


def _cells(pieces: list[Piece]) -> int:
    return sum(cell_len(text) for text, _ in pieces)


def status_pieces(facts: StatusFacts, width: int) -> list[Piece]:
    """One row of exactly `width` cells, as (text, style). Styles name colours of the theme."""
    if width < 1:
        return []
    room = width - 2 if width >= 24 else width
    parts = _parts(facts)
    while True:
        left, right = _joined(parts)
        taken = _cells(left) + _cells(right) + (2 if left and right else 0)
        if taken <= room or len(parts) == 1:
            break
        parts.remove(min(parts, key=lambda part: part.importance))
    if taken > room:
        left, right = [], [(shorten("".join(text for text, _ in left + right), room), "$foreground")]
    gap = room - _cells(left) - _cells(right)
    edge = [(" ", "")] if room < width else []
    return [*edge, *left, (" " * gap, ""), *right, *edge]


class StatusLine(Widget):
    """The foot of the screen."""

    facts: reactive[StatusFacts] = reactive(StatusFacts())

    def render(self) -> Content:
        return Content.assemble(*status_pieces(self.facts, self.size.width))

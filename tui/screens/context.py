"""What fills the window: the parts by size, each with its share, under the numbers of the gauge."""

from collections.abc import Sequence

from agent.events import GaugeChanged
from tui.exact import Row
from tui.sanitize import one_line
from tui.screens.message import MessageScreen

BAR_CELLS = 24


def context_rows(gauge: GaugeChanged, parts: Sequence[tuple[str, str, int]]) -> list[Row]:
    """The largest part first. Shares are of the sum of the parts, which are estimates; the gauge is the truth."""
    about = "≈" if gauge.is_estimate else ""
    effective = gauge.effective_window_tokens
    share = f" ({gauge.used_tokens / effective:.0%})" if effective else ""
    rows = [
        Row(f"{about}{gauge.used_tokens:,} of {effective:,} tokens used{share}", "title"),
        Row(f"the model's context window: {gauge.context_window_tokens:,} tokens", "dim"),
        Row(f"compaction begins at:       {gauge.trigger_tokens:,} tokens", "dim"),
        Row(""),
    ]
    total = sum(tokens for _, _, tokens in parts)
    for kind, name, tokens in sorted(parts, key=lambda part: -part[2]):
        fraction = tokens / total if total else 0.0
        label = one_line(" ".join((kind.replace("_", " "), name if name != kind else "")), 34)
        rows.append(Row(f"{_bar(fraction)} {tokens:>9,} {fraction:>4.0%}  {label}", exact=True))
    if not parts:
        rows.append(Row("Nothing yet.", "dim"))
    return rows


def _bar(fraction: float) -> str:
    eighths = round(fraction * BAR_CELLS * 8)
    full, rest = divmod(max(eighths, 1 if fraction > 0 else 0), 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(BAR_CELLS, "·")


class ContextScreen(MessageScreen):
    def __init__(self, gauge: GaugeChanged, parts: Sequence[tuple[str, str, int]]) -> None:
        super().__init__("Context", context_rows(gauge, parts))

"""What the context screen says: the numbers of the gauge, and what an edit would free and cost."""

from textual.content import Content

from agent.context.pieces import Edit
from agent.events import GaugeChanged
from tui.sanitize import one_line, shorten
from tui.widgets.status import short_cost

_DONE = {"pin": "Pin", "unpin": "Unpin", "drop": "Drop", "shorten": "Shorten", "restore": "Restore"}


def heading(gauge: GaugeChanged, width: int) -> Content:
    """The numbers of the gauge; the less important ones go where there is no room."""
    effective = gauge.effective_window_tokens
    used = f"{'≈' if gauge.is_estimate else ''}{gauge.used_tokens:,}"
    parts = [f"{used} of {effective:,} tokens" if effective else f"{used} tokens"]
    if effective:
        parts.append(f"{gauge.used_tokens / effective:.0%}")
        parts.append(f"compaction at {gauge.trigger_tokens:,}")
        parts.append(f"window {gauge.context_window_tokens:,}")
    title = "Context  "
    while len(parts) > 1 and len(title) + len(" · ".join(parts)) > width:
        parts.pop()
    text = " · ".join(parts)
    title = title if len(title) + len(text) <= width else ""
    return Content.assemble((title, "bold $primary"), (shorten(text, width), "$foreground"))


def question(edit: Edit) -> str:
    """What an edit frees and costs, in a sentence."""
    freed, lost = edit.freed_tokens, edit.cache_lost_tokens
    size = f"about {abs(freed):,} tokens"
    told = [f"frees {size}" if freed > 0 else f"adds {size}" if freed < 0 else "frees nothing now"]
    if lost > 0:
        cost = f" (≈ {_cost(edit.cost_usd)})" if edit.cost_usd else ""
        told.append(f"{lost:,} tokens of cache are written anew{cost}")
    else:
        told.append("no cache is lost")
    text = f"{_DONE[edit.action]}: {'; '.join(told)}."
    if len(edit.keys) > 1:
        text += f" {len(edit.keys):,} entries move together."
    note = one_line(edit.note, 300)
    return f"{text} {note}" if note else text


def _cost(usd: float) -> str:
    return "under $0.001" if usd < 0.001 else short_cost(usd)

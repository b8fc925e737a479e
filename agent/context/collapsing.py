"""Which old looks at files become one line each: the results of read-only calls in rounds that a compaction would replace.

Pure, and without any model. The tail that a compaction keeps word for word is kept here too, by the same rule. Decisions: a
round is a reply with its results; a run of read-only calls may be one call long; what is one line already stays.
"""

from collections.abc import Collection, Sequence

from agent.context.budget import ContextSettings, Thresholds
from agent.context.clearing import LEAST_GAIN_TOKENS, Freeing
from agent.context.cut import NoCut, find_cut
from agent.context.meter import Meter
from agent.context.superseded import ByKey, results_in
from agent.transcript import ClearedItem, Clearing, Entry, Result
from agent.window import Window
from providers.types import TextBlock

_MOST_TITLE_CHARS = 160
READ_ONLY_TOOLS = frozenset({"read", "grep", "glob", "recall"})


def collapse(
    branch: Sequence[Entry],
    window: Window,
    meter: Meter,
    limits: Thresholds,
    settings: ContextSettings,
    spared: Collection[int] = (),
) -> Freeing | None:
    """Replace each such result by its line, in one batch. `spared`: keys of entries that stay as they are."""
    cut = find_cut(
        window,
        meter.all_message_tokens(),
        room_tokens=max(0, limits.trigger - meter.floor_tokens),
        keep_tokens=settings.keep_recent_tokens,
        preserve_recent=settings.preserve_recent,
    )
    if isinstance(cut, NoCut):
        return None
    items: list[ClearedItem] = []
    freed = 0
    for index, entry, result in results_in(window, ByKey(branch).get):
        if index >= min(cut.end, window.stable):
            break
        if result.tool not in READ_ONLY_TOOLS or entry.key in spared:
            continue
        line = collapsed_line(entry.key, result)
        if (gain := meter.own_tokens(entry.key) - meter.count(line)) >= LEAST_GAIN_TOKENS:
            items.append(ClearedItem(entry.key, line))
            freed += gain
    return Freeing(Clearing(tuple(items), "collapse"), freed) if items else None


def collapsed_line(key: int, result: Result) -> str:
    """Tool, what it looked at, how many lines that gave, and the entry which has them."""
    lines = sum(block.text.count("\n") + 1 for block in result.blocks if isinstance(block, TextBlock))
    title = " ".join(result.title.split())
    what = f"{result.tool} {title if len(title) <= _MOST_TITLE_CHARS else title[:_MOST_TITLE_CHARS] + '…'}".strip()
    return f"[{what}: {lines:,} line{'' if lines == 1 else 's'}, collapsed; entry {key} of the session has them]"

"""What of the window the provider's prompt cache covers by the record, and what it costs to lose a part of that."""

from collections.abc import Sequence

from agent.context.pipeline import CACHE_COLD_MS
from agent.transcript import Assistant, Entry
from agent.window import Window
from providers.models import Price

_PER_MILLION = 1_000_000


def cached_request(branch: Sequence[Entry], now_ms: int) -> Window | None:
    """The window of the newest answered request, which the provider's cache covers; None if there is none or the cache
    has expired."""
    place = next((i for i in range(len(branch) - 1, -1, -1) if isinstance(branch[i].payload, Assistant)), None)
    if place is None or now_ms - branch[place].time_ms >= CACHE_COLD_MS:
        return None
    return Window(branch[:place])


def covered_messages(cached: Window | None, window: Window) -> int:
    """How many leading messages of a window are covered by what was cached."""
    if cached is None:
        return 0
    if (cached.prefix, cached.provider, cached.model) != (window.prefix, window.provider, window.model):
        return 0
    before, now = cached.sealed(), window.messages
    differs = (i for i, (old, new) in enumerate(zip(before, now, strict=False)) if old != new)
    return next(differs, min(len(before), len(now)))


def cost_of_lost(price: Price | None, lost_tokens: int, prompt_tokens: int) -> float | None:
    """US dollars for sending tokens anew that would have been read from the cache; None where the price is unknown."""
    if price is None:
        return None
    if price.long is not None and price.long_above_tokens and prompt_tokens > price.long_above_tokens:
        price = price.long
    write = price.input if price.cache_write is None else price.cache_write
    read = price.input if price.cache_read is None else price.cache_read
    return max(0.0, lost_tokens * (write - read) / _PER_MILLION)

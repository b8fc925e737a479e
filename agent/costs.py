"""What a session has cost, from its entries alone: per model, how much the prompt cache saved, and what its breaks lost.

What was paid is what was recorded, since prices change; what was saved and lost is reckoned with the price in force. Money
lost is worked out from the usage: a reply read fewer cached tokens than the one before it had left in the cache, and nothing
between them had to break the prefix. Compactions are not replies: their calls are summed up by themselves.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct

from agent.context.reports import may_break
from agent.transcript import Assistant, Compaction, Entry
from providers.models import Price
from providers.types import Usage, WireApi

PriceOf = Callable[[str, str], Price | None]
"""(provider, model id) → its price; None where it is unknown."""

LEAST_CACHED_TOKENS = 1_024
"""Providers cache no shorter prefix (Anthropic, OpenAI; 2026-11), so that a smaller difference means nothing."""
CACHE_STEP_TOKENS = 128
"""OpenAI caches in steps of so many tokens."""
_TOLERANCE = 0.05
_PER_MILLION = 1_000_000


class ModelCost(Struct, frozen=True):
    """What one model's replies have used."""

    provider: str
    model: str
    requests: int
    input_tokens: int
    """Neither read from nor written to a cache."""
    cache_read_tokens: int
    cache_write_tokens: int
    output_tokens: int
    cost_usd: float | None
    """None: the price of none of its replies was known."""

    @property
    def cached_share(self) -> float:
        return cached_share(Usage(self.input_tokens, self.cache_read_tokens, self.cache_write_tokens))


class CostReport(Struct, frozen=True):
    """Money is in US dollars; None where no price is known."""

    models: tuple[ModelCost, ...]
    """In the order of their first reply."""
    cost_usd: float | None
    """Of everything, the compactions included."""
    cached_share: float
    """Tokens read from a cache among all tokens of all requests, in 0..1."""
    saved_usd: float | None
    """What the tokens read from a cache would have cost more without it."""
    lost_usd: float | None
    """What was paid again because the cache was lost though the prefix had not to change."""
    breaks: int
    """How often that was."""
    compactions: int
    compactions_usd: float | None


class _Tally:
    """Sums up one model's replies."""

    def __init__(self) -> None:
        self.requests = 0
        self.usage = Usage()
        self.cost_usd: float | None = None

    def row(self, provider: str, model: str) -> ModelCost:
        usage = self.usage
        return ModelCost(
            provider,
            model,
            self.requests,
            usage.input_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.output_tokens,
            self.cost_usd,
        )


class _Losses:
    """Follows the replies in their order and finds those that should have read more from the cache."""

    def __init__(self) -> None:
        self.count = 0
        self.usd: float | None = None
        self._model: tuple[str, str] | None = None
        self._cached = 0
        self._caches = False

    def reset(self) -> None:
        self._cached = 0

    def take(self, reply: Assistant, price: Price | None) -> None:
        model = (reply.provider, reply.model)
        if model != self._model:
            self._model, self._cached, self._caches = model, 0, False
        missing = missing_tokens(self._cached, reply.usage)
        if missing:
            self.count += 1
            self.usd = _add(self.usd, break_cost_usd(price, reply.usage, missing))
        self._caches = self._caches or speaks_of_cache(reply.usage)
        self._cached = left_in_cache(reply.usage, reply.api, self._caches)


def cost_report(entries: Iterable[Entry], price_of: PriceOf) -> CostReport:
    """The report over these entries, oldest first: a branch, or every entry of a session."""
    tallies: dict[tuple[str, str], _Tally] = {}
    losses = _Losses()
    saved: float | None = None
    compactions, compactions_usd = 0, None
    for entry in entries:
        payload = entry.payload
        if isinstance(payload, Compaction):
            compactions += 1
            compactions_usd = _add(compactions_usd, payload.cost_usd)
        if may_break(payload):
            losses.reset()
        if not isinstance(payload, Assistant) or not payload.usage.reported:
            continue
        price = price_of(payload.provider, payload.model)
        tally = tallies.setdefault((payload.provider, payload.model), _Tally())
        tally.requests += 1
        tally.usage += payload.usage
        tally.cost_usd = _add(tally.cost_usd, payload.cost_usd)
        saved = _add(saved, _saved_usd(payload.usage, price))
        losses.take(payload, price)
    models = tuple(tally.row(*name) for name, tally in tallies.items())
    total = compactions_usd
    for model in models:
        total = _add(total, model.cost_usd)
    usage = sum((tally.usage for tally in tallies.values()), Usage())
    lost = losses.usd if losses.count or saved is None else 0.0
    return CostReport(models, total, cached_share(usage), saved, lost, losses.count, compactions, compactions_usd)


def cached_share(usage: Usage) -> float:
    """The share of a prompt that was read from a cache, in 0..1; 0 for no prompt."""
    return usage.cache_read_tokens / usage.prompt_tokens if usage.prompt_tokens else 0.0


def speaks_of_cache(usage: Usage) -> bool:
    return usage.cache_read_tokens > 0 or usage.cache_write_tokens > 0


def left_in_cache(usage: Usage, api: WireApi, caches: bool) -> int:
    """How many leading tokens of a request the provider has in its cache after answering it.

    Anthropic says so. The others may name what was read alone; where they are known to cache (`caches`) they keep all of
    it, in whole steps.
    """
    if api == "anthropic":
        kept = usage.cache_read_tokens + usage.cache_write_tokens
    else:
        kept = usage.prompt_tokens // CACHE_STEP_TOKENS * CACHE_STEP_TOKENS if caches else 0
    return kept if kept >= LEAST_CACHED_TOKENS else 0


def missing_tokens(expected: int, usage: Usage) -> int:
    """How many tokens a request should have read from the cache and did not; 0 where the difference means nothing."""
    missing = expected - usage.cache_read_tokens
    return missing if usage.reported and missing >= max(LEAST_CACHED_TOKENS, expected * _TOLERANCE) else 0


def break_cost_usd(price: Price | None, usage: Usage, missing: int) -> float | None:
    """What `missing` tokens cost more than they would have from the cache; None where the price is unknown."""
    if price is None:
        return None
    price = _in_force(price, usage)
    paid = _write_price(price) if usage.cache_write_tokens else price.input
    return max(0.0, missing * (paid - _read_price(price)) / _PER_MILLION)


def _saved_usd(usage: Usage, price: Price | None) -> float | None:
    if price is None:
        return None
    price = _in_force(price, usage)
    return usage.cache_read_tokens * (price.input - _read_price(price)) / _PER_MILLION


def _in_force(price: Price, usage: Usage) -> Price:
    """The step of the price that a request of this length pays."""
    is_long = price.long_above_tokens is not None and usage.prompt_tokens > price.long_above_tokens
    return price.long if is_long and price.long is not None else price


def _read_price(price: Price) -> float:
    return price.input if price.cache_read is None else price.cache_read


def _write_price(price: Price) -> float:
    return price.input if price.cache_write is None else price.cache_write


def _add(total: float | None, more: float | None) -> float | None:
    return total if more is None else (total or 0.0) + more

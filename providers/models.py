"""Facts about models: context window, output cap, price, abilities; the user's word before the server's before ours.

Precedence of every figure: the user's override, the server's listing, the offline table (model_table.py), the price
catalogue (genai-prices), defaults. An unknown model works with the defaults. Nothing here touches the network, and the
catalogue is imported by `load_catalogue` only, never at start-up.
"""

import ipaddress
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from providers.base import ListedModel
from providers.model_table import (
    MODELS,
    TablePrice,
    ThinkingStyle,
    default_rank,
    model_family,
    table_key,
    table_row,
    thinking_style,
)
from providers.presets import PRESETS
from providers.types import Effort, ProviderConfig, Usage, WireApi

__all__ = [
    "PRESETS",
    "Catalogue",
    "CatalogueEntry",
    "ModelFacts",
    "ModelOverride",
    "Price",
    "ThinkingStyle",
    "cost_usd",
    "default_model",
    "is_loopback",
    "is_this_machine",
    "load_catalogue",
    "model_facts",
    "model_family",
    "pick_default",
    "thinking_style",
]

UNKNOWN_WINDOW_TOKENS = 128_000
UNKNOWN_LOCAL_WINDOW_TOKENS = 32_768
UNKNOWN_OUTPUT_CAP_TOKENS = 8_192
_PER_MILLION = 1_000_000
_Tokens = Annotated[int, Meta(ge=1)]
_Usd = Annotated[float, Meta(ge=0)]


class Price(Struct, frozen=True, kw_only=True):
    """US dollars per million tokens."""

    input: _Usd
    output: _Usd
    cache_read: _Usd | None = None
    """None: as `input`."""
    cache_write: _Usd | None = None
    """None: as `input`."""
    long_above_tokens: int | None = None
    """A request with more prompt tokens than this pays `long` for all of its tokens; None: no such step."""
    long: "Price | None" = None


class ModelFacts(Struct, frozen=True, kw_only=True):
    id: str
    provider: str
    """The provider's name in the configuration."""
    api: WireApi
    family: str
    """Models of one family read each other's thinking and opaque blocks; see `model_family`."""
    context_window_tokens: int
    """What prompt and reply may fill together. Where a vendor limits the prompt further: that limit plus 20,000."""
    max_output_tokens: int
    price: Price | None = None
    """None: unknown."""
    thinking: bool = False
    efforts: tuple[Effort, ...] = ()
    """Levels the model is known to take, lowest first; empty: unknown, or it does not reason."""
    images: bool = False
    known: bool = False
    """Whether context window and output cap come from somewhere better than the defaults."""


class ModelOverride(Struct, frozen=True, kw_only=True):
    """What the user says about a model, the `[models."ID"]` table; None: nothing said."""

    context_window_tokens: _Tokens | None = None
    max_output_tokens: _Tokens | None = None
    price: Price | None = None
    thinking: bool | None = None
    efforts: tuple[Effort, ...] | None = None
    images: bool | None = None


class CatalogueEntry(Struct, frozen=True):
    context_window_tokens: int | None
    price: Price | None


Catalogue = Callable[[ProviderConfig, str], CatalogueEntry | None]
"""(provider, model id) → what the price catalogue knows. Cheap; make it with `load_catalogue`."""


def model_facts(
    config: ProviderConfig,
    model_id: str,
    override: ModelOverride | None = None,
    listed: ListedModel | None = None,
    catalogue: Catalogue | None = None,
) -> ModelFacts:
    """Everything known about one model of one provider; never fails.

    Without `catalogue` prices are known only from the override and for a few rows of the offline table.
    """
    said = override or ModelOverride()
    row = table_row(model_id, config.api)
    entry = catalogue(config, model_id) if catalogue is not None and config.api != "scripted" else None
    guess = _guess(config.api, model_id)
    window = _first(
        said.context_window_tokens,
        listed.context_window_tokens if listed else None,
        row.context_window_tokens if row else None,
        entry.context_window_tokens if entry else None,
    )
    cap = _first(
        said.max_output_tokens,
        listed.max_output_tokens if listed else None,
        row.max_output_tokens if row else None,
    )
    unknown = UNKNOWN_LOCAL_WINDOW_TOKENS if is_loopback(config.base_url) else UNKNOWN_WINDOW_TOKENS
    efforts = row.efforts if row else guess.efforts
    efforts = said.efforts if said.efforts is not None else efforts
    thinking = bool(efforts) if said.thinking is None else said.thinking
    return ModelFacts(
        id=model_id,
        provider=config.name,
        api=config.api,
        family=model_family(model_id),
        context_window_tokens=window or unknown,
        max_output_tokens=min(cap or UNKNOWN_OUTPUT_CAP_TOKENS, window or unknown),
        price=said.price or (entry.price if entry else None) or _table_price(config.api, row.price if row else None),
        thinking=thinking,
        efforts=efforts,
        images=(row.images if row else guess.images) if said.images is None else said.images,
        known=window is not None,
    )


def cost_usd(facts: ModelFacts, usage: Usage) -> float | None:
    """What one call cost, or None where price or usage is unknown."""
    price = facts.price
    if price is None or not usage.reported:
        return None
    if price.long is not None and price.long_above_tokens and usage.prompt_tokens > price.long_above_tokens:
        price = price.long
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    return (
        usage.input_tokens * price.input
        + usage.cache_read_tokens * read
        + usage.cache_write_tokens * write
        + usage.output_tokens * price.output
    ) / _PER_MILLION


ANY_MODEL = "default"
"""Many servers answer with the model they have loaded, whatever the request names; else their listing corrects it."""


def default_model(api: WireApi) -> str:
    """The id to use where the user named none: the newest of the middle class in the offline table."""
    if api == "scripted":
        return "demo"
    if api == "chat":
        return ANY_MODEL
    vendor: WireApi = "anthropic" if api == "anthropic" else "responses"
    return _best([model_id for model_id, row in MODELS.items() if row.api == vendor], vendor) or ""


def pick_default(listed: Sequence[ListedModel], api: WireApi) -> str:
    """The same among what a server lists; its first model where none is familiar, the offline default for an empty list."""
    ids = [model.id for model in listed]
    return _best(ids, api) or (ids[0] if ids else default_model(api))


def is_loopback(base_url: str | None) -> bool:
    """Whether the address names this machine. None, the SDK's own address, does not."""
    try:
        host = urlsplit(base_url or "").hostname or ""
    except ValueError:
        return False
    return is_this_machine(host)


def is_this_machine(host: str) -> bool:
    """Whether a host name or address can only mean this machine, whatever a name server says."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def load_catalogue() -> Catalogue:
    """Import the price catalogue and return its look-up. Takes up to half a second of CPU: call it in a thread."""
    from genai_prices.data_snapshot import get_snapshot

    snapshot = get_snapshot()
    now = datetime.now(tz=UTC)
    memo: dict[tuple[str, str | None, WireApi, str], CatalogueEntry | None] = {}

    def look_up(config: ProviderConfig, model_id: str) -> CatalogueEntry | None:
        key = (config.name, config.base_url, config.api, model_id)
        if key not in memo:
            memo[key] = _catalogue_entry(snapshot, now, config, model_id)
        return memo[key]

    return look_up


def _catalogue_entry(snapshot: Any, now: datetime, config: ProviderConfig, model_id: str) -> CatalogueEntry | None:
    vendor = "anthropic" if config.api == "anthropic" else "openai"
    # The server's address says best who bills; a configured name may be a known provider; the wire API is a guess.
    for provider_id, url in ((None, config.base_url), (config.name, None), (vendor, None)):
        if provider_id is None and url is None:
            continue
        for spelling in dict.fromkeys((model_id, table_key(model_id))):
            try:
                _, model = snapshot.find_provider_model(spelling, None, provider_id, url)
            except LookupError:
                continue
            return CatalogueEntry(model.context_window, _catalogue_price(model.get_prices(now)))
    return None


def _catalogue_price(prices: Any) -> Price | None:
    fields = ("input", "output", "cache_read", "cache_write")
    found = {name: getattr(prices, f"{name}_mtok", None) for name in fields}
    if found["input"] is None or found["output"] is None:
        return None
    starts = [tier.start for value in found.values() for tier in getattr(value, "tiers", ())]
    base = {name: None if value is None else _usd(value, None) for name, value in found.items()}
    if not starts:
        return msgspec.convert(base, Price)
    above = {name: None if value is None else _usd(value, min(starts)) for name, value in found.items()}
    return msgspec.convert({**base, "long_above_tokens": min(starts), "long": above}, Price)


def _usd(value: Any, at_tokens: int | None) -> float:
    """A catalogue figure, which is a number or one with steps; `at_tokens` picks the step that starts there."""
    tiers = getattr(value, "tiers", None)
    if tiers is None:
        return float(value)
    for tier in tiers:
        if tier.start == at_tokens:
            return float(tier.price)
    return float(value.base)


def _table_price(api: WireApi, price: TablePrice | None) -> Price | None:
    if api == "scripted":
        return Price(input=0.0, output=0.0)
    if price is None:
        return None
    return Price(input=price.input, output=price.output, cache_read=price.cache_read, cache_write=price.cache_write)


class _Guess(Struct, frozen=True):
    efforts: tuple[Effort, ...]
    images: bool


def _guess(api: WireApi, model_id: str) -> _Guess:
    """Abilities of a model that is not in the table, by its vendor's naming."""
    if api == "anthropic" and thinking_style(model_id) != "none":
        return _Guess(("low", "medium", "high"), True)
    if api != "scripted" and (rank := default_rank(model_id, "responses")) is not None and rank[1] >= (5, 0):
        return _Guess(("low", "medium", "high"), True)
    return _Guess((), False)


def _best(ids: Sequence[str], api: WireApi) -> str | None:
    ranked = [(rank, model_id) for model_id in ids if (rank := default_rank(model_id, api)) is not None]
    return max(ranked)[1] if ranked else None


def _first(*figures: int | None) -> int | None:
    return next((figure for figure in figures if figure), None)

"""What is known offline about models by their id: context windows, output caps, reasoning levels, thinking styles.

Data and the parsing of ids, nothing else; `models.py` weighs it against what the user, the server and the price
catalogue say. Sources: the vendors' model pages as of 2026-11-30 for the Claude 4.6 to 5.x and the GPT-5.4 to 6.2 rows,
genai-prices 0.2.3 for the windows of older rows, the vendors' published limits for older output caps.
"""

import re
from typing import Literal

from msgspec import Struct

from providers.types import Effort, WireApi

ThinkingStyle = Literal["adaptive", "budget", "none"]

_REPLY_ROOM_TOKENS = 20_000
_ANY: tuple[Effort, ...] = ("off", "low", "medium", "high")
_NEVER_OFF: tuple[Effort, ...] = ("low", "medium", "high")


class TablePrice(Struct, frozen=True):
    """US dollars per million tokens, for the few models that are newer than the price catalogue."""

    input: float
    cache_read: float
    cache_write: float
    output: float


class TableRow(Struct, frozen=True):
    api: WireApi
    context_window_tokens: int
    max_output_tokens: int
    efforts: tuple[Effort, ...] = ()
    """Empty: the model does not reason."""
    lowest: str = "low"
    """The wire's word for the least reasoning, where it cannot be turned off."""
    images: bool = True
    price: TablePrice | None = None


def _claude(window: int, cap: int, efforts: tuple[Effort, ...] = _ANY) -> TableRow:
    return TableRow("anthropic", window, cap, efforts)


def _gpt(
    window: int,
    efforts: tuple[Effort, ...] = _ANY,
    lowest: str = "low",
    cap: int = 128_000,
    price: TablePrice | None = None,
) -> TableRow:
    """A GPT-5 or later. The vendor keeps the output cap free: input is limited to window − cap (922,000 of 1,050,000).

    The window given here is that limit and room for one reply, so that thresholds computed from it come in time.
    """
    return TableRow("responses", window - cap + _REPLY_ROOM_TOKENS, cap, efforts, lowest, price=price)


MODELS: dict[str, TableRow] = {
    # Thinking cannot be turned off on these (the API refuses `disabled`).
    "claude-fable-5-2": _claude(1_000_000, 128_000, _NEVER_OFF),
    "claude-fable-5-1": _claude(1_000_000, 128_000, _NEVER_OFF),
    "claude-fable-5": _claude(1_000_000, 128_000, _NEVER_OFF),
    "claude-mythos-5-2": _claude(1_000_000, 128_000, _NEVER_OFF),
    "claude-opus-5-5": _claude(1_000_000, 128_000, _NEVER_OFF),
    "claude-sonnet-5-5": _claude(1_000_000, 128_000, _NEVER_OFF),
    "claude-haiku-5-5": _claude(1_000_000, 128_000),
    "claude-opus-5": _claude(1_000_000, 128_000),
    "claude-sonnet-5": _claude(1_000_000, 128_000),
    "claude-opus-4-8": _claude(1_000_000, 128_000),
    "claude-opus-4-7": _claude(1_000_000, 128_000),
    "claude-opus-4-6": _claude(1_000_000, 128_000),
    "claude-sonnet-4-6": _claude(1_000_000, 64_000),
    "claude-opus-4-5": _claude(200_000, 64_000),
    "claude-sonnet-4-5": _claude(200_000, 64_000),
    "claude-haiku-4-5": _claude(200_000, 64_000),
    "claude-opus-4-1": _claude(200_000, 32_000),
    # 6.2 refuses the efforts `none` and `minimal`; its prices are the vendor's of 2026-11-17.
    "gpt-6.2-astra": _gpt(1_050_000, _NEVER_OFF, price=TablePrice(8.0, 0.4, 10.0, 40.0)),
    "gpt-6.2-sol": _gpt(1_050_000, _NEVER_OFF, price=TablePrice(2.0, 0.1, 2.5, 10.0)),
    "gpt-6.1-sol": _gpt(1_050_000),
    "gpt-6.1-terra": _gpt(1_050_000),
    "gpt-6-astra": _gpt(1_050_000),
    "gpt-6-sol": _gpt(1_050_000),
    "gpt-6-luna": _gpt(1_050_000),
    "gpt-5.6-sol": _gpt(1_050_000),
    "gpt-5.6-terra": _gpt(1_050_000),
    "gpt-5.6-luna": _gpt(1_050_000),
    "gpt-5.5": _gpt(1_000_000),
    "gpt-5.4": _gpt(1_050_000),
    "gpt-5.4-mini": _gpt(400_000),
    "gpt-5.4-nano": _gpt(400_000),
    "gpt-5.2": _gpt(400_000),
    "gpt-5.1": _gpt(400_000),
    "gpt-5": _gpt(400_000, _NEVER_OFF, "minimal"),
    "gpt-5-mini": _gpt(400_000, _NEVER_OFF, "minimal"),
    "gpt-5-nano": _gpt(400_000, _NEVER_OFF, "minimal"),
    "o3": TableRow("responses", 200_000, 100_000, _NEVER_OFF),
    "o4-mini": TableRow("responses", 200_000, 100_000, _NEVER_OFF),
    "gpt-4.1": TableRow("responses", 1_047_576, 32_768),
    "gpt-4.1-mini": TableRow("responses", 1_047_576, 32_768),
    "gpt-4.1-nano": TableRow("responses", 1_047_576, 32_768),
    "gpt-4o": TableRow("responses", 128_000, 16_384),
    "gpt-4o-mini": TableRow("responses", 128_000, 16_384),
    # The scripted demo: a window small enough that a short conversation is compacted.
    "demo": TableRow("scripted", 8_192, 4_096, images=False),
}

# -20261101, -2026-11-01, @20261101 (Vertex), -v1:0 (Bedrock), -latest
_VERSION_SUFFIX = re.compile(r"(?:[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|latest))?(?:-v\d+(?::\d+)?)?$")
_CLAUDE = re.compile(r"claude-(?P<kind>[a-z]+)-(?P<major>\d+)(?:-(?P<minor>\d{1,2}))?$")
_OLD_CLAUDE = re.compile(r"claude-(?:(?P<major>[1-3])(?:-(?P<minor>\d))?-[a-z]+|2|v\d|instant)")
_GPT = re.compile(r"gpt-(?P<major>\d+)(?:\.(?P<minor>\d+))?(?:-(?P<kind>[a-z]+))?$")
# Which class is the middle one, best first; a class that is not listed is no default for coding.
_CLASSES: dict[str, tuple[tuple[str, ...], ...]] = {
    "anthropic": (("sonnet",), ("opus",), ("haiku",), ("fable",), ("mythos",)),
    "responses": (("sol", "", "terra"), ("astra",), ("mini", "luna"), ("nano",)),
}


def model_family(model_id: str) -> str:
    """The id without its date or version suffix: `claude-opus-4-5-20251101` → `claude-opus-4-5`.

    Thinking and other opaque blocks are taken to be interchangeable within a family and nowhere else: snapshots of one
    model read each other's, while vendors promise nothing between models, so every model is its own family.
    """
    return _VERSION_SUFFIX.sub("", model_id) or model_id


def table_key(model_id: str) -> str:
    """The id as the table spells it: without routing prefix (`anthropic/`, `us.anthropic.`) and date, with Claude's hyphens."""
    plain = model_family(model_id).rsplit("/", 1)[-1].lower()
    at = plain.find("claude-")
    return plain[at:].replace(".", "-") if at >= 0 else plain


def table_row(model_id: str, api: WireApi) -> TableRow | None:
    """The row of a model, or None; scripted models and real ones never stand in for each other."""
    row = MODELS.get(table_key(model_id))
    return row if row is not None and (row.api == "scripted") == (api == "scripted") else None


def thinking_style(model_id: str) -> ThinkingStyle:
    """How an Anthropic-style request asks this model to think.

    `adaptive` with an effort for Claude 4.6 and later, also for Claude ids not known yet; `budget` (a number of tokens)
    for Claude 3.7 to 4.5; `none` where thinking does not exist, and for foreign models, which may refuse the parameter.
    """
    key = table_key(model_id)
    if not key.startswith("claude-"):
        return "none"
    if old := _OLD_CLAUDE.match(key):
        return "budget" if (old["major"], old["minor"]) == ("3", "7") else "none"
    if match := _CLAUDE.match(key):
        version = (int(match["major"]), int(match["minor"] or 0))
        return "adaptive" if version >= (4, 6) else "budget"
    return "adaptive"


def default_rank(model_id: str, api: WireApi) -> tuple[int, tuple[int, int], int, int] | None:
    """How well an id serves as the default, higher is better: class, version, order inside the class, plain before dated.

    None for ids that are no general coding model of this API's vendor.
    """
    plain = model_id.rsplit("/", 1)[-1].lower()
    match = (_CLAUDE if api == "anthropic" else _GPT).match(table_key(model_id))
    if match is None:
        return None
    kind = match["kind"] or ""
    for place, kinds in enumerate(_CLASSES.get(api, ())):
        if kind in kinds:
            version = (int(match["major"]), int(match["minor"] or 0))
            return -place, version, -kinds.index(kind), int(plain == model_family(plain))
    return None

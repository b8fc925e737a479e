"""The models that can be chosen, as the screens show them. Plain values: whoever asks servers makes them."""

from collections.abc import Sequence

from msgspec import Struct

from providers.models import ModelFacts


class ModelChoice(Struct, frozen=True):
    """One model. All texts may be foreign."""

    name: str
    """PROVIDER/MODEL."""
    detail: str = ""
    """A few words more."""
    window_tokens: int = 0
    """Its context window; 0: not known."""
    price: tuple[float, float] | None = None
    """USD for a million tokens of input and of output."""
    thinking: bool = False
    images: bool = False


class SilentProvider(Struct, frozen=True):
    """A provider that could not be asked what it offers."""

    name: str
    why: str


Listing = Sequence[ModelChoice | SilentProvider]


def choice_of(facts: ModelFacts) -> ModelChoice:
    """A model by its facts; a window that is only assumed is not shown."""
    price = (facts.price.input, facts.price.output) if facts.price is not None else None
    return ModelChoice(
        f"{facts.provider}/{facts.id}",
        window_tokens=facts.context_window_tokens if facts.known else 0,
        price=price,
        thinking=facts.thinking,
        images=facts.images,
    )


def short_name(name: str) -> str:
    """A model, with or without its provider, as it is shown where room is short: of a model file's path the last part.

    llama.cpp's server calls a model by the path it was started with.
    """
    provider, slash, model = ("", "", name) if name.startswith("/") else name.partition("/")
    if not model.startswith("/"):
        return name
    last = model.rpartition("/")[2]
    return f"{provider}{slash}{last.removesuffix('.gguf') or model}"


def window_text(tokens: int) -> str:
    """For instance "200k" or "1M"; empty for 0."""
    if tokens >= 1_000_000:
        return f"{round(tokens / 1_000_000, 1):g}M"
    return f"{tokens // 1_000}k" if tokens >= 1_000 else f"{tokens}" if tokens else ""


def price_text(price: tuple[float, float] | None) -> str:
    """USD for a million tokens in and out, for instance "$3/$15"; "free" for nothing at all."""
    if price is None:
        return ""
    return "free" if price == (0.0, 0.0) else "/".join(f"${round(usd, 3 if usd < 0.1 else 2):g}" for usd in price)


def abilities_text(model: ModelChoice) -> str:
    return " ".join(word for word, can in (("thinks", model.thinking), ("images", model.images)) if can)

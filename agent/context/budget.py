"""Where the window warns, is compacted and blocks: one pure function of a model's limits, the settings and the environment.

Decisions: a trigger of any kind is kept between 1 and the blocking limit, since a later one would never act. `ratio` takes
the running maximum over smaller windows, so that the change from "85 %" to "window − 32,768" at 65,536 does not give a
larger window a smaller trigger. A fraction is one of the effective window.
"""

from collections.abc import Mapping
from typing import Literal, Protocol

from msgspec import Struct

MOST_REPLY_TOKENS = 32_000
_RATIO_RESERVE_TOKENS = 32_768
_TRIGGER_BUFFER_TOKENS = 13_000
_WARNING_BUFFER_TOKENS = 20_000
_BLOCKING_BUFFER_TOKENS = 3_000

Trigger = Literal["auto", "buffer", "ratio"] | int | float


class ModelLimits(Protocol):
    """What of a model's facts the thresholds depend on."""

    @property
    def context_window_tokens(self) -> int: ...
    @property
    def max_output_tokens(self) -> int: ...


class ContextSettings(Struct, frozen=True):
    """The `[context]` table, as far as it concerns sizes."""

    trigger: Trigger = "auto"
    """"auto", "buffer", "ratio", a number of tokens (an integer), or a fraction of the effective window (0 < f <= 1)."""
    auto_compact: bool = True
    keep_recent_tokens: int = 20_000
    preserve_recent: int = 4
    """Messages at the end that stay; a message is a user's, or a reply with its results."""
    reserve_tokens: int | None = None
    """Kept free for the summary; None: as the model's limits say."""
    user_words_tokens: int = 20_000
    pin_tokens: int | None = None
    """None: no limit of its own."""


class Thresholds(Struct, frozen=True):
    """All in tokens of the whole request, compared with `>=`. warning <= error < trigger <= blocking <= effective.

    Where nothing is compacted automatically, warning and error lie below `effective` instead of `trigger`.
    """

    context_window: int
    reserve: int
    effective: int
    warning: int
    error: int
    trigger: int
    blocking: int
    auto_compact: bool = True
    can_compact: bool = True
    """False: not even by `/compact`."""


class GaugeState(Struct, frozen=True):
    """How full the window is."""

    fraction_left: float
    """Of the way to the trigger (to `effective` where nothing is compacted automatically), in 0..1."""
    above_warning: bool
    above_error: bool
    above_trigger: bool
    """False where nothing is compacted automatically."""
    at_blocking: bool


def thresholds(facts: ModelLimits, settings: ContextSettings, env: Mapping[str, str]) -> Thresholds:
    """The thresholds in force for one model.

    Raises:
        ValueError: a CLAW_… variable is not a number in its range; the text names it.
    """
    window = max(1, facts.context_window_tokens)
    if (shrunk := _number(env, "CLAW_CONTEXT_WINDOW")) is not None:
        window = min(window, int(shrunk))
    reserve = _reserve(window, facts.max_output_tokens, settings.reserve_tokens)
    effective = max(1, window - reserve)
    blocking = max(1, effective - _buffer(_BLOCKING_BUFFER_TOKENS, effective))
    if (limit := _number(env, "CLAW_BLOCKING_LIMIT")) is not None:
        blocking = min(int(limit), effective)
    trigger = _trigger(settings.trigger, window, effective)
    if (percent := _number(env, "CLAW_AUTOCOMPACT_PCT", most=100)) is not None:
        trigger = int(effective * percent / 100)
    trigger = max(1, min(trigger, blocking))
    can_compact = not _is_set(env, "CLAW_DISABLE_COMPACT")
    automatic = can_compact and not _is_set(env, "CLAW_DISABLE_AUTO_COMPACT") and settings.auto_compact
    limit_in_force = trigger if automatic else effective
    # A quarter, so that a trigger set by hand near the floor still has a warning below it.
    below = min(_buffer(_WARNING_BUFFER_TOKENS, effective), limit_in_force // 4)
    warning = max(1, limit_in_force - max(1, below))
    return Thresholds(window, reserve, effective, warning, warning, trigger, blocking, automatic, can_compact)


def gauge_state(used_tokens: int, limits: Thresholds) -> GaugeState:
    """Where `used_tokens` stands among the thresholds."""
    end = limits.trigger if limits.auto_compact else limits.effective
    return GaugeState(
        fraction_left=min(1.0, max(0.0, (end - used_tokens) / end)),
        above_warning=used_tokens >= limits.warning,
        above_error=used_tokens >= limits.error,
        above_trigger=limits.auto_compact and used_tokens >= limits.trigger,
        at_blocking=used_tokens >= limits.blocking,
    )


def summary_output_cap(limits: Thresholds, model_cap_tokens: int, room_tokens: int) -> int:
    """Most tokens that a summary may have; `room_tokens` is what lies between the floor and the trigger."""
    return max(1, min(limits.reserve * 4 // 5, model_cap_tokens, room_tokens // 5))


def next_max_tokens(
    model_cap_tokens: int, used_tokens: int, context_window_tokens: int, most: int = MOST_REPLY_TOKENS
) -> int:
    """`max_tokens` of the next request; at least 1. `most` is raised once where a reply was cut off."""
    left = context_window_tokens - used_tokens - context_window_tokens // 100
    return max(1, min(model_cap_tokens, most, left))


def result_cap_tokens(limits: Thresholds) -> int:
    """Most tokens that one tool result may have when it is recorded."""
    return max(1, min(16_000, limits.effective // 5))


def step_results_cap_tokens(limits: Thresholds) -> int:
    """Most tokens that the results of one step may have together."""
    return max(1, min(50_000, limits.effective // 4))


def _reserve(window: int, max_output: int, configured: int | None) -> int:
    if configured is not None:
        return min(max(0, configured), window // 2)
    return min(max(0, max_output), 20_000, window // 5)


def _buffer(tokens: int, effective: int) -> int:
    """A buffer meant for 100,000 effective tokens and more, scaled down below that."""
    return min(tokens, tokens * effective // 100_000)


def _trigger(kind: Trigger, window: int, effective: int) -> int:
    by_buffer = effective - _buffer(_TRIGGER_BUFFER_TOKENS, effective)
    if kind == "auto":
        return min(by_buffer, window * 85 // 100)
    if kind == "buffer":
        return by_buffer
    if kind == "ratio":
        return _ratio(window)
    if isinstance(kind, float):
        return int(effective * kind)
    return int(kind)


def _ratio(window: int) -> int:
    """Strictly above min(85 %, window − 32,768), which `>=` reaches one token later."""
    share = window * 85 // 100
    turn = 2 * _RATIO_RESERVE_TOKENS
    if window < turn:
        return share + 1
    return max(min(share, window - _RATIO_RESERVE_TOKENS), (turn - 1) * 85 // 100) + 1


def _number(env: Mapping[str, str], name: str, most: float = float("inf")) -> float | None:
    raw = env.get(name, "").strip()
    if not raw:
        return None
    what = "a number of tokens from 1 on" if most == float("inf") else f"a number above 0 and up to {most:g}"
    try:
        value = float(raw.replace("_", ""))
    except ValueError:
        value = 0.0
    least = 1.0 if most == float("inf") else 0.0
    if not (value >= least and 0 < value <= most) or value == float("inf"):
        raise ValueError(f"{name} must be {what}, not {raw!r}; correct or unset it")
    return value


def _is_set(env: Mapping[str, str], name: str) -> bool:
    return env.get(name, "").strip().lower() not in ("", "0", "false", "no", "off")

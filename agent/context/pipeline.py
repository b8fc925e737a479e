"""What happens to the window before a model call, as a plan: entries to append, then perhaps a compaction. Pure.

The order is result budget → clearing of old results → compaction; what an earlier step frees is taken off before the next
one decides. Decision: old results are cleared when the prompt cache is cold anyway, or when that alone brings the window
below the trigger, or when no compaction can come; else the compaction works on the whole texts and breaks the prefix once.
"""

from collections.abc import Sequence

from msgspec import Struct

from agent.context.budget import Thresholds
from agent.context.clearing import old_results, result_budget
from agent.context.meter import Meter
from agent.transcript import Assistant, Clearing, Compaction, Entry, undone_keys
from agent.window import Window

CACHE_COLD_MS = 5 * 60 * 1000


class Facts(Struct, frozen=True):
    """What a plan depends on besides branch, window and meter."""

    now_ms: int
    """Wall clock, as in the entries."""
    thresholds: Thresholds
    may_compact: bool = True
    """False: no automatic compaction can come now, for instance because its guard stopped it."""


class Plan(Struct, frozen=True):
    """Payloads to append in this order, then whether the window has to be compacted."""

    payloads: tuple[Clearing, ...]
    compact: bool
    why: str
    used_tokens: int
    """Of the next request once the payloads are appended."""


def plan(branch: Sequence[Entry], window: Window, meter: Meter, facts: Facts) -> Plan:
    """What has to be done before the next model call."""
    limits = facts.thresholds
    used = meter.used().tokens
    cold = _cache_age_ms(branch, facts.now_ms) >= CACHE_COLD_MS
    payloads: list[Clearing] = []
    reasons: list[str] = []
    if (budget := result_budget(branch, window, meter, limits)) is not None:
        payloads.append(budget.clearing)
        used -= budget.freed_tokens
        reasons.append(f"the results of one step were shortened by {budget.freed_tokens:,} tokens")
    trigger = limits.trigger
    if used >= trigger and _was_undone(branch):
        trigger = limits.blocking
    may_compact = facts.may_compact and limits.auto_compact
    if cold or used >= limits.trigger:
        clear = old_results(branch, window, meter, limits)
        if clear is not None and (cold or used - clear.freed_tokens < limits.trigger or not may_compact):
            payloads.append(clear.clearing)
            used -= clear.freed_tokens
            reasons.append(f"old tool results of {clear.freed_tokens:,} tokens were cleared")
    compact = may_compact and used >= trigger
    if compact:
        reasons.append(f"{used:,} tokens are used and the trigger is {trigger:,}")
    return Plan(tuple(payloads), compact, "; ".join(reasons), used)


def _cache_age_ms(branch: Sequence[Entry], now_ms: int) -> int:
    """Time since the last reply, when the provider saw the prefix last; 0 if there was none or the clock went back."""
    newest = next((entry for entry in reversed(branch) if isinstance(entry.payload, Assistant)), None)
    return 0 if newest is None else max(0, now_ms - newest.time_ms)


def _was_undone(branch: Sequence[Entry]) -> bool:
    """Whether the newest compaction was an automatic one that the user took back."""
    newest = next((entry for entry in reversed(branch) if isinstance(entry.payload, Compaction)), None)
    if newest is None or not isinstance(newest.payload, Compaction) or newest.payload.trigger == "manual":
        return False
    return newest.key in undone_keys(branch)

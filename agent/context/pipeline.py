"""What happens to the window before a model call, as a plan: entries to append, then perhaps a compaction. Pure.

The order is result budget → snip → clear → collapse → compaction; what an earlier step frees is taken off before the next
one decides, and nothing walks the history unless the trigger is reached or the prompt cache is cold. Decisions: from the
trigger on the three means between are one batch, which ends as soon as there is room again; it is appended if it brings
the window below the trigger, and then nothing is compacted, or if no compaction can come; else the compaction works on the
whole texts and breaks the prefix once. A batch that frees less than a fiftieth of the window is not worth a broken prefix.
A cold cache alone only clears. What is pinned, and what the user restored by an undo, is never touched. A server whose
reports never spoke of cached tokens has no cache that could be cold.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from agent.context.budget import ContextSettings, Thresholds
from agent.context.clearing import Freeing, images_over_limit, old_results, result_budget
from agent.context.collapsing import collapse
from agent.context.meter import Meter
from agent.context.pins import pinned_keys
from agent.context.snipping import snip
from agent.transcript import Assistant, Clearing, Compaction, Entry, undone_keys
from agent.window import Window

CACHE_COLD_MS = 5 * 60 * 1000
"""How long a provider keeps a prefix that nobody asks for (Anthropic 5 minutes, OpenAI 5 to 10; 2026-11)."""
_ROOM_TOKENS = 20_000
_LEAST_SHARE = 50
_REPORTS_LOOKED_AT = 8
_ENTRIES_LOOKED_AT = 200
_Step = Callable[[Collection[int]], Freeing | None]
_WORDS = {
    "budget": "images over the provider's limit of {freed:,} tokens were taken out",
    "snip": "repeated results of {freed:,} tokens were snipped",
    "clear": "old tool results of {freed:,} tokens were cleared",
    "collapse": "old looks at files of {freed:,} tokens were collapsed",
}


class Facts(Struct, frozen=True):
    """What a plan depends on besides branch, window and meter."""

    now_ms: int
    """Wall clock, as in the entries."""
    thresholds: Thresholds
    may_compact: bool = True
    """False: no automatic compaction can come now, for instance because its guard stopped it."""
    settings: ContextSettings = ContextSettings()
    """How much of the end always stays."""
    nothing_at: tuple[int, int] = (0, 0)
    """Generation and used tokens at which nothing worth it could be freed and nothing be compacted. That is not looked for
    again before the window has grown by what a batch has to free."""


class Plan(Struct, frozen=True):
    """Payloads to append in this order, then whether the window has to be compacted."""

    payloads: tuple[Clearing, ...]
    compact: bool
    why: str
    used_tokens: int
    """Of the next request once the payloads are appended."""
    found_nothing: bool = False
    """The window is over its trigger, was looked through for what could be freed, and nothing will be compacted."""


def plan(branch: Sequence[Entry], window: Window, meter: Meter, facts: Facts) -> Plan:
    """What has to be done before the next model call."""
    limits = facts.thresholds
    used = meter.used().tokens
    batch: list[Freeing] = []
    reasons: list[str] = []
    if (budget := result_budget(branch, window, meter, limits)) is not None:
        batch.append(budget)
        used -= budget.freed_tokens
        reasons.append(f"the results of one step were shortened by {budget.freed_tokens:,} tokens")
    if (images := images_over_limit(branch, window, meter)) is not None:
        batch.append(images)
        used -= images.freed_tokens
        reasons.append(_said(images))
    may_compact = facts.may_compact and limits.auto_compact
    looks = not _known_to_have_nothing(window, facts, used)
    room = _room(branch, window, meter, facts, used) if looks else []
    freed = sum(freeing.freed_tokens for freeing in room)
    if room and (used < limits.trigger or used - freed < limits.trigger or not may_compact):
        batch += room
        used -= freed
        reasons += map(_said, room)
    compact = False
    if may_compact and used >= limits.trigger:
        trigger = limits.blocking if _was_undone(branch) else limits.trigger
        if compact := used >= trigger:
            reasons.append(f"{used:,} tokens are used and the trigger is {trigger:,}")
    nothing = looks and not room and not compact and used >= limits.trigger
    return Plan(tuple(freeing.clearing for freeing in batch), compact, "; ".join(reasons), used, nothing)


def _known_to_have_nothing(window: Window, facts: Facts, used: int) -> bool:
    limits, (generation, then) = facts.thresholds, facts.nothing_at
    is_same = generation == window.generation and 0 < then <= used
    return is_same and used < min(limits.blocking, then + limits.effective // _LEAST_SHARE)


def _room(branch: Sequence[Entry], window: Window, meter: Meter, facts: Facts, used: int) -> list[Freeing]:
    """The batch that makes room; empty where it is not needed or not worth it."""
    limits = facts.thresholds

    def clear(spared: Collection[int]) -> Freeing | None:
        return old_results(branch, window, meter, limits, spared)

    steps: tuple[_Step, ...]
    if used >= limits.trigger:
        steps = (
            lambda spared: snip(branch, window, meter, spared),
            clear,
            lambda spared: collapse(branch, window, meter, limits, facts.settings, spared),
        )
    elif _is_cold(branch, facts.now_ms):
        steps = (clear,)
    else:
        return []
    spared = set(_spared(branch, window))
    aim = limits.trigger - min(_ROOM_TOKENS, limits.effective // 8)
    batch: list[Freeing] = []
    freed = 0
    for step in steps:
        if (freeing := step(spared)) is not None:
            batch.append(freeing)
            freed += freeing.freed_tokens
            spared.update(item.key for item in freeing.clearing.items)
            if used - freed < aim:
                break
    return batch if freed >= limits.effective // _LEAST_SHARE else []


def _said(freeing: Freeing) -> str:
    return _WORDS[freeing.clearing.reason].format(freed=freeing.freed_tokens)


def _spared(branch: Sequence[Entry], window: Window) -> Iterator[int]:
    """Keys of entries that stay as they are: what is pinned, and what an undo brought back."""
    if window.pins:
        yield from pinned_keys(branch)
    undone = undone_keys(branch)
    for entry in branch:
        if entry.key in undone and isinstance(entry.payload, Clearing):
            yield from (item.key for item in entry.payload.items)


def _is_cold(branch: Sequence[Entry], now_ms: int) -> bool:
    """Whether the provider has forgotten the prefix: it saw it last with the newest reply. False where it keeps none."""
    recent = islice(reversed(branch), _ENTRIES_LOOKED_AT)
    replies = (entry for entry in recent if isinstance(entry.payload, Assistant))
    newest = next(replies, None)
    if newest is None or now_ms - newest.time_ms < CACHE_COLD_MS:
        return False
    assert isinstance(newest.payload, Assistant)
    model = (newest.payload.provider, newest.payload.model)
    looked_at = 0
    for entry in (newest, *replies):
        reply = entry.payload
        assert isinstance(reply, Assistant)
        if (reply.provider, reply.model) != model or not reply.usage.reported:
            continue
        if reply.usage.cache_read_tokens or reply.usage.cache_write_tokens:
            return True
        looked_at += 1
        if looked_at >= _REPORTS_LOOKED_AT:
            return False
    return False


def _was_undone(branch: Sequence[Entry]) -> bool:
    """Whether the newest compaction was an automatic one that the user took back."""
    newest = next((entry for entry in reversed(branch) if isinstance(entry.payload, Compaction)), None)
    if newest is None or not isinstance(newest.payload, Compaction) or newest.payload.trigger == "manual":
        return False
    return newest.key in undone_keys(branch)

"""Watches the prompt cache: when a provider reads less from it than it should, what changed first, and what that cost.

It compares each request with the last one that was reported, section by section, tool by tool, message by message; values
are frozen, so that they stand for their own digests, and within a generation only what can have changed is looked at.
Decisions: a compaction, clearing, drop, undo or rewind has to break the prefix and only moves the baseline, a change of model,
provider, effort, system or tools is named; where the model is another or the prefix has expired, that is the cause whatever
else changed; a provider that lost an unchanged prefix is named as "provider". Nothing is recorded: agent/costs.py works out
the losses of past sessions from their usage.
"""

from collections import deque
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from agent.context.pipeline import CACHE_COLD_MS
from agent.costs import break_cost_usd, left_in_cache, missing_tokens, speaks_of_cache
from providers.base import ModelRequest
from providers.models import ModelFacts
from providers.types import AssistantMessage, Effort, Message, PromptSection, ToolResultMessage, ToolSpec, Usage

_REMEMBERED = 100
_TOLD_TOKENS = 10_000
"""A break of so many tokens is told when it happens."""
Cause = Literal["system", "tools", "message", "effort", "model", "expired", "provider"]
_CAUSES: dict[Cause, str] = {
    "system": "the system prompt changed",
    "tools": "the tools changed",
    "message": "an earlier message changed",
    "effort": "another effort",
    "model": "another model",
    "expired": "it had expired",
    "provider": "the provider did not have it",
}


class CacheBreak(Struct, frozen=True):
    """Tokens that should have come from the cache and had to be read again."""

    cause: Cause
    name: str
    """What changed: a section, a tool, a message with its entry, "a → b" of models; how long ago, where it expired."""
    missing_tokens: int
    cost_usd: float | None
    """What they cost more than from the cache; None where the price is unknown."""

    @property
    def reason(self) -> str:
        """The cause in words, with what changed."""
        return f"{_CAUSES[self.cause]} ({self.name})" if self.name else _CAUSES[self.cause]


class _Sent(Struct, frozen=True):
    """A request as it left, its messages apart."""

    model: str
    effort: Effort | None
    system: tuple[PromptSection, ...]
    tools: tuple[ToolSpec, ...]
    generation: int


class _Change(Struct, frozen=True):
    cause: Cause
    name: str


class CacheWatch:
    """Follows the requests of one conversation; calls beside it (summaries) are not for it to see. `reset` keeps `breaks`."""

    def __init__(self) -> None:
        self.breaks: deque[CacheBreak] = deque(maxlen=_REMEMBERED)
        """Those of this process, oldest first."""
        self._told: set[Cause] = set()
        self.reset()

    def reset(self) -> None:
        """Forget the baseline: the next reply is compared with nothing."""
        self._sent: _Sent | None = None  # the last request that was reported
        self._messages: list[Message] = []
        self._stable = 0
        self._provider = ""
        self._cached = 0
        self._caches = False
        self._replied_ms = 0
        self._pending: tuple[_Sent, int, list[Message], int] | None = None
        self._change: _Change | None = None
        self._is_new = True
        self._age_ms = 0

    def request(self, request: ModelRequest, now_ms: int, keys: Sequence[tuple[int, ...]] = ()) -> None:
        """Take a request that is about to leave. `keys`: the window's, so that a message can be named by its entry."""
        sent = _Sent(request.model, request.effort, request.system, request.tools, request.generation)
        before = self._sent
        start = self._stable if before is not None and before.generation == sent.generation else 0
        start = min(start, len(request.messages))
        tail = list(request.messages[start:])
        self._age_ms = max(0, now_ms - self._replied_ms)
        self._is_new = before is None
        self._change = None
        if before is not None:
            at = _first_difference(self._messages, start, tail)
            if at is not None and before.generation != sent.generation and before.model == sent.model:
                self._is_new = True  # a compaction, a clearing, an undo: it had to break
            else:
                self._change = _prefix_change(before, sent) or (None if at is None else _message(at, tail, start, keys))
        self._pending = (sent, start, tail, request.stable)

    def reply(self, usage: Usage, facts: ModelFacts, now_ms: int) -> CacheBreak | None:
        """Take the report of the request taken last. None where as much was read from the cache as should be."""
        if self._pending is None or not usage.reported:
            return None
        found = None if self._is_new else self._judge(usage, facts)
        if found is not None:
            self.breaks.append(found)
        sent, start, tail, stable = self._pending
        other = facts.provider != self._provider or (self._sent is not None and self._sent.model != sent.model)
        self._caches = (self._caches and not other) or speaks_of_cache(usage)
        del self._messages[start:]
        self._messages += tail
        self._sent, self._stable, self._pending = sent, stable, None
        self._provider = facts.provider
        self._cached = left_in_cache(usage, facts.api, self._caches)
        self._replied_ms = now_ms
        return found

    def news(self, lost: CacheBreak | None) -> str:
        """What the user is told of a break at once: the first of each cause that is no trifle; empty: nothing."""
        if lost is None or lost.missing_tokens < _TOLD_TOKENS or lost.cause in self._told:
            return ""
        self._told.add(lost.cause)
        cost = "" if not lost.cost_usd else f", ${lost.cost_usd:,.3f} more than from it"
        return f"The prompt cache was lost: {lost.reason}. {lost.missing_tokens:,} tokens were read anew{cost}. /cost lists all."

    def _judge(self, usage: Usage, facts: ModelFacts) -> CacheBreak | None:
        missing = missing_tokens(self._cached, usage)
        if not missing:
            return None
        change = self._cause(facts)
        return CacheBreak(change.cause, change.name, missing, break_cost_usd(facts.price, usage, missing))

    def _cause(self, facts: ModelFacts) -> _Change:
        assert self._sent is not None and self._pending is not None
        before, now = f"{self._provider}/{self._sent.model}", f"{facts.provider}/{self._pending[0].model}"
        if before != now:
            return _Change("model", f"{before} → {now}")
        if self._age_ms >= CACHE_COLD_MS:
            return _Change("expired", f"{self._age_ms // 60_000} minutes")
        return self._change or _Change("provider", facts.provider)


def _first_difference(before: Sequence[Message], start: int, now: Sequence[Message]) -> int | None:
    """Place of the first message of the earlier request that is not in the later one, where both agree up to `start`."""
    for place in range(start, len(before)):
        later = now[place - start] if place - start < len(now) else None
        if later is not before[place] and later != before[place]:
            return place
    return None


def _prefix_change(before: _Sent, now: _Sent) -> _Change | None:
    """In the order of the wire: tools stand before the system, and thinking settings concern the messages."""
    if before.tools is not now.tools and (name := _changed_name(before.tools, now.tools)) is not None:
        return _Change("tools", name)
    if before.system is not now.system and (name := _changed_name(before.system, now.system)) is not None:
        return _Change("system", name)
    if before.effort != now.effort:
        return _Change("effort", f"{before.effort or 'default'} → {now.effort or 'default'}")
    return None


def _changed_name(
    before: Sequence[PromptSection] | Sequence[ToolSpec], now: Sequence[PromptSection] | Sequence[ToolSpec]
) -> str | None:
    """Name of the first item that is another, that is new, or that is gone; None if all are the same."""
    for place in range(max(len(before), len(now))):
        old = before[place] if place < len(before) else None
        new = now[place] if place < len(now) else None
        if old != new:
            item = new if new is not None else old
            assert item is not None
            return item.name
    return None


def _message(at: int, tail: Sequence[Message], start: int, keys: Sequence[tuple[int, ...]]) -> _Change:
    message = tail[at - start] if at - start < len(tail) else None
    role = "tool result" if isinstance(message, ToolResultMessage) else "user message"
    if isinstance(message, AssistantMessage):
        role = "reply"
    entry = f", entry {keys[at][0]}" if at < len(keys) and keys[at] else ""
    return _Change("message", f"{role} {at + 1}{entry}")

"""The calls for a summary: one in the shared form if that fits, else the transcript part by part, each updating the last.

`ask` is the only way out. What it may take: one call in the shared form; for each part one call, one more at the lowest
reasoning level if the output limit cut it off (I13), and up to three with less transcript if the provider finds it too
long (C4a). Where the provider names its limit, the parts become smaller and nothing is left out. Decisions: a part that is
not the last may be cut off, since the next call brings it up to date; a transcript that is a little longer than one
request is shortened evenly instead of paid for twice.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from agent.context.compaction_values import Ask, CallEstimate, CompactionInputs, Draft, Progress, Summary
from agent.context.render import entry_index, render
from agent.context.rounds import Round, drop_oldest, rounds_of, take_part
from agent.context.shorten import Count, cut_middle
from agent.context.summary import (
    Reply,
    fault,
    lower_effort,
    rendered_ask,
    rendered_request,
    shared_ask,
    shared_request,
    summary_system,
)
from providers.base import ModelRequest
from providers.errors import ContextOverflowError, ProviderError
from providers.types import Effort, Usage

_LEAST_PART_TOKENS = 200
_MOST_INDEX_TOKENS = 1_200
_WRAPPER_TOKENS = 60
_TOO_LONG_RETRIES = 3
_LONGER = 1.25
_LONGER_AFTER_OVERFLOW = 2.5
_NO_ROOM = "the part to summarise does not fit into one request"


async def summarise(
    inputs: CompactionInputs, draft: Draft, ask: Ask, progress: Progress = lambda done, calls: None
) -> Summary:
    """Ask for the summary. Nothing is changed, whatever happens; a cancellation goes through.

    Whatever the provider does wrong is in the summary's `fault`.
    """
    calls = _Calls(ask, _efforts(inputs))
    limits = _Limits.of(inputs, draft)
    request = shared_form(inputs, draft)
    try:
        if request is not None:
            progress(0, 1)
            try:
                reply = await calls.ask(request)
            except ContextOverflowError as error:
                limits = limits.after_overflow(error.window_tokens, inputs.meter.used().tokens)
            else:
                progress(1, 1)
                return calls.summary(reply)
        return await _Parts(inputs, draft, limits, calls, progress).run()
    except ProviderError as error:
        return calls.failed(f"the summary failed: {error.message}", error.remedy)


def estimate(inputs: CompactionInputs, draft: Draft) -> CallEstimate:
    """How many calls the summary takes and how many tokens these have at most, retries aside. Asks nobody."""
    request = shared_form(inputs, draft)
    limits = _Limits.of(inputs, draft)
    if request is not None:
        index = _shared_ask(inputs, draft)
        return CallEstimate(1, inputs.meter.used().tokens + inputs.meter.count(index), draft.output_cap)
    queue = deque(_rounds(inputs, draft))
    calls = tokens = 0
    previous = limits.previous_tokens(draft.previous)
    while queue:
        room, around = limits.room_for(previous), limits.around + previous
        if room < _LEAST_PART_TOKENS:
            return CallEstimate(0, 0, 0)
        part = _next_part(queue, room, limits)
        calls += 1
        tokens += around + min(room, sum(item.tokens for item in part))
        previous = limits.output_cap
    return CallEstimate(calls, tokens, calls * limits.output_cap)


def shared_form(inputs: CompactionInputs, draft: Draft) -> ModelRequest | None:
    """The request in the shared form; None if it does not fit the context window, or another model is to answer."""
    if inputs.trigger == "overflow" or inputs.summary_facts is not None:
        return None
    ask = _shared_ask(inputs, draft)
    needed = inputs.meter.used().tokens + inputs.meter.count(ask) + draft.output_cap
    if needed > inputs.thresholds.context_window:
        return None
    return shared_request(inputs.request, ask, draft.output_cap)


def _shared_ask(inputs: CompactionInputs, draft: Draft) -> str:
    most = min(_MOST_INDEX_TOKENS, inputs.thresholds.context_window // 25)
    pieces = (piece for item in _rounds(inputs, draft) for piece in item.pieces)
    index = entry_index(pieces, most, inputs.meter.count)
    return shared_ask(draft.previous, inputs.focus, draft.output_cap, index, draft.first_replaced)


def _rounds(inputs: CompactionInputs, draft: Draft) -> list[Round]:
    attached = [item.name for item in inputs.attachments if item.kind == "file"]
    return rounds_of(inputs.branch, inputs.window, draft.cut, inputs.meter.all_message_tokens(), attached)


def _efforts(inputs: CompactionInputs) -> tuple[Effort, ...]:
    return (inputs.summary_facts or inputs.facts).efforts


def _next_part(queue: deque[Round], room: int, limits: "_Limits") -> list[Round]:
    if sum(item.tokens for item in queue) > room * limits.longer:
        return take_part(queue, room)
    part = list(queue)
    queue.clear()
    return part


# --------------------------------------------------------------------------- sizes


class _Limits(Struct, frozen=True):
    """What one rendered request may have, in tokens."""

    window: int
    output_cap: int
    around: int
    """The request for the summary, the system prompt and what joins the pieces."""
    most: int
    """Of transcript, whatever the window."""
    longer: float
    """How many times longer than there is room a transcript may be to be shortened evenly."""
    count: Count

    @staticmethod
    def of(inputs: CompactionInputs, draft: Draft) -> "_Limits":
        meter, other = inputs.meter, inputs.summary_facts
        window = inputs.thresholds.context_window if other is None else other.context_window_tokens
        cap = draft.output_cap
        if other is not None:
            cap = max(1, min(cap, other.max_output_tokens, window // 5))
        ask = rendered_ask("x", inputs.focus, cap, 9, more=True)
        around = meter.count(ask) + meter.count(summary_system()[0].text) + _WRAPPER_TOKENS
        limits = _Limits(window, cap, around, window, _LONGER, meter.count)
        return limits.after_overflow(None, meter.used().tokens) if inputs.trigger == "overflow" else limits

    def after_overflow(self, named: int | None, used: int) -> "_Limits":
        """The provider's window is smaller than believed: as it named it, or half of what was too long."""
        if named is not None and named < self.window:
            return replace(self, window=named)
        return replace(self, most=min(self.most, used // 2), longer=_LONGER_AFTER_OVERFLOW)

    def room_for(self, previous_tokens: int) -> int:
        """Tokens of transcript in one request."""
        free = self.window - self.window // 20 - self.output_cap - self.around - previous_tokens
        return min(self.most, free)

    def previous_tokens(self, previous: str) -> int:
        return min(self.count(previous), self.most_previous)

    @property
    def most_previous(self) -> int:
        """An earlier summary may come from a model with a much larger window."""
        return max(self.output_cap, self.window // 4)


# --------------------------------------------------------------------------- calls


class _Calls:
    """Asks, and adds up what it cost."""

    def __init__(self, ask: Ask, efforts: tuple[Effort, ...]) -> None:
        self._ask = ask
        self._efforts = efforts
        self._lowest: Effort | None = None  # once a summary was cut off, later calls begin there
        self._usage = Usage()
        self._cost: float | None = None
        self._made = 0

    async def ask(self, request: ModelRequest) -> Reply:
        """The reply; asked for once more at the lowest reasoning level if the output limit cut it off.

        Raises:
            ProviderError: as `ask` does.
        """
        if self._lowest is not None:
            request = replace(request, effort=self._lowest)
        reply = await self._once(request)
        lower = lower_effort(request.effort, self._efforts, reply.usage.thinking_tokens > 0)
        if reply.stop_reason != "max_tokens" or reply.tool_calls or lower is None:
            return reply
        self._lowest = lower
        await asyncio.sleep(0)  # a cancellation that came meanwhile is raised here, before another call is paid for
        return await self._once(replace(request, effort=lower))

    async def _once(self, request: ModelRequest) -> Reply:
        self._made += 1
        reply = await self._ask(request)
        self._usage += reply.usage
        if reply.cost_usd is not None:
            self._cost = (self._cost or 0.0) + reply.cost_usd
        return reply

    def summary(self, reply: Reply) -> Summary:
        return Summary(reply.text.strip(), fault(reply), self._usage, self._cost, calls=self._made)

    def failed(self, reason: str, remedy: str = "") -> Summary:
        return Summary("", reason, self._usage, self._cost, remedy, self._made)


class _Parts:
    """The rendered form: takes part after part of the transcript and asks to bring the summary up to date with it."""

    def __init__(
        self, inputs: CompactionInputs, draft: Draft, limits: _Limits, calls: _Calls, progress: Progress
    ) -> None:
        self._inputs = inputs
        self._limits = limits
        self._calls = calls
        self._progress = progress
        self._queue = deque(_rounds(inputs, draft))
        self._previous = draft.previous
        self._done = 0

    async def run(self) -> Summary:
        while True:
            room = self._room()
            if room < _LEAST_PART_TOKENS:
                return self._calls.failed(_NO_ROOM)
            self._tell(room)
            reply = await self._ask(_next_part(self._queue, room, self._limits))
            self._done += 1
            if not self._queue:
                self._progress(self._done, self._done)
                return self._calls.summary(reply)
            wrong = fault(reply)
            if wrong is not None and not (reply.stop_reason == "max_tokens" and reply.text.strip()):
                return self._calls.failed(wrong)
            self._previous = reply.text.strip()

    def _room(self) -> int:
        return self._limits.room_for(self._limits.previous_tokens(self._previous))

    def _tell(self, room: int) -> None:
        left = sum(item.tokens for item in self._queue)
        parts = 1 if left <= room * self._limits.longer else -(-left // room)
        self._progress(self._done, self._done + parts)

    async def _ask(self, part: list[Round]) -> Reply:
        for left in range(_TOO_LONG_RETRIES, -1, -1):
            try:
                return await self._calls.ask(await self._request(part))
            except ContextOverflowError as error:
                if left == 0:
                    raise
                part = self._smaller(part, error.window_tokens)
        raise AssertionError("unreachable")

    def _smaller(self, part: list[Round], named: int | None) -> list[Round]:
        """Less of a part that the provider found too long."""
        if named is not None and named < self._limits.window:
            self._limits = replace(self._limits, window=named)
            if (room := self._room()) >= _LEAST_PART_TOKENS:
                self._queue.extendleft(reversed(part))
                return take_part(self._queue, room)
        tokens = min(self._room(), sum(item.tokens for item in part))
        self._limits = replace(self._limits, most=max(_LEAST_PART_TOKENS, tokens * 4 // 5))
        return drop_oldest(part, 0.2)

    async def _request(self, part: Sequence[Round]) -> ModelRequest:
        inputs, limits, count = self._inputs, self._limits, self._limits.count
        pieces = [piece for item in part for piece in item.pieces]
        # In a thread, since texts are counted and cut here.
        transcript = await asyncio.to_thread(render, pieces, self._room(), count)
        previous = cut_middle(self._previous, limits.most_previous, count, lambda n: f"[… about {n:,} tokens …]")
        ask = rendered_ask(previous, inputs.focus, limits.output_cap, self._done + 1, more=bool(self._queue))
        other = inputs.summary_facts
        return rendered_request(
            inputs.request.model if other is None else other.id,
            inputs.request.effort if other is None else None,
            transcript,
            previous,
            ask,
            limits.output_cap,
        )

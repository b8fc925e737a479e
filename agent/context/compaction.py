"""One compaction: cut, record, summary, check, on values alone. Whoever asks for it appends the result; a failure is a value.

The model is asked through `ask`, once in the shared form if that fits, else in the rendered form; once more at the lowest
reasoning level if the output limit cut the summary off, or in the rendered form if the provider found the shared one too
long. Never more than two calls. No call at all where it could not help: nothing to cut, or a floor over the trigger.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from agent.context import tokens
from agent.context.budget import ContextSettings, Thresholds, summary_output_cap
from agent.context.cut import Cut, NoCut, find_cut, smallest_tail_tokens
from agent.context.guard import CompactionGuard
from agent.context.meter import Meter
from agent.context.record import Record, make_record
from agent.context.render import render
from agent.context.summary import (
    Reply,
    ask_text,
    fault,
    lower_effort,
    message_text,
    rendered_request,
    shared_request,
    summary_system,
)
from agent.transcript import Compaction, Entry
from agent.window import Window
from providers.base import ModelRequest
from providers.errors import ContextOverflowError, ProviderError
from providers.models import ModelFacts
from providers.types import Usage

__all__ = ["Ask", "Compaction", "CompactionGuard", "CompactionInputs", "NotCompacted", "Reply", "Trigger", "compact"]

Trigger = Literal["auto", "manual", "overflow"]
Ask = Callable[[ModelRequest], Awaitable[Reply]]
"""Sends one request and gives the whole reply; may raise `ProviderError`."""

_LEAST_RENDERED_TOKENS = 200
_MOST_FACTS_TOKENS = 4_000


class CompactionInputs(Struct, frozen=True):
    """Everything a compaction depends on. `branch` and `window` may be live: they must not grow meanwhile."""

    branch: Sequence[Entry]
    window: Window
    meter: Meter
    thresholds: Thresholds
    settings: ContextSettings
    facts: ModelFacts
    request: ModelRequest
    """The conversation's own request, as it would be sent now."""
    trigger: Trigger
    focus: str = ""
    """What the user wants the summary to look after."""


class NotCompacted(Struct, frozen=True):
    """Nothing is to be changed."""

    reason: str
    failed: bool
    """False where there was nothing to do; True counts for the guard."""
    final: bool = False
    """Trying again cannot help before model, instructions or tools are others."""
    remedy: str = ""
    usage: Usage = Usage()
    """Of the calls that were made in vain."""
    cost_usd: float | None = None


class _Draft(Struct, frozen=True):
    """What is known before the model is asked."""

    cut: Cut
    output_cap: int
    record: Record
    previous: str


class _Asked(Struct, frozen=True):
    """What the calls gave: a summary, or why there is none."""

    summary: str
    fault: str | None
    usage: Usage
    cost_usd: float | None
    remedy: str = ""


async def compact(inputs: CompactionInputs, ask: Ask) -> Compaction | NotCompacted:
    """The compaction's payload, ready to be appended, or why nothing is changed. Cancellation goes through."""
    draft = _prepare(inputs)
    if isinstance(draft, NotCompacted):
        return draft
    asked = await _ask(inputs, draft, ask)
    if asked.fault is not None:
        return NotCompacted(
            f"{asked.fault}; nothing was changed",
            True,
            remedy=asked.remedy,
            usage=asked.usage,
            cost_usd=asked.cost_usd,
        )
    return _finish(inputs, draft, asked)


# --------------------------------------------------------------------------- before the call


def _prepare(inputs: CompactionInputs) -> _Draft | NotCompacted:
    limits, meter = inputs.thresholds, inputs.meter
    if not limits.can_compact:
        return NotCompacted("compaction is switched off (CLAW_DISABLE_COMPACT)", False)
    # What the provider found too long is a better limit than what was believed.
    limit = limits.trigger if inputs.trigger != "overflow" else min(limits.trigger, meter.used().tokens)
    room = limit - meter.floor_tokens
    sizes = meter.all_message_tokens()
    manual = inputs.trigger == "manual"
    if room <= 0 or (not manual and smallest_tail_tokens(inputs.window, sizes) >= room):
        return _hopeless(inputs, sizes, final=room <= 0)
    cut = find_cut(
        inputs.window,
        sizes,
        room_tokens=room,
        keep_tokens=0 if manual else inputs.settings.keep_recent_tokens,
        preserve_recent=inputs.settings.preserve_recent,
    )
    if isinstance(cut, NoCut):
        # Automatically it is tried because the window is too full, and then nothing to cut is a failure.
        return NotCompacted(cut.reason, not manual)
    record = make_record(
        inputs.branch,
        cut.first_kept,
        words_tokens=min(inputs.settings.user_words_tokens, room // 5),
        facts_tokens=min(_MOST_FACTS_TOKENS, room // 10),
        count=meter.count,
    )
    if meter.count(record.text) >= sum(sizes[: cut.index]):
        return NotCompacted("the user's own words are nearly all there is to replace, so it would free nothing", True)
    live = None if inputs.window.compaction is None else inputs.window.compaction.payload
    previous = live.summary if isinstance(live, Compaction) else ""
    return _Draft(cut, summary_output_cap(limits, inputs.facts.max_output_tokens, room), record, previous)


def _hopeless(inputs: CompactionInputs, sizes: Sequence[int], final: bool) -> NotCompacted:
    """No summary can bring the window below the trigger: say what fills it and what helps.

    It is not `final` where only the newest message is too large, since a later one may not be.
    """
    prefix, meter = inputs.window.prefix, inputs.meter
    counter = meter.counter
    shares = [(meter.calibrated(tokens.section_tokens(counter, s)), s.name) for s in prefix.sections]
    shares.append((meter.calibrated(sum(tokens.tool_tokens(counter, t) for t in prefix.tools)), "tools"))
    shares.append((smallest_tail_tokens(inputs.window, sizes), "the newest message with its results"))
    files = sorted(prefix.instruction_files, key=lambda file: -file.tokens)[:3]
    biggest = ", ".join(f"{name} {size:,}" for size, name in sorted(shares, reverse=True)[:3] if size)
    named = "".join(f"; instruction file {file.path} {file.tokens:,}" for file in files if file.tokens)
    return NotCompacted(
        f"a summary cannot help: what always stays fills the window up to the trigger of "
        f"{inputs.thresholds.trigger:,} tokens. The biggest parts, in tokens: {biggest}{named}",
        True,
        final=final,
        remedy="Shorten the instruction files or use --no-instructions, "
        "or choose a model with a larger context window.",
    )


# --------------------------------------------------------------------------- the call


async def _ask(inputs: CompactionInputs, draft: _Draft, ask: Ask) -> _Asked:
    request = _shared(inputs, draft) if inputs.trigger != "overflow" else None
    shared = request is not None
    request = request or _rendered(inputs, draft)
    if request is None:
        return _Asked("", "the part to summarise does not fit into one request", Usage(), None)
    try:
        reply = await ask(request)
    except ContextOverflowError as error:
        request = _rendered(inputs, draft, share=1 if shared else 2)
        return _provider_fault(error) if request is None else await _ask_last(request, None, ask)
    except ProviderError as error:
        return _provider_fault(error)
    lower = lower_effort(request.effort, inputs.facts.efforts, reply.usage.thinking_tokens > 0)
    if reply.stop_reason == "max_tokens" and not reply.tool_calls and lower is not None:
        await asyncio.sleep(0)  # a cancellation that came meanwhile is raised here, before another call is paid for
        return await _ask_last(replace(request, effort=lower), reply, ask)
    return _judged(reply, None)


async def _ask_last(request: ModelRequest, before: Reply | None, ask: Ask) -> _Asked:
    try:
        return _judged(await ask(request), before)
    except ProviderError as error:
        return _provider_fault(error, before)


def _judged(reply: Reply, before: Reply | None) -> _Asked:
    usage, cost = _spent(reply, before)
    return _Asked(reply.text.strip(), fault(reply), usage, cost)


def _provider_fault(error: ProviderError, before: Reply | None = None) -> _Asked:
    usage, cost = (Usage(), None) if before is None else (before.usage, before.cost_usd)
    return _Asked("", f"the summary failed: {error.message}", usage, cost, error.remedy)


def _spent(reply: Reply, before: Reply | None) -> tuple[Usage, float | None]:
    if before is None:
        return reply.usage, reply.cost_usd
    costs = [cost for cost in (before.cost_usd, reply.cost_usd) if cost is not None]
    return before.usage + reply.usage, sum(costs) if costs else None


def _shared(inputs: CompactionInputs, draft: _Draft) -> ModelRequest | None:
    """The shared form, or None if it does not fit the context window."""
    ask = ask_text("shared", draft.previous, inputs.focus, draft.output_cap)
    needed = inputs.meter.used().tokens + inputs.meter.count(ask) + draft.output_cap
    if needed > inputs.thresholds.context_window:
        return None
    return shared_request(inputs.request, ask, draft.output_cap)


def _rendered(inputs: CompactionInputs, draft: _Draft, share: int = 1) -> ModelRequest | None:
    """The rendered form of what is cut off, or None if not even a shortened transcript fits.

    After an overflow the context window is smaller than believed: the transcript is kept to half of what was too long, and
    to one part in `share` of that.
    """
    meter, window = inputs.meter, inputs.thresholds.context_window
    ask = ask_text("rendered", draft.previous, inputs.focus, draft.output_cap)
    around = meter.count(ask) + meter.count(draft.previous) + meter.count(summary_system()[0].text)
    room = window - window // 20 - draft.output_cap - around
    if inputs.trigger == "overflow":
        room = min(room, meter.used().tokens // 2)
    room //= share
    if room < _LEAST_RENDERED_TOKENS:
        return None
    messages = inputs.window.messages[draft.cut.first_replaced : draft.cut.index]
    transcript = render(messages, room, meter.count)
    return rendered_request(inputs.request, transcript, draft.previous, ask, draft.output_cap)


# --------------------------------------------------------------------------- after the call


def _finish(inputs: CompactionInputs, draft: _Draft, asked: _Asked) -> Compaction | NotCompacted:
    meter, branch = inputs.meter, inputs.branch
    payload = Compaction(
        text=message_text(draft.record.text, asked.summary, draft.record.has_request),
        summary=asked.summary,
        first_kept=draft.cut.first_kept,
        trigger=inputs.trigger,
        tokens_before=meter.used().tokens,
        tokens_after=0,
        usage=asked.usage,
        cost_usd=asked.cost_usd,
        focus=inputs.focus,
    )
    head = branch[-1]
    window = Window([*branch, Entry(head.key + 1, head.key, head.time_ms, payload)])
    after = meter.preview(window)
    if after >= meter.preview(inputs.window):
        reason = "the summary is not shorter than what it replaces; nothing was changed"
        return NotCompacted(reason, True, usage=asked.usage, cost_usd=asked.cost_usd)
    return replace(payload, tokens_after=after)

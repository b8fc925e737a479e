"""`run_turn`: the loop, nothing else. Ask the model, run its tools, until it is done.

Everything it does goes through a `TurnHost`, so that policy (what a window holds, what is allowed, what is kept) never
moves in here. Whatever happens, every open call is answered before the one `TurnEnded`.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from itertools import count
from typing import Protocol

from agent.events import Emit, Notice, StepStarted, TurnEnded, TurnEndReason, TurnStarted
from agent.reactions import Compact, End, GoOn, Reaction, RefuseCalls, Resend, RunCalls, Tried, react
from agent.transcript import Assistant
from providers.base import ModelRequest
from providers.errors import ContextOverflowError, ProviderError
from providers.types import ToolCall


class ContextFullError(Exception):
    """The window does not fit, and compacting cannot help; the text says what to do."""


class TurnHost(Protocol):
    """What the loop needs of a session."""

    @property
    def model(self) -> str: ...

    async def prepare(self) -> ModelRequest:
        """Plan and append what the pipeline wants, then the request for the window as it is now, on disk.

        Raises:
            ContextFullError: it cannot fit.
        """
        ...

    async def reply(self, request: ModelRequest) -> Assistant:
        """Stream one reply and append it; on failure or cancellation what came so far is appended as interrupted.

        Raises:
            ProviderError: after all retries.
        """
        ...

    async def run_calls(self, calls: Sequence[ToolCall]) -> None:
        """Run the calls and append a result for each, also when cancelled."""
        ...

    def refuse_calls(self, calls: Sequence[ToolCall], text: str) -> None:
        """Append an error result for each call."""
        ...

    def go_on(self, text: str) -> None:
        """Append a synthetic user message."""
        ...

    def raise_output_cap(self) -> None: ...

    async def compact_overflow(self) -> bool:
        """Compact because the provider said that the request is too long. False: nothing was gained."""
        ...

    def take_out_attachment(self, error: ProviderError) -> bool:
        """Take out the image or file that the provider refused as too large. False: the error does not say that, or there
        is none."""
        ...

    def deliver_steering(self) -> bool:
        """Append the messages that came in while working. False: there were none."""
        ...

    def over_budget(self) -> bool:
        """Whether the session has cost what it may cost."""
        ...

    def close_calls(self) -> None:
        """Append an error result for each call that nothing answered."""
        ...

    async def settle(self) -> None:
        """Wait until everything is on disk."""
        ...


async def run_turn(host: TurnHost, started: TurnStarted, emit: Emit, max_steps: int | None = None) -> TurnEnded:
    """Run one turn and say how it ended. Cancelling the task is how a turn is interrupted; it is not raised again."""
    emit(started)
    ended = TurnEnded("interrupted")
    try:
        ended = await _run_steps(host, emit, max_steps)
    except (asyncio.CancelledError, ContextFullError, ProviderError) as error:
        ended = _ended_by(error)
        host.close_calls()
        with contextlib.suppress(asyncio.CancelledError):
            await host.settle()
    except Exception:
        host.close_calls()
        raise
    finally:
        emit(ended)
    return ended


def _ended_by(error: BaseException) -> TurnEnded:
    match error:
        case ContextFullError():
            return TurnEnded("context_full", str(error))
        case ProviderError():
            reason: TurnEndReason = "context_full" if isinstance(error, ContextOverflowError) else "provider_error"
            return TurnEnded(reason, f"{error.message}\n{error.remedy}".strip())
    return TurnEnded("interrupted")


async def _run_steps(host: TurnHost, emit: Emit, max_steps: int | None) -> TurnEnded:
    tried = Tried()
    for step in count(1):
        if (ended := _limit_reached(host, step, max_steps)) is not None:
            await host.settle()
            return ended
        request = await host.prepare()
        emit(StepStarted(step, host.model))
        try:
            reply = await host.reply(request)
        except ProviderError as error:
            if not await _made_smaller(host, error, tried):
                raise
            continue
        reaction = react(reply, tried)
        if not isinstance(reaction, Compact):
            tried.succeeded()
        ended = await _carry_out(host, emit, reaction)
        if ended is not None:
            host.close_calls()
            # Before the last look at what came in meanwhile: nothing may be awaited between that look and the end.
            await host.settle()
        if host.deliver_steering() or ended is None:
            continue
        return ended
    raise AssertionError("unreachable")


async def _made_smaller(host: TurnHost, error: ProviderError, tried: Tried) -> bool:
    """Whether a refused request was made smaller, so that it is sent once more: each means once until a reply comes."""
    if not tried.attachments and host.take_out_attachment(error):
        tried.attachments += 1
        return True
    if isinstance(error, ContextOverflowError) and not tried.compactions:
        tried.compactions += 1
        return await host.compact_overflow()
    return False


def _limit_reached(host: TurnHost, step: int, max_steps: int | None) -> TurnEnded | None:
    if max_steps is not None and step > max_steps:
        return TurnEnded("max_turns", f"Stopped after {max_steps} model calls (--max-turns).")
    if host.over_budget():
        return TurnEnded("max_cost", "Stopped: the session has reached its cost limit (--max-cost).")
    return None


async def _carry_out(host: TurnHost, emit: Emit, reaction: Reaction) -> TurnEnded | None:
    """Do what the reply asks for. None: the turn goes on."""
    match reaction:
        case RunCalls(calls, warning):
            _warn(emit, warning)
            await host.run_calls(calls)
        case RefuseCalls(calls, result, text):
            host.refuse_calls(calls, result)
            if text:
                host.raise_output_cap()
                host.go_on(text)
        case GoOn(text, larger_cap):
            if larger_cap:
                host.raise_output_cap()
            host.go_on(text)
        case Resend():
            pass
        case Compact():
            if not await host.compact_overflow():
                return TurnEnded("context_full", "The context window is full and could not be compacted.")
        case End(reason, warning):
            if reason == "done":
                _warn(emit, warning)
            return TurnEnded(reason, "" if reason == "done" else warning)
    return None


def _warn(emit: Emit, text: str) -> None:
    if text:
        emit(Notice("warning", text))

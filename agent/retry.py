"""The only retries and time-outs of a model call: streams one reply, tries again where that helps, and says so.

A reply that broke in the middle starts anew, which is safe since no tool runs before a reply is complete. The watchdog
ends a stream that fell silent (`idle_timeout_s` without a byte), or that stays busy with nothing (`progress_timeout_s`
without an event other than pings). Waits, clock and chance are injected; cancelling ends all of it at once.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Container
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from agent.events import RetryScheduled
from providers.assembler import Assembler
from providers.base import ModelRequest, Provider
from providers.errors import ProviderError, StreamBrokenError
from providers.types import Ping, StreamEvent, UsageReported

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


_NO_PROGRESS = (Ping, UsageReported)
"""Some servers repeat their report while nothing else comes."""


class RetryPolicy(Struct, frozen=True):
    max_attempts: int = 6
    base_delay_s: float = 1.0
    """Upper end of the first wait; it doubles with each further one. The wait is drawn evenly from 0 up to that end."""
    max_delay_s: float = 32.0
    retry_after_cap_s: float = 60.0
    """A provider that asks for a longer wait gets none: the user is told instead."""
    idle_timeout_s: float = 120.0
    progress_timeout_s: float = 900.0


class Clock(Struct, frozen=True):
    """Time and chance, so that tests need neither."""

    now: Callable[[], float] = time.monotonic
    """Seconds, never going back."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random
    """From 0.0 up to but not 1.0."""


class AssemblerHolder:
    """Keeps the reply of the running attempt within reach of whoever cancels it."""

    def __init__(self, taken: Container[str] = ()) -> None:
        """`taken` are ids of calls that the conversation has already."""
        self._taken = taken
        self.begin()

    def begin(self) -> None:
        """Start anew."""
        self.current = Assembler(self._taken)


async def stream_with_retry(
    provider: Provider,
    request: ModelRequest,
    *,
    policy: RetryPolicy,
    on_event: Callable[[StreamEvent], None],
    emit_retry: Callable[[RetryScheduled], None],
    on_restart: Callable[[], None],
    clock: Clock | None = None,
    holder: AssemblerHolder | None = None,
) -> Assembler:
    """Stream one reply to its end, and return it complete.

    `on_event` sees every event right after it was folded into `holder.current`. `on_restart` is called just before an
    attempt that starts the reply anew, when the one before had already shown something: what was shown is void.

    Raises:
        ProviderError: it cannot be helped, or not within `policy.max_attempts`; `partial` is what came of the last attempt.
    """
    clock = clock or Clock()
    holder = holder or AssemblerHolder()
    for attempt in range(1, policy.max_attempts + 1):
        if attempt > 1 and not holder.current.empty:
            on_restart()
        holder.begin()
        try:
            await _attempt(provider, request, holder.current, on_event, policy, clock)
        except ProviderError as error:
            error.partial = None if holder.current.empty else holder.current
            delay_s = _delay_s(error, attempt, policy, clock)
            if delay_s is None:
                raise
            emit_retry(RetryScheduled(error.message, delay_s, attempt + 1, policy.max_attempts))
            await clock.sleep(delay_s)
        else:
            return holder.current
    raise AssertionError("unreachable: the last attempt returns or raises")


def _delay_s(error: ProviderError, attempt: int, policy: RetryPolicy, clock: Clock) -> float | None:
    """How long to wait before the next attempt; None if there is none. Says in the error why, where that is not plain."""
    if not error.retryable:
        return None
    asked_s = error.retry_after_s
    if asked_s is not None and asked_s > policy.retry_after_cap_s:
        error.remedy = (
            f"The provider asks to wait {asked_s:.0f} s: try again then, or choose another model with /model."
        )
        return None
    if attempt >= policy.max_attempts:
        return None
    if asked_s is not None:
        return asked_s
    return clock.random() * min(policy.max_delay_s, policy.base_delay_s * 2.0 ** (attempt - 1))


async def _attempt(
    provider: Provider,
    request: ModelRequest,
    assembler: Assembler,
    on_event: Callable[[StreamEvent], None],
    policy: RetryPolicy,
    clock: Clock,
) -> None:
    """Read one stream to its end under the watchdog. Whatever happens, both are over when this returns."""
    watchdog = _Watchdog(policy, clock)
    reading = asyncio.ensure_future(_read(provider, request, assembler, on_event, watchdog))
    watching = asyncio.ensure_future(watchdog.watch())
    try:
        await asyncio.wait({reading, watching}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        broken = None if reading.done() or watching.cancelled() or not watching.done() else watching.exception()
        reading.cancel()
        watching.cancel()
        await asyncio.wait({reading, watching})
        if not watching.cancelled():
            watching.exception()
        failed = StreamBrokenError("The reply was cancelled.") if reading.cancelled() else reading.exception()
    if broken is not None:
        raise broken
    if failed is not None:
        raise failed


async def _read(
    provider: Provider,
    request: ModelRequest,
    assembler: Assembler,
    on_event: Callable[[StreamEvent], None],
    watchdog: "_Watchdog",
) -> None:
    # An adapter's stream is an async generator: closing it closes the connection.
    stream = cast("AsyncGenerator[StreamEvent, None]", provider.stream(request))
    async with aclosing(stream):
        async for event in stream:
            watchdog.saw(event)
            assembler.feed(event)
            on_event(event)
    if not assembler.completed:
        raise StreamBrokenError("The reply ended before it was complete.")


class _Watchdog:
    """Raises when a stream gives no sign of life, or none of progress, for too long.

    It sleeps until the earliest moment at which that can be, so that an event costs it two assignments.
    """

    def __init__(self, policy: RetryPolicy, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._alive_s = self._progress_s = clock.now()

    def saw(self, event: StreamEvent) -> None:
        self._alive_s = self._clock.now()
        if type(event) not in _NO_PROGRESS:
            self._progress_s = self._alive_s

    async def watch(self) -> None:
        """Wait until it is too late.

        Raises:
            StreamBrokenError: always.
        """
        policy = self._policy
        while True:
            now = self._clock.now()
            idle_left_s = self._alive_s + policy.idle_timeout_s - now
            progress_left_s = self._progress_s + policy.progress_timeout_s - now
            if idle_left_s <= 0:
                raise StreamBrokenError(f"The provider sent nothing for {policy.idle_timeout_s:g} s.")
            if progress_left_s <= 0:
                # It is alive, so that asking again would only wait as long again.
                raise StreamBrokenError(
                    f"The provider kept the connection open for {policy.progress_timeout_s:g} s without going on.",
                    retryable=False,
                    remedy="Try again, or choose another model with /model.",
                )
            await self._clock.sleep(min(idle_left_s, progress_left_s))

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from agent.events import RetryScheduled
from agent.retry import AssemblerHolder, RetryPolicy, stream_with_retry
from providers.anthropic_messages import AnthropicMessages
from providers.assembler import Assembler
from providers.base import ListedModel, ModelRequest
from providers.errors import (
    AuthenticationError,
    BadRequestError,
    BillingError,
    ConnectionFailedError,
    ContextOverflowError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProtocolError,
    ProviderError,
    RateLimitedError,
    ServerError,
    StreamBrokenError,
)
from providers.types import (
    Completed,
    Ping,
    ProviderConfig,
    Secret,
    StreamEvent,
    TextBlock,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallStarted,
    Usage,
    UsageReported,
    UserMessage,
)
from tests.fakes.anthropic_wire import MessageStream, error_reply
from tests.fakes.manual_time import ManualTime
from tests.fakes.model_server import Chunk, ModelServer, Reply, stream_reply

REQUEST = ModelRequest("m", (), (), [UserMessage((TextBlock("hi"),))], 0, 0, 100)
DONE = Completed("end_turn", Usage(1))
GOOD: list["Step"] = [TextDelta("yes"), DONE]


class Stall:
    """The stream falls silent for ever."""


STALL = Stall()
Step = StreamEvent | Exception | Stall


class PlayedProvider:
    """Plays one list of steps for each attempt."""

    config = ProviderConfig("played", "scripted")

    def __init__(self, *attempts: Sequence[Step]) -> None:
        self.attempts = list(attempts)
        self.opened = self.closed = 0
        self.stalled = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        steps = self.attempts[self.opened]
        self.opened += 1
        try:
            for step in steps:
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, Stall):
                    self.stalled.set()
                    await asyncio.Event().wait()
                else:
                    yield step
        finally:
            self.closed += 1

    def warm_up(self) -> None: ...

    async def list_models(self) -> list[ListedModel]:
        return []

    async def count_tokens(self, request: ModelRequest) -> int | None:
        return None

    async def aclose(self) -> None: ...


class Run:
    """One call of `stream_with_retry` and everything that it said. Waits between attempts pass at once."""

    def __init__(self, provider: PlayedProvider, policy: RetryPolicy | None = None, skip_waits: bool = True) -> None:
        self.provider = provider
        self.policy = policy or RetryPolicy()
        self.time = ManualTime()
        self.events: list[StreamEvent] = []
        self.retries: list[RetryScheduled] = []
        self.log: list[str] = []
        self.holder = AssemblerHolder()
        self._skip_waits = skip_waits

    async def __call__(self) -> Assembler:
        return await stream_with_retry(
            self.provider,
            REQUEST,
            policy=self.policy,
            on_event=self.events.append,
            emit_retry=self._retry,
            on_restart=lambda: self.log.append("restart"),
            clock=self.time.clock,
            holder=self.holder,
        )

    def _retry(self, event: RetryScheduled) -> None:
        self.retries.append(event)
        self.log.append("retry")
        if self._skip_waits:
            asyncio.get_running_loop().call_soon(self.time.advance, event.delay_s)


async def test_a_reply_that_comes_through_is_returned_whole() -> None:
    run = Run(PlayedProvider([Ping(), *GOOD]))
    assembler = await run()
    assert assembler.completed
    assert assembler is run.holder.current
    assert assembler.blocks() == (TextBlock("yes"),)
    assert run.events == [Ping(), TextDelta("yes"), DONE]
    assert (run.retries, run.log, run.provider.closed, run.time.timers) == ([], [], 1, 0)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionFailedError("no route"),
        RateLimitedError("slow down", status=429),
        OverloadedError("Overloaded", status=529),
        ServerError("oops", status=500),
        StreamBrokenError("cut"),
    ],
)
async def test_R44_T76_what_can_pass_is_tried_again_and_said(error: ProviderError) -> None:
    run = Run(PlayedProvider([error], [error], GOOD))
    assert (await run()).blocks() == (TextBlock("yes"),)
    assert run.retries == [
        RetryScheduled(error.message, 0.5, 2, 6),
        RetryScheduled(error.message, 1.0, 3, 6),
    ]


@pytest.mark.parametrize(
    "error",
    [
        AuthenticationError("401"),
        PermissionDeniedError("403"),
        BillingError("402"),
        NotFoundError("404"),
        BadRequestError("400"),
        ContextOverflowError("413"),
        ProtocolError("html"),
        ConnectionFailedError("certificate", retryable=False),
        ValueError("a defect of the program"),
    ],
)
async def test_R44_T77_what_cannot_pass_is_raised_at_once(error: Exception) -> None:
    run = Run(PlayedProvider([error], GOOD))
    with pytest.raises(type(error)) as caught:
        await run()
    assert caught.value is error
    assert (run.provider.opened, run.retries) == (1, [])


async def test_R44_six_tries_and_no_more_with_growing_waits() -> None:
    run = Run(PlayedProvider(*[[OverloadedError(f"no {n}")] for n in range(1, 8)]))
    with pytest.raises(OverloadedError, match="no 6"):
        await run()
    assert run.provider.opened == 6
    assert [event.delay_s for event in run.retries] == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert [event.attempt for event in run.retries] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize(("chance", "delay_s"), [(0.0, 0.0), (0.25, 8.0), (0.999, 31.968)])
async def test_R44_the_jitter_is_full_and_capped(chance: float, delay_s: float) -> None:
    run = Run(PlayedProvider([ServerError("x")], GOOD), RetryPolicy(base_delay_s=100.0))
    run.time = ManualTime(chance)
    await run()
    assert run.retries[0].delay_s == pytest.approx(delay_s)


@pytest.mark.parametrize("asked_s", [0.0, 2.0, 60.0])
async def test_R44_T76_a_wait_that_the_provider_asks_for_is_kept(asked_s: float) -> None:
    run = Run(PlayedProvider([RateLimitedError("slow", retry_after_s=asked_s)], GOOD))
    await run()
    assert run.retries[0].delay_s == asked_s


async def test_R44_a_wait_of_more_than_a_minute_is_told_and_not_waited_for() -> None:
    run = Run(PlayedProvider([RateLimitedError("slow", retry_after_s=3_600.0)], GOOD))
    with pytest.raises(RateLimitedError) as caught:
        await run()
    assert "3600 s" in caught.value.remedy
    assert run.retries == []


# --------------------------------------------------------------------------- breaks in the middle


async def test_T79_a_broken_reply_starts_anew_and_the_reader_is_told_just_before() -> None:
    run = Run(PlayedProvider([TextDelta("ye"), StreamBrokenError("cut")], GOOD))
    assembler = await run()
    assert assembler.blocks() == (TextBlock("yes"),)
    assert run.log == ["retry", "restart"]
    assert run.events == [TextDelta("ye"), TextDelta("yes"), DONE]


async def test_T79_nothing_shown_nothing_void() -> None:
    run = Run(PlayedProvider([Ping(), StreamBrokenError("cut")], GOOD))
    await run()
    assert run.log == ["retry"]


async def test_T79_what_came_of_the_last_attempt_is_in_the_error() -> None:
    broken: list[Step] = [ToolCallStarted("t1", "read"), ToolCallDelta('{"pa'), StreamBrokenError("cut")]
    run = Run(PlayedProvider(*[broken] * 6))
    with pytest.raises(StreamBrokenError) as caught:
        await run()
    assert caught.value.partial.blocks() == (ToolCall("t1", "read", '{"pa', finished=False),)


async def test_T81_a_stream_without_its_last_event_is_broken() -> None:
    run = Run(PlayedProvider([TextDelta("a")], GOOD))
    await run()
    assert run.retries[0].reason == "The reply ended before it was complete."


async def test_a_reader_that_fails_ends_the_stream() -> None:
    provider = PlayedProvider([TextDelta("a"), STALL])

    def fail(event: StreamEvent) -> None:
        raise ValueError("the reader failed")

    with pytest.raises(ValueError, match="the reader failed"):
        await stream_with_retry(
            provider,
            REQUEST,
            policy=RetryPolicy(),
            on_event=fail,
            emit_retry=lambda event: None,
            on_restart=lambda: None,
        )
    assert provider.closed == 1


# --------------------------------------------------------------------------- watchdogs


async def test_R45_T80_silence_is_ended_after_the_idle_timeout_and_tried_again() -> None:
    run = Run(PlayedProvider([TextDelta("a"), STALL], GOOD))
    task = asyncio.create_task(run())
    await run.provider.stalled.wait()
    run.time.advance(119.0)
    await run.time.settle()
    assert run.provider.opened == 1
    run.time.advance(1.5)
    await task
    assert run.retries[0].reason == "The provider sent nothing for 120 s."
    assert (run.provider.closed, run.time.timers) == (2, 0)


async def test_R45_T80_silence_before_the_first_byte_counts_too() -> None:
    run = Run(PlayedProvider([STALL], GOOD))
    task = asyncio.create_task(run())
    await run.provider.stalled.wait()
    await run.time.settle()
    run.time.advance(120.0)
    await task
    assert run.provider.opened == 2


async def every(run: Run, seconds: float, count: int, event: StreamEvent) -> AsyncGenerator[StreamEvent, None]:
    for _ in range(count):
        run.time.advance(seconds)
        await run.time.settle()
        yield event


class PingingProvider(PlayedProvider):
    """Gives a ping every 100 s, then what it was told to."""

    run: Run
    pings = 8
    ping: StreamEvent = Ping()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        async for event in every(self.run, 100.0, self.pings, self.ping):
            yield event
        async with aclosing(super().stream(request)) as rest:
            async for event in rest:
                yield event


async def test_R45_T80_pings_keep_a_stream_alive() -> None:
    provider = PingingProvider(GOOD)
    provider.run = run = Run(provider)
    assert (await run()).completed
    assert run.retries == []


@pytest.mark.parametrize("ping", [Ping(), UsageReported(Usage(1))])
async def test_R45_B9_but_not_for_ever_and_that_is_not_tried_again(ping: StreamEvent) -> None:
    provider = PingingProvider(GOOD)
    provider.pings, provider.ping = 20, ping
    provider.run = run = Run(provider)
    with pytest.raises(StreamBrokenError, match="900 s") as caught:
        await run()
    assert not caught.value.retryable
    assert caught.value.remedy
    assert (run.retries, run.time.timers) == ([], 0)


# --------------------------------------------------------------------------- cancelling


async def test_R45_cancelling_closes_the_stream_removes_the_timers_and_keeps_what_came() -> None:
    run = Run(PlayedProvider([TextDelta("a"), STALL]))
    task = asyncio.create_task(run())
    await run.provider.stalled.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (run.provider.closed, run.time.timers) == (1, 0)
    assert run.holder.current.blocks() == (TextBlock("a"),)


async def test_T76_cancelling_a_wait_ends_it_at_once() -> None:
    run = Run(PlayedProvider([TextDelta("a"), OverloadedError("busy")], GOOD), skip_waits=False)
    task = asyncio.create_task(run())
    await run.time.settle()
    assert run.log == ["retry"]
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < 5
    assert (run.provider.opened, run.time.timers) == (1, 0)
    assert run.holder.current.blocks() == (TextBlock("a"),)


# --------------------------------------------------------------------------- with the real client


async def test_T76_T79_T80_a_real_server_that_fails_in_every_way_and_then_answers() -> None:
    half = MessageStream().text("half").tool("read", '{"pa', "t1", close=False).data
    retries: list[RetryScheduled] = []
    restarts: list[str] = []
    with ModelServer() as server:
        server.anthropic.script(
            error_reply(429, "rate_limit_error", "slow down", {"retry-after-ms": "1"}),
            error_reply(529, "overloaded_error", "Overloaded"),
            Reply((Chunk(half), Chunk(b"", delay_s=0.02)), end="rst"),
            stream_reply(half, end="stall"),
            MessageStream().text("half").error("overloaded_error", "Overloaded").reply(),
            MessageStream().text("whole").stop().reply(),
        )
        provider = AnthropicMessages(ProviderConfig("anthropic", "anthropic", server.url, Secret("k")))
        provider.warm_up()
        assembler = await stream_with_retry(
            provider,
            REQUEST,
            policy=RetryPolicy(base_delay_s=0.001, idle_timeout_s=1.5),
            on_event=lambda event: None,
            emit_retry=retries.append,
            on_restart=lambda: restarts.append("restart"),
        )
        await provider.aclose()
        assert len(server.requests) == 6
    assert assembler.blocks() == (TextBlock("whole"),)
    assert [event.attempt for event in retries] == [2, 3, 4, 5, 6]
    assert [event.reason for event in retries][:2] == ["slow down", "Overloaded"]
    assert retries[0].delay_s == 0.001
    assert len(restarts) == 3

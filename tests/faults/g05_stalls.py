"""Gate G5: how soon a stalled stream is noticed, and that one which only pings is left alone.

The limits are scaled by 1:240, so that 120 s without a byte are half a second; the time that noticing takes is not. Once
more with the real limits, on a clock that the trial moves.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable

from agent.events import RetryScheduled
from agent.retry import Clock, RetryPolicy, stream_with_retry
from providers.base import ListedModel, ModelRequest, Provider
from providers.errors import ProviderError, StreamBrokenError
from providers.registry import create
from providers.types import Ping, ProviderConfig, Secret, StreamEvent, TextBlock, UserMessage
from tests.fakes.fault_play import SIDES
from tests.fakes.manual_time import ManualTime
from tests.fakes.model_server import Chunk, ModelServer, Reply
from tests.fakes.pens import PENS, Pens
from tests.fakes.wires import KEY
from tests.faults.gate import Gate, Reading

IDLE_S = 0.5
GRACE_S = 1.0
"""How long noticing may take beyond the limit."""
STALLS, PINGS = 60, 60_000
"""Of a full run; ten minutes of pings at a hundred a second."""
_PING_EVERY_S = 0.01
_BEGINNINGS: tuple[Callable[[bytes], bytes | None], ...] = (
    lambda data: None,  # not even a status line
    lambda data: b"",
    lambda data: data[: len(data) // 2],
    lambda data: data + b": ping\n\n" * 3,
)
_REQUEST = ModelRequest("claude-sonnet-5-5", (), (), [UserMessage((TextBlock("hi"),))], 0, 0, 100)


def measure(share: float) -> Reading:
    return asyncio.run(_measure(share))


async def _measure(share: float) -> Reading:
    late = await _stalls(max(len(SIDES), round(share * STALLS)))
    pings = max(100 * len(SIDES), round(share * PINGS))
    false = sum(await asyncio.gather(*(_pinged(api, pings // len(SIDES)) for api in SIDES)))
    exact = await _on_a_moved_clock()
    reached = (
        f"{len(late)} stalls noticed {max(late):.2f} s after the limit at most; {pings:,} pings, {false} false alarms; "
        f"with the real limits {exact}"
    )
    return Reading(reached, max(late) <= GRACE_S and min(late) >= 0 and not false and exact == "120 s and 900 s")


async def _stalls(count: int) -> list[float]:
    """For each how many seconds later than the limit it was noticed."""
    chance = random.Random(5)
    late = []
    for number in range(count):
        api = list(SIDES)[number % len(SIDES)]
        begin = chance.choice(_BEGINNINGS)(PENS[api]("m").data)
        late.append(
            await _stall(api, Reply(never_answer=True) if begin is None else Reply((Chunk(begin),), end="stall"))
        )
    return late


async def _stall(api: str, reply: Reply) -> float:
    with ModelServer() as server:
        pens = Pens(SIDES[api](server))
        pens.script(reply)
        provider = _provider(api, server)
        await asyncio.to_thread(provider.warm_up)
        seen = [time.monotonic()]
        try:
            await _stream(
                provider, RetryPolicy(max_attempts=1, idle_timeout_s=IDLE_S), lambda e: seen.append(time.monotonic())
            )
        except StreamBrokenError:
            noticed = time.monotonic()
        else:
            raise AssertionError(f"{api}: a stalled stream was taken for a reply")
        await provider.aclose()
        return noticed - seen[-1] - IDLE_S


async def _pinged(api: str, count: int) -> int:
    """How often a stream that pings and then answers was ended before its end."""
    with ModelServer() as server:
        pens = Pens(SIDES[api](server))
        pen = pens.new()
        begin = pen.data
        rest = pen.text("hello").stop().data[len(begin) :]
        pens.script(Reply((Chunk(begin), *(Chunk(b": ping\n\n", _PING_EVERY_S) for _ in range(count)), Chunk(rest))))
        provider = _provider(api, server)
        await asyncio.to_thread(provider.warm_up)
        try:
            await _stream(provider, RetryPolicy(max_attempts=1, idle_timeout_s=IDLE_S), lambda e: None)
        except ProviderError:
            return 1
        finally:
            await provider.aclose()
        return 0


async def _on_a_moved_clock() -> str:
    """When the real limits end a silent stream, and one that pings each second."""
    silent, pinging = await _ended_after([]), await _ended_after([Ping()])
    return f"{silent:g} s and {pinging:g} s"


async def _ended_after(each_second: list[StreamEvent]) -> float:
    """Seconds on the moved clock until a stream that gives only these was ended by the limits of every session."""
    moved = ManualTime()
    source = _Played(each_second)
    reading = asyncio.ensure_future(_stream(source, RetryPolicy(max_attempts=1), lambda event: None, clock=moved.clock))
    seconds = 0
    while not reading.done():
        source.second.set()
        await moved.settle()
        moved.advance(1.0)
        seconds += 1
        await moved.settle()
    failed = reading.exception()
    assert isinstance(failed, StreamBrokenError), failed
    return float(seconds)


class _Played:
    """Gives the same events whenever a second has passed."""

    config = ProviderConfig("played", "scripted")

    def __init__(self, each_second: list[StreamEvent]) -> None:
        self.second = asyncio.Event()
        self._events = each_second

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        while True:
            await self.second.wait()
            self.second.clear()
            for event in self._events:
                yield event

    def warm_up(self) -> None: ...

    async def list_models(self) -> list[ListedModel]:
        return []

    async def count_tokens(self, request: ModelRequest) -> int | None:
        return None

    async def aclose(self) -> None: ...


async def _stream(
    provider: Provider, policy: RetryPolicy, seen: Callable[[StreamEvent], None], clock: Clock | None = None
) -> None:
    retries: list[RetryScheduled] = []
    await stream_with_retry(
        provider,
        _REQUEST,
        policy=policy,
        on_event=seen,
        emit_retry=retries.append,
        on_restart=lambda: None,
        clock=clock,
    )


def _provider(api: str, server: ModelServer) -> Provider:
    url = server.url if api == "anthropic" else f"{server.url}/v1"
    return create(ProviderConfig("gate", api, url, Secret(KEY)))  # type: ignore[arg-type]  # a name of an API


GATE = Gate(
    "G5",
    "Stalled streams",
    f"noticed within the idle limit + {GRACE_S:g} s on 3 wire APIs; no false alarm in ten minutes of pings",
    "others hang for more than half an hour",
    measure,
)

"""A provider without a network: plays listed replies, records requests, fails or stalls on cue.

Used by tests, benchmarks and the demo. It honours the provider's contract as the real ones do: one `Completed` at the end,
failures raised as they come, cancellation at once.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from providers.base import ListedModel, ModelRequest
from providers.errors import BadRequestError
from providers.types import (
    AssistantMessage,
    Completed,
    ImageBlock,
    Message,
    OpaqueBlock,
    ProviderConfig,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ThinkingFinished,
    ToolCall,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
    Usage,
)

Count = Callable[[str], int]
_TOKENS_PER_MESSAGE = 4
_TOKENS_PER_IMAGE = 2_000
_TICK_S = 0.02


class Pause(Struct, frozen=True):
    """Silence for a while."""

    seconds: float


class Stall(Struct, frozen=True):
    """Silence until the reader gives up."""


class Say(Struct, frozen=True):
    """Text or thinking that arrives in pieces."""

    text: str
    chars_per_s: float = 0.0
    """0: all at once."""
    piece_chars: int = 0
    """Length of a piece; 0: what a fiftieth of a second brings, or the whole where nothing waits."""
    thinking: bool = False


class Call(Struct, frozen=True):
    """A whole tool call. `arguments` as a value, or as raw text where it is a string."""

    id: str
    name: str
    arguments: Any
    piece_chars: int = 0


Item = StreamEvent | Say | Call | Pause | Stall | Exception
"""One step of a reply; an exception is raised where it stands."""
Reply = Iterable[Item] | Callable[[ModelRequest], Iterable[Item]]
"""A reply, or what makes it from the request. Without a `Completed` of its own it gets one: `tool_use` if it has a
finished call, else `end_turn`, with counted usage."""


class ScriptedProvider:
    """Plays one reply a request. `requests` holds the newest `record` requests as they were (None: all of them)."""

    def __init__(
        self,
        config: ProviderConfig,
        replies: Iterable[Reply] | Callable[[ModelRequest], Iterable[Item]],
        *,
        count: Count | None = None,
        usage: Usage | None = None,
        models: Iterable[ListedModel] = (),
        record: int | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`replies` is used up in order, or called for every request. `usage`, where given, stands instead of counting."""
        self.config = config
        self.requests: list[ModelRequest] = []
        self._script = replies if callable(replies) else None
        self._replies: Iterator[Reply] = iter(()) if callable(replies) else iter(replies)
        self._count = count or estimate_tokens
        self._usage = usage
        self._models = list(models)
        self._record = record
        self._sleep = sleep

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Play the next reply.

        Raises:
            ProviderError: as the script says, or because it has no further reply.
        """
        self._remember(request)
        written: list[str] = []
        calls = 0
        for item in self.next_items(request):
            async for event in self._play(item):
                written.append(_text_of(event))
                calls += isinstance(event, ToolCallFinished)
                yield event
                if isinstance(event, Completed):
                    return
        usage = self._usage or Usage(count_request(request, self._count), output_tokens=self._count("".join(written)))
        yield Completed("tool_use" if calls else "end_turn", usage)

    def warm_up(self) -> None:
        """Nothing to import."""

    async def list_models(self) -> list[ListedModel]:
        return self._models

    async def count_tokens(self, request: ModelRequest) -> int | None:
        return count_request(request, self._count)

    async def aclose(self) -> None:
        """Nothing to close."""

    def _remember(self, request: ModelRequest) -> None:
        if self._record != 0:
            # The messages may be a live list: what counts is how they stood now.
            self.requests.append(msgspec.structs.replace(request, messages=tuple(request.messages)))
            if self._record is not None:
                del self.requests[: -self._record]

    def next_items(self, request: ModelRequest) -> Iterable[Item]:
        """The reply to this request; a listed one is used up by it."""
        if self._script is not None:
            return self._script(request)
        reply = next(self._replies, None)
        if reply is None:
            raise BadRequestError("The script has no further reply.", remedy="Start a new session.")
        return reply(request) if callable(reply) else reply

    async def _play(self, item: Item) -> AsyncIterator[StreamEvent]:
        match item:
            case Exception():
                raise item
            case Pause():
                await self._sleep(item.seconds)
            case Stall():
                await asyncio.Event().wait()
            case Say():
                async for event in self._say(item):
                    yield event
            case Call():
                for event in call_events(item):
                    yield event
            case _:
                yield item

    async def _say(self, item: Say) -> AsyncIterator[StreamEvent]:
        paced = max(1, round(item.chars_per_s * _TICK_S)) if item.chars_per_s > 0 else 0
        size = item.piece_chars or paced or max(1, len(item.text))
        for at in range(0, len(item.text), size):
            piece = item.text[at : at + size]
            if item.chars_per_s > 0:
                await self._sleep(len(piece) / item.chars_per_s)
            yield ThinkingDelta(piece) if item.thinking else TextDelta(piece)
        if item.thinking:
            yield ThinkingFinished()


def call_events(call: Call) -> Iterator[StreamEvent]:
    """The events of a whole tool call."""
    raw = call.arguments if isinstance(call.arguments, str) else msgspec.json.encode(call.arguments).decode()
    size = call.piece_chars or max(1, len(raw))
    yield ToolCallStarted(call.id, call.name)
    for at in range(0, len(raw), size):
        yield ToolCallDelta(raw[at : at + size])
    yield ToolCallFinished()


def estimate_tokens(text: str) -> int:
    """A quarter of the UTF-8 bytes, rounded up."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


def count_request(request: ModelRequest, count: Count = estimate_tokens) -> int:
    """Tokens of the request's whole input: system, tool specs, messages."""
    parts = [section.text for section in request.system]
    parts += [msgspec.json.encode(tool).decode() for tool in request.tools]
    messages = (*request.messages, *request.extra)
    total = sum(count(part) for part in parts) + _TOKENS_PER_MESSAGE * len(messages)
    return total + sum(_count_message(message, count) for message in messages)


def _count_message(message: Message, count: Count) -> int:
    if isinstance(message, AssistantMessage):
        total = 0
        for block in message.blocks:
            match block:
                case ToolCall():
                    total += count(block.name) + count(block.arguments)
                case OpaqueBlock():
                    total += count(msgspec.json.encode(block.raw).decode())
                case _:
                    total += count(block.text)
        return total
    return sum(_TOKENS_PER_IMAGE if isinstance(block, ImageBlock) else count(block.text) for block in message.blocks)


def _text_of(event: StreamEvent) -> str:
    match event:
        case TextDelta() | ThinkingDelta():
            return event.text
        case ToolCallStarted():
            return event.name
        case ToolCallDelta():
            return event.fragment
        case _:
            return ""

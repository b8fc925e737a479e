"""Reads the response of a streaming call to its end, the same for every wire API; the decoder knows what the events mean."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol

from providers.batches import batches
from providers.errors import ProtocolError, ProviderError
from providers.http_errors import no_stream, request_id
from providers.sse import SseDecoder, SseEvent
from providers.types import StreamEvent

if TYPE_CHECKING:
    import httpx2
_MOST_ANSWER_BYTES = 16 * 1024 * 1024


class EventDecoder(Protocol):
    """Turns one stream's server-sent events into stream events."""

    @property
    def finished(self) -> bool:
        """Whether the reply is complete, as the server said."""
        ...

    @property
    def failure(self) -> ProviderError | None:
        """What the server reported, or what was wrong with its events; nothing behind it is read."""
        ...

    def feed(self, events: list[SseEvent]) -> list[StreamEvent]:
        """The stream events of one batch; a `Ping` alone if it holds nothing but signs of life.

        Also of a batch that ends with a `failure`: what stood before it is not lost.
        """
        ...

    def end(self) -> list[StreamEvent]:
        """What is left when the response is over; it may be that which makes the reply complete."""
        ...


async def read_stream(response: "httpx2.Response", decoder: EventDecoder) -> AsyncGenerator[StreamEvent, None]:
    """The events as they come. Closing it closes nothing but its own reading.

    Raises:
        ProviderError: what the server reported, or a response that ended before the reply was complete.
    """
    sse = SseDecoder()
    async with aclosing(batches(response.aiter_bytes())) as body:
        async for batch in body:
            for event in decoder.feed(sse.feed(batch)):
                yield event
            if decoder.failure is not None:
                raise _named(decoder.failure, response)
            if decoder.finished:
                return
    # The last event may lack its blank line; what cannot be read of it is half of an event, as the connection broke.
    if rest := sse.flush():
        for event in decoder.feed(rest):
            yield event
    for event in decoder.end():
        yield event
    if decoder.finished:
        return
    told = decoder.failure
    broken = told is None or isinstance(told, ProtocolError)
    raise _named(no_stream(sse, response.url.host) if told is None or broken else told, response)


async def read_whole(response: "httpx2.Response") -> bytes:
    """The body of an answer that is no stream.

    Raises:
        ProtocolError: it is longer than any such answer.
    """
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > _MOST_ANSWER_BYTES:
            raise ProtocolError(f"{response.url.host} sent more than {_MOST_ANSWER_BYTES // 1_048_576} MiB.")
    return bytes(body)


def _named(error: ProviderError, response: "httpx2.Response") -> ProviderError:
    error.request_id = error.request_id or request_id(response.headers)
    return error

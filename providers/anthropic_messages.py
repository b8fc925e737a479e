"""The Anthropic Messages API through the vendor's SDK: sends encoded requests, reads streams, translates errors.

The SDK signs, connects and maps errors; bodies and streams pass it as bytes, since its typed calls walk the whole history
on each call and build an object for each delta. It is imported in `warm_up` or on first use, and never retries.
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from providers.anthropic_decoding import AnthropicDecoder
from providers.anthropic_encoding import AnthropicEncoder
from providers.anthropic_errors import translated
from providers.base import ListedModel, ModelRequest
from providers.batches import batches
from providers.errors import NotFoundError, ProtocolError, StreamBrokenError, classify
from providers.model_table import model_family
from providers.models import is_loopback
from providers.sse import SseDecoder
from providers.transport import check_address, check_key
from providers.types import ProviderConfig, StreamEvent

if TYPE_CHECKING:
    import anthropic
    import httpx2

_DEFAULT_URL = "https://api.anthropic.com"
_SHORT_TIMEOUT_S = 30.0
"""For the calls beside the stream, which no watchdog watches."""
_T = TypeVar("_T")
_JSON = {"content-type": "application/json"}


class AnthropicMessages:
    """A connection to the Anthropic API or to a server that speaks it."""

    def __init__(self, config: ProviderConfig) -> None:
        self.config = config
        self._encoder = AnthropicEncoder(config.cache_marks)
        self._client: anthropic.AsyncAnthropic | None = None
        self._building = threading.Lock()

    def warm_up(self) -> None:
        """Import the SDK and build the client; safe to call from a worker thread, more than once.

        Raises:
            ProviderError: no usable key, or an address that a key must not be sent to.
        """
        with self._building:
            if self._client is None:
                self._client = _build_client(self.config)

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """See `Provider.stream`."""
        client = await self._connected()
        body = self._encoder.body(request)
        response: httpx2.Response | None = None
        try:
            response = await _open_stream(client, body)
            sse, decoder = SseDecoder(), AnthropicDecoder(model_family(request.model))
            async with aclosing(batches(response.aiter_bytes())) as body_bytes:
                async for batch in body_bytes:
                    for event in decoder.feed(sse.feed(batch)):
                        yield event
                    if decoder.failure is not None:
                        raise decoder.failure
                    if decoder.finished:
                        return
            for event in _last_events(sse, decoder):
                yield event
        except Exception as error:
            failure = translated(error, self.config, streaming=response is not None)
            if failure is error:
                raise
            raise failure from error
        finally:
            if response is not None:
                await response.aclose()

    async def list_models(self) -> list[ListedModel]:
        """What the server offers, newest first; empty where it has no listing.

        Raises:
            ProviderError: the server could not be asked.
        """
        import httpx2

        client = await self._connected()
        try:
            options: Any = {"params": {"limit": 1000}, "timeout": _SHORT_TIMEOUT_S}
            response = await client.get("/v1/models", cast_to=httpx2.Response, options=options)
            listing = _parsed(response.content, _Listing)
        except Exception as error:
            failure = translated(error, self.config, streaming=False)
            if isinstance(failure, NotFoundError):
                return []
            if failure is error:
                raise
            raise failure from error
        models = [model for model in listing.data if model.lifecycle != "retired"]
        models.sort(key=lambda model: str(model.created_at), reverse=True)
        return [ListedModel(model.id, model.display_name, model.max_input_tokens, model.max_tokens) for model in models]

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """The server's count of the request's input tokens, or None where it cannot count.

        Raises:
            ProviderError: the server could not be asked.
        """
        import httpx2

        client = await self._connected()
        body = self._encoder.count_body(request)
        try:
            options: Any = {"headers": _JSON, "timeout": _SHORT_TIMEOUT_S}
            response = await client.post(
                "/v1/messages/count_tokens", cast_to=httpx2.Response, content=body, options=options
            )
            return _parsed(response.content, _Count).input_tokens
        except Exception as error:
            failure = translated(error, self.config, streaming=False)
            if isinstance(failure, NotFoundError):
                return None
            if failure is error:
                raise
            raise failure from error

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _connected(self) -> "anthropic.AsyncAnthropic":
        if self._client is None:
            await asyncio.to_thread(self.warm_up)
        assert self._client is not None
        return self._client


class _Model(Struct):
    id: str
    display_name: str | None = None
    created_at: Any = ""
    max_input_tokens: int | None = None
    max_tokens: int | None = None
    lifecycle: str | None = None


class _Listing(Struct):
    data: list[_Model]


class _Count(Struct):
    input_tokens: int


def _build_client(config: ProviderConfig) -> "anthropic.AsyncAnthropic":
    check_address(config)
    key = check_key(config)
    import anthropic
    import httpx2

    headers = dict(config.headers)
    if config.base_url is not None:
        # The SDK sends the key as a bearer token; many compatible servers know only this header.
        headers = {"x-api-key": key, **headers}
    timeout = httpx2.Timeout(None, connect=config.connect_timeout_s)
    # Address and key are always given, so that the SDK never sends a key of the environment to another host.
    return anthropic.AsyncAnthropic(
        api_key=key,
        base_url=config.base_url or _DEFAULT_URL,
        max_retries=0,
        timeout=timeout,
        default_headers=headers,
        open_telemetry=False,
        http_client=anthropic.DefaultAsyncHttpxClient(
            follow_redirects=False,
            timeout=timeout,
            trust_env=not is_loopback(config.base_url),  # this machine is never behind a proxy
        ),
    )


async def _open_stream(client: "anthropic.AsyncAnthropic", body: bytes) -> "httpx2.Response":
    import anthropic

    stream = await client.post(
        "/v1/messages",
        cast_to=object,
        content=body,
        options={"headers": _JSON},
        stream=True,
        stream_cls=anthropic.AsyncStream[object],
    )
    return stream.response


def _last_events(sse: SseDecoder, decoder: AnthropicDecoder) -> list[StreamEvent]:
    """What an end of the response without its last blank line held back.

    Raises:
        ProviderError: the message is not complete, or it was none.
    """
    rest = decoder.feed(events) if (events := sse.flush()) else []
    if decoder.finished:
        return rest
    # A failure here is half of an event: the connection broke.
    if sse.events:
        raise StreamBrokenError("The connection ended before the reply was complete.")
    start = sse.start.decode("utf-8", "replace").strip()
    if not start:
        raise StreamBrokenError("The server ended the connection without an answer.")
    try:
        body = msgspec.json.decode(sse.start)
        error = body["error"]
        raise classify(str(error["message"]), kind=str(error.get("type", "")))
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError):
        shown = " ".join(start.split())[:200]
        raise ProtocolError(f"The server answered with something that is no stream of events: {shown}") from None


def _parsed(raw: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError as error:
        shown = " ".join(raw[:200].decode("utf-8", "replace").split())
        raise ProtocolError(f"The server's answer cannot be read ({error}): {shown}") from error

"""The Anthropic Messages API through the vendor's SDK: sends encoded requests, reads streams, translates errors.

The SDK signs, connects and maps errors; bodies and streams pass it as bytes, since its typed calls walk the whole history
on each call and build an object for each delta. It is imported in `warm_up` or on first use, and never retries.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from providers.anthropic_decoding import AnthropicDecoder
from providers.anthropic_encoding import AnthropicEncoder
from providers.base import ListedModel, ModelRequest
from providers.errors import ProtocolError, ProviderError
from providers.http_errors import translated
from providers.http_stream import read_stream
from providers.model_table import model_family
from providers.transport import check_address, check_key, client_options, connect_timeout, import_for_requests
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
            decoder = AnthropicDecoder(model_family(request.model))
            async with aclosing(read_stream(response, decoder)) as events:
                async for event in events:
                    yield event
        except Exception as error:
            failure = self._translated(error, streaming=response is not None)
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
        client = await self._connected()
        import httpx2

        options: Any = {"params": {"limit": 1000}, "timeout": _SHORT_TIMEOUT_S}
        listing = await self._beside(client.get("/v1/models", cast_to=httpx2.Response, options=options), _Listing)
        if listing is None:
            return []
        models = [model for model in listing.data if model.lifecycle != "retired"]
        models.sort(key=lambda model: str(model.created_at), reverse=True)
        return [ListedModel(model.id, model.display_name, model.max_input_tokens, model.max_tokens) for model in models]

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """The server's count of the request's input tokens, or None where it cannot count.

        Raises:
            ProviderError: the server could not be asked.
        """
        client = await self._connected()
        import httpx2

        options: Any = {"headers": _JSON, "timeout": _SHORT_TIMEOUT_S}
        body = self._encoder.count_body(request)
        call = client.post("/v1/messages/count_tokens", cast_to=httpx2.Response, content=body, options=options)
        counted = await self._beside(call, _Count)
        return None if counted is None else counted.input_tokens

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _beside(self, call: "Awaitable[httpx2.Response]", kind: type[_T]) -> _T | None:
        """The answer of a call beside the stream; None where the server does not have it (404, 405)."""
        try:
            return _parsed((await call).content, kind)
        except Exception as error:
            failure = self._translated(error, streaming=False)
            if isinstance(failure, ProviderError) and failure.status in (404, 405):
                return None
            if failure is error:
                raise
            raise failure from error

    def _translated(self, error: Exception, *, streaming: bool) -> Exception:
        import anthropic

        return translated(error, self.config, anthropic, streaming=streaming)

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

    import_for_requests()
    headers = dict(config.headers)
    if config.base_url is not None:
        # The SDK sends the key as a bearer token; many compatible servers know only this header.
        headers = {"x-api-key": key, **headers}
    # Address and key are always given, so that the SDK never sends a key of the environment to another host.
    return anthropic.AsyncAnthropic(
        api_key=key,
        base_url=config.base_url or _DEFAULT_URL,
        max_retries=0,
        timeout=connect_timeout(config),
        default_headers=headers,
        open_telemetry=False,
        http_client=anthropic.DefaultAsyncHttpxClient(**client_options(config)),
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


def _parsed(raw: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError as error:
        shown = " ".join(raw[:200].decode("utf-8", "replace").split())
        raise ProtocolError(f"The server's answer cannot be read ({error}): {shown}") from error

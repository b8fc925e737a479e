"""The OpenAI Responses API through the vendor's SDK: sends encoded requests, reads streams.

The SDK brings addresses, authentication and connections; what is sent are ready bytes (`responses_encoding`), what comes
back is read as raw server-sent events (`responses_stream`), so that neither a long history nor a fast stream passes through
typed objects. Nothing is stored on the server. No retries, and no time-out but the one for connecting.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from providers.base import ListedModel, ModelRequest
from providers.errors import MissingKeyError, ProtocolError, ProviderError
from providers.http_errors import translated
from providers.http_stream import read_stream
from providers.model_table import model_family
from providers.responses_encoding import RequestEncoder
from providers.responses_stream import ResponsesReader
from providers.transport import NO_KEY, check_address, check_key, client_options, connect_timeout, import_for_requests
from providers.types import ProviderConfig, StreamEvent

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

_DEFAULT_URL = "https://api.openai.com/v1"
_SHORT_TIMEOUT_S = 30.0
"""For the calls beside the stream, which no watchdog watches."""
_STREAM_HEADERS = {"content-type": "application/json", "accept": "text/event-stream"}


class OpenAIResponses:
    """One provider that speaks the Responses API."""

    def __init__(self, config: ProviderConfig) -> None:
        self.config = config
        self._encoder = RequestEncoder()
        self._client: AsyncOpenAI | None = None
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
            response = await _post(client, "/responses", body)
            reader = ResponsesReader(model_family(request.model))
            async with aclosing(read_stream(response, reader)) as events:
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
        """The server's models, newest first; empty where it has no listing.

        Raises:
            ProviderError: the server could not be asked, or refused the key.
        """
        client = await self._connected()
        import httpx2

        options: Any = {"timeout": _SHORT_TIMEOUT_S}
        value = await self._beside(client.get("/models", cast_to=httpx2.Response, options=options))
        entries = value.get("data") if isinstance(value, dict) else None
        found = [entry for entry in entries or [] if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
        found.sort(key=lambda entry: created if isinstance(created := entry.get("created"), int) else 0, reverse=True)
        return [_listed(entry) for entry in found]

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """The server's count of the request's input; None where it does not offer that.

        Raises:
            ProviderError: the server could not be asked, or refused the request.
        """
        client = await self._connected()
        body = self._encoder.counting_body(request)
        value = await self._beside(_post(client, "/responses/input_tokens", body, timeout=_SHORT_TIMEOUT_S))
        count = value.get("input_tokens") if isinstance(value, dict) else None
        return count if isinstance(count, int) else None

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _beside(self, call: "Awaitable[httpx2.Response]") -> Any:
        """The JSON value of a call beside the stream; None where the server does not have it (404, 405)."""
        response: httpx2.Response | None = None
        try:
            response = await call
            return msgspec.json.decode(await response.aread())
        except msgspec.DecodeError as error:
            raise ProtocolError("The server did not answer with JSON.") from error
        except Exception as error:
            failure = self._translated(error, streaming=response is not None)
            if isinstance(failure, ProviderError) and failure.status in (404, 405):
                return None
            if failure is error:
                raise
            raise failure from error
        finally:
            if response is not None:
                await response.aclose()

    def _translated(self, error: Exception, *, streaming: bool) -> Exception:
        import openai

        return translated(error, self.config, openai, streaming=streaming)

    async def _connected(self) -> "AsyncOpenAI":
        if self._client is None:
            await asyncio.to_thread(self.warm_up)
        assert self._client is not None
        return self._client


def _build_client(config: ProviderConfig) -> "AsyncOpenAI":
    check_address(config)
    key = _key(config)
    import openai

    import_for_requests("openai._utils._sync")
    # Address and key are always given, so that the SDK never sends a key to an address of the environment.
    client = openai.AsyncOpenAI(
        api_key=key,
        base_url=config.base_url or _DEFAULT_URL,
        max_retries=0,
        timeout=connect_timeout(config),
        default_headers=config.headers,
        http_client=openai.DefaultAsyncHttpxClient(**client_options(config)),
    )
    if not _is_vendor(config):
        client.organization = client.project = None  # the environment's are meant for the vendor
    return client


def _key(config: ProviderConfig) -> str:
    if config.key or not _is_vendor(config):
        return check_key(config)
    if {name.lower() for name in config.headers} & {"authorization", "api-key"}:
        return NO_KEY
    raise MissingKeyError(
        f"There is no key for the provider {config.name}.",
        remedy=f"Set OPENAI_API_KEY, or the variable that key_env in [providers.{config.name}] names.",
    )


def _is_vendor(config: ProviderConfig) -> bool:
    return urlsplit(config.base_url or _DEFAULT_URL).hostname == urlsplit(_DEFAULT_URL).hostname


async def _post(client: "AsyncOpenAI", path: str, body: bytes, timeout: float | None = None) -> "httpx2.Response":
    """The response, its body unread."""
    import httpx2

    options: Any = {"headers": _STREAM_HEADERS, **({} if timeout is None else {"timeout": timeout})}
    response: httpx2.Response = await client.post(
        path, cast_to=httpx2.Response, content=body, options=options, stream=True
    )
    return response


def _listed(entry: Mapping[str, Any]) -> ListedModel:
    """OpenAI lists ids only; compatible servers add limits under names of their own."""
    meta = entry.get("meta") if isinstance(entry.get("meta"), dict) else None
    windows = [entry.get(name) for name in ("context_window", "context_length", "max_context_length", "max_model_len")]
    windows.append(meta.get("n_ctx") if meta else None)
    caps = [entry.get(name) for name in ("max_output_tokens", "max_completion_tokens")]
    name = entry.get("name") or entry.get("display_name")
    return ListedModel(entry["id"], name if isinstance(name, str) else None, _figure(windows), _figure(caps))


def _figure(candidates: list[Any]) -> int | None:
    return next((c for c in candidates if isinstance(c, int) and not isinstance(c, bool) and c > 0), None)

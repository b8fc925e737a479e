"""The OpenAI Responses API over the vendor's SDK: thin I/O and the translation of its errors.

The SDK brings addresses, authentication and connections; what is sent are ready bytes (`responses_encoding`), what comes
back is read as raw server-sent events (`responses_stream`), so that neither a long history nor a fast stream passes through
typed objects. Nothing is stored on the server. No retries, and no time-out but the one for connecting.
"""

import contextlib
import importlib
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from providers.base import ListedModel, ModelRequest
from providers.batches import batches
from providers.errors import (
    ConnectionFailedError,
    MissingKeyError,
    ProtocolError,
    ProviderError,
    StreamBrokenError,
    classify,
    redacted,
    retry_after,
)
from providers.models import model_family
from providers.responses_encoding import RequestEncoder
from providers.responses_stream import ResponsesReader, merge_deltas
from providers.sse import SseDecoder
from providers.transport import NO_KEY, check_address, check_key
from providers.types import Ping, ProviderConfig, StreamEvent

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

_VENDOR_HOST = "api.openai.com"
_LISTING_TIMEOUT_S = 30.0
_SHOWN_CHARS = 600
_STREAM_HEADERS = {"content-type": "application/json", "accept": "text/event-stream"}
# Imported with the SDK, so that the first request imports nothing on the event loop.
_NEEDED_LATER = ("anyio._backends._asyncio", "httpcore2", "openai._utils._sync")


class OpenAIResponses:
    """One provider that speaks the Responses API."""

    def __init__(self, config: ProviderConfig) -> None:
        self.config = config
        self._encoder = RequestEncoder()
        self._client: AsyncOpenAI | None = None
        self._lock = threading.Lock()

    def warm_up(self) -> None:
        """Import the SDK and build the client. Any thread, any number of times."""
        with self._lock:
            if self._client is None:
                self._client = self._build()

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Send the request and yield its events.

        Raises:
            ProviderError: the request or the stream failed.
        """
        body = self._encoder.body(request)
        response = await self._send("POST", "/responses", body)
        try:
            async with contextlib.aclosing(self._events(response, model_family(request.model))) as events:
                async for event in events:
                    yield event
        finally:
            await response.aclose()

    async def list_models(self) -> list[ListedModel]:
        """The server's models, newest first; empty where it has no listing.

        Raises:
            ProviderError: the server could not be asked, or refused the key.
        """
        response = await self._send("GET", "/models", None, missing_is_none=True)
        if response is None:
            return []
        value = await self._read_json(response)
        entries = value.get("data") if isinstance(value, dict) else None
        found = [entry for entry in entries or [] if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
        found.sort(key=lambda entry: created if isinstance(created := entry.get("created"), int) else 0, reverse=True)
        return [_listed(entry) for entry in found]

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """The server's count of the request's input; None where it does not offer that.

        Raises:
            ProviderError: the server could not be asked, or refused the request.
        """
        body = self._encoder.counting_body(request)
        response = await self._send("POST", "/responses/input_tokens", body, missing_is_none=True)
        if response is None:
            return None
        value = await self._read_json(response)
        count = value.get("input_tokens") if isinstance(value, dict) else None
        return count if isinstance(count, int) else None

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    # ------------------------------------------------------------------ the client

    def _build(self) -> "AsyncOpenAI":
        """Raises ProviderError for an address or a key that cannot be used."""
        config = self.config
        check_address(config)
        key = self._key()
        import httpx2
        import openai

        for module in _NEEDED_LATER:
            with contextlib.suppress(ImportError):
                importlib.import_module(module)
        return openai.AsyncOpenAI(
            api_key=key,
            base_url=config.base_url,
            max_retries=0,
            timeout=httpx2.Timeout(None, connect=config.connect_timeout_s),
            default_headers=config.headers,
        )

    def _key(self) -> str:
        config = self.config
        if config.key:
            return check_key(config)
        if {name.lower() for name in config.headers} & {"authorization", "api-key"}:
            return NO_KEY
        if config.base_url is None or urlsplit(config.base_url).hostname == _VENDOR_HOST:
            raise MissingKeyError(
                f"There is no key for the provider {config.name}.",
                remedy=f"Set OPENAI_API_KEY, or the variable that key_env in [providers.{config.name}] names.",
            )
        return check_key(config)

    async def _send(self, method: str, path: str, body: bytes | None, missing_is_none: bool = False) -> Any:
        """The response, its body unread; None for 404 and 405 where those are asked for."""
        self.warm_up()
        import httpx2
        import openai

        client = self._client
        assert client is not None
        try:
            if method == "GET":
                return await client.get(
                    path,
                    cast_to=httpx2.Response,
                    options={"follow_redirects": False, "timeout": _LISTING_TIMEOUT_S},
                )
            return await client.post(
                path,
                cast_to=httpx2.Response,
                content=body,
                options={"headers": _STREAM_HEADERS, "follow_redirects": False},
                stream=True,
            )
        except openai.APIStatusError as error:
            if missing_is_none and error.status_code in (404, 405):
                return None
            raise self._refused(error.response) from error
        except openai.APIConnectionError as error:
            raise self._unreachable(error) from error
        except (httpx2.HTTPError, openai.OpenAIError) as error:
            raise ConnectionFailedError(self._clean(str(error) or type(error).__name__)) from error

    async def _events(self, response: "httpx2.Response", family: str) -> AsyncGenerator[StreamEvent]:
        import httpx2

        decoder, reader = SseDecoder(), ResponsesReader(family)
        try:
            async with contextlib.aclosing(batches(response.aiter_bytes())) as chunks:
                async for chunk in chunks:
                    for event in self._read(decoder, reader, response, chunk):
                        yield event
                    if reader.completed:
                        return
        except httpx2.HTTPError as error:
            raise StreamBrokenError(f"The connection broke in the middle of the reply: {_words(error)}") from error
        for event in self._read(decoder, reader, response, None):
            yield event
        if not reader.completed:
            raise self._ended_early(decoder, response)

    def _read(
        self, decoder: SseDecoder, reader: ResponsesReader, response: "httpx2.Response", chunk: bytes | None
    ) -> Iterator[StreamEvent]:
        """The events of one network chunk, or with None those that the end of the response leaves.

        What stands before a failure in the same chunk is still given.
        """
        events: list[StreamEvent] = []
        failed: ProviderError | None = None
        try:
            for name, data in decoder.flush() if chunk is None else decoder.feed(chunk):
                events += reader.read(name, data)
        except ProviderError as error:
            failed = error
        yield from merge_deltas(events) if events or chunk is None else [Ping()]
        if failed is not None:
            failed.message = self._clean(failed.message)
            failed.args = (failed.message,)
            failed.request_id = failed.request_id or response.headers.get("x-request-id")
            raise failed

    async def _read_json(self, response: "httpx2.Response") -> Any:
        import httpx2

        try:
            return msgspec.json.decode(await response.aread())
        except httpx2.HTTPError as error:
            raise StreamBrokenError(f"The connection broke: {_words(error)}") from error
        except msgspec.DecodeError as error:
            raise ProtocolError(f"{response.url.path} did not answer with JSON.") from error
        finally:
            await response.aclose()

    # ------------------------------------------------------------------ errors

    def _clean(self, text: str) -> str:
        return redacted(text, self.config)

    def _refused(self, response: "httpx2.Response") -> ProviderError:
        message, kind = _explanation(response)
        return classify(
            self._clean(message),
            status=response.status_code,
            kind=kind,
            request_id=response.headers.get("x-request-id"),
            retry_after_s=retry_after(response.headers),
        )

    def _unreachable(self, error: Exception) -> ProviderError:
        where = self.config.base_url or "the provider"
        return ConnectionFailedError(self._clean(f"No connection to {where}: {_words(error.__cause__ or error)}"))

    def _ended_early(self, decoder: SseDecoder, response: "httpx2.Response") -> ProviderError:
        if decoder.events or not decoder.start.strip():
            return StreamBrokenError("The reply ended before it was complete.")
        start = decoder.start.decode("utf-8", "replace").strip()
        message, kind = _error_fields(start)
        if message:
            return classify(self._clean(message), kind=kind, request_id=response.headers.get("x-request-id"))
        return ProtocolError(f"The server answered with something else than a stream: {self._clean(start)}")


def _explanation(response: "httpx2.Response") -> tuple[str, str]:
    """(message, code or type) of an error response; ("", "") for an empty body."""
    text = response.text.strip()
    message, kind = _error_fields(text)
    if message or not text:
        return message, kind
    if text.startswith("<"):
        text = f"an HTML page instead of an answer ({response.reason_phrase})"
    return text[:_SHOWN_CHARS], kind


def _error_fields(text: str) -> tuple[str, str]:
    """(message, code or type) of an error in JSON; "" where it does not say."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return "", ""
    if not isinstance(value, dict):
        return "", ""
    error = value.get("error", value)
    if isinstance(error, str):
        return error, ""
    fields: Mapping[str, Any] = error if isinstance(error, dict) else {}
    kind = next((k for k in (fields.get("code"), fields.get("type")) if isinstance(k, str) and k), "")
    message = fields.get("message") or fields.get("detail") or value.get("detail")
    return (message if isinstance(message, str) else ""), kind


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


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

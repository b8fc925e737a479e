"""The Anthropic Messages API: its addresses, its client, and the calls beside the stream."""

from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from providers.anthropic_decoding import AnthropicDecoder
from providers.anthropic_encoding import AnthropicEncoder
from providers.base import ListedModel, ModelRequest
from providers.errors import ProtocolError
from providers.model_table import model_family
from providers.sdk_adapter import SHORT_TIMEOUT_S, SdkAdapter
from providers.sdk_import import import_sdk
from providers.transport import (
    check_address,
    check_headers,
    check_key,
    client_options,
    connect_timeout,
    headers_of,
    import_for_requests,
)
from providers.types import ProviderConfig

if TYPE_CHECKING:
    import anthropic
    import httpx2

_DEFAULT_URL = "https://api.anthropic.com"
_T = TypeVar("_T")
_JSON = {"content-type": "application/json"}


class AnthropicMessages(SdkAdapter["anthropic.AsyncAnthropic"]):
    """A connection to the Anthropic API or to a server that speaks it."""

    def __init__(self, config: ProviderConfig) -> None:
        super().__init__(config)
        self._encoder = AnthropicEncoder(config.cache_marks)

    def sdk(self) -> Any:
        return import_sdk("anthropic")

    def build_client(self) -> "anthropic.AsyncAnthropic":
        config = self.config
        check_address(config)
        check_headers(config)
        key = check_key(config)
        self.sdk()
        import anthropic

        import_for_requests()
        headers: dict[str, Any] = dict(config.headers)
        if config.base_url is not None:
            # The SDK sends the key as a bearer token; many compatible servers know only this header.
            headers = {"x-api-key": key, **headers}
        if not _is_vendor(config):
            headers = {**dict.fromkeys(headers_of("ANTHROPIC_CUSTOM_HEADERS"), anthropic.Omit()), **headers}
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

    def encode(self, request: ModelRequest) -> bytes:
        return self._encoder.body(request)

    def decoder(self, request: ModelRequest) -> AnthropicDecoder:
        return AnthropicDecoder(model_family(request.model))

    async def open_stream(self, client: "anthropic.AsyncAnthropic", body: bytes) -> "httpx2.Response":
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

    async def list_models(self) -> list[ListedModel]:
        """What the server offers, newest first; empty where it has no listing.

        Raises:
            ProviderError: the server could not be asked.
        """
        client = await self.connected()
        import httpx2

        options: Any = {"params": {"limit": 1000}, "timeout": SHORT_TIMEOUT_S}
        raw = await self.beside(client.get("/v1/models", cast_to=httpx2.Response, options=options, stream=True))
        if raw is None:
            return []
        models = [model for model in _parsed(raw, _Listing).data if model.lifecycle != "retired"]
        models.sort(key=lambda model: str(model.created_at), reverse=True)
        return [ListedModel(model.id, model.display_name, model.max_input_tokens, model.max_tokens) for model in models]

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """The server's count of the request's input tokens, or None where it cannot count.

        Raises:
            ProviderError: the server could not be asked.
        """
        client = await self.connected()
        import httpx2

        options: Any = {"headers": _JSON, "timeout": SHORT_TIMEOUT_S}
        body = self._encoder.count_body(request)
        path = "/v1/messages/count_tokens"
        call = client.post(path, cast_to=httpx2.Response, content=body, options=options, stream=True)
        raw = await self.beside(call)
        return None if raw is None else _parsed(raw, _Count).input_tokens


def _is_vendor(config: ProviderConfig) -> bool:
    return urlsplit(config.base_url or _DEFAULT_URL).hostname == urlsplit(_DEFAULT_URL).hostname


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


def _parsed(raw: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError as error:
        shown = " ".join(raw[:200].decode("utf-8", "replace").split())
        raise ProtocolError(f"The server's answer cannot be read ({error}): {shown}") from error

"""The OpenAI SDK's client, for the two wire APIs that go through it: built for one provider, its models listed.

Many servers speak these APIs; what they add to OpenAI's answers under names of their own is read here.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from providers.base import ListedModel
from providers.errors import MissingKeyError, ProtocolError
from providers.sdk_adapter import SHORT_TIMEOUT_S, SdkAdapter
from providers.sdk_import import import_sdk
from providers.transport import (
    NO_KEY,
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
    import httpx2
    from openai import AsyncOpenAI

_DEFAULT_URL = "https://api.openai.com/v1"
_STREAM_HEADERS = {"content-type": "application/json", "accept": "text/event-stream"}
_WINDOWS = ("context_window", "context_length", "max_context_length", "max_model_len")
_CAPS = ("max_output_tokens", "max_completion_tokens")


class OpenAIAdapter(SdkAdapter["AsyncOpenAI"]):
    """What the Responses and the Chat Completions API have in common."""

    path: str
    """Of the streaming call, beneath the address."""

    def sdk(self) -> Any:
        return import_sdk("openai")

    def build_client(self) -> "AsyncOpenAI":
        config = self.config
        check_address(config)
        check_headers(config)
        key = _key(config)
        self.sdk()
        import openai

        import_for_requests("openai._utils._sync")
        headers: dict[str, Any] = dict(config.headers)
        if not _is_vendor(config):
            headers = {**dict.fromkeys(headers_of("OPENAI_CUSTOM_HEADERS"), openai.Omit()), **headers}
        # Address and key are always given, so that the SDK never sends a key to an address of the environment.
        client = openai.AsyncOpenAI(
            api_key=key,
            base_url=config.base_url or _DEFAULT_URL,
            max_retries=0,
            timeout=connect_timeout(config),
            default_headers=headers,
            http_client=openai.DefaultAsyncHttpxClient(**client_options(config)),
        )
        if not _is_vendor(config):
            client.organization = client.project = None  # the environment's are meant for the vendor
        return client

    async def open_stream(self, client: "AsyncOpenAI", body: bytes) -> "httpx2.Response":
        return await self.post(client, self.path, body)

    async def post(
        self, client: "AsyncOpenAI", path: str, body: bytes, timeout: float | None = None
    ) -> "httpx2.Response":
        """The response, its body unread."""
        import httpx2

        options: Any = {"headers": _STREAM_HEADERS, **({} if timeout is None else {"timeout": timeout})}
        response: httpx2.Response = await client.post(
            path, cast_to=httpx2.Response, content=body, options=options, stream=True
        )
        return response

    async def list_models(self) -> list[ListedModel]:
        """The server's models, newest first; empty where it has no listing.

        Raises:
            ProviderError: the server could not be asked, or refused the key.
        """
        client = await self.connected()
        import httpx2

        options: Any = {"timeout": SHORT_TIMEOUT_S}
        value = parsed(await self.beside(client.get("/models", cast_to=httpx2.Response, options=options, stream=True)))
        entries = value.get("data") if isinstance(value, dict) else None
        found = [entry for entry in entries or [] if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
        found.sort(key=lambda entry: created if isinstance(created := entry.get("created"), int) else 0, reverse=True)
        return [_listed(entry) for entry in found]


def parsed(raw: bytes | None) -> Any:
    """The JSON value of an answer; None where there was none.

    Raises:
        ProtocolError: it is no JSON.
    """
    try:
        return None if raw is None else msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise ProtocolError("The server did not answer with JSON.") from error


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


def _listed(entry: Mapping[str, Any]) -> ListedModel:
    """OpenAI lists ids only; compatible servers add limits under names of their own."""
    meta = entry.get("meta") if isinstance(entry.get("meta"), dict) else None
    windows = [entry.get(name) for name in _WINDOWS]
    windows += [meta.get(name) for name in ("n_ctx", "n_ctx_train")] if meta else []
    name = entry.get("name") or entry.get("display_name")
    caps = [entry.get(name) for name in _CAPS]
    return ListedModel(entry["id"], name if isinstance(name, str) else None, _figure(windows), _figure(caps))


def _figure(candidates: list[Any]) -> int | None:
    return next((c for c in candidates if isinstance(c, int) and not isinstance(c, bool) and c > 0), None)

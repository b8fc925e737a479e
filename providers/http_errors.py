"""Failures of HTTP in claw's words, the same for every wire API: no connection, a broken one, refusals, no stream.

The vendors' SDKs share one HTTP client and name their errors alike, so an adapter passes its SDK in. No text here holds a key.
"""

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from providers.errors import (
    ConnectionFailedError,
    ContextOverflowError,
    ProtocolError,
    ProviderError,
    StreamBrokenError,
    classify,
    overflow_window,
    redacted,
    retry_after,
)
from providers.sse import SseDecoder
from providers.types import ProviderConfig

if TYPE_CHECKING:
    import httpx2

_SHOWN_CHARS = 1_000


def translated(error: Exception, config: ProviderConfig, sdk: Any, *, streaming: bool) -> Exception:
    """The `ProviderError` for what went wrong, or `error` itself where that is a defect of this program.

    `sdk` is the vendor's module; `streaming`: the reply had begun, so that a lost connection means a broken reply.
    """
    import httpx2

    if isinstance(error, ProviderError):
        error.message = redacted(error.message, config)
        error.args = (error.message,)
        return error
    if isinstance(error, sdk.APIStatusError):
        return _refused(error.response, config)
    if isinstance(error, sdk.APITimeoutError | httpx2.ConnectTimeout):
        return ConnectionFailedError(f"No answer from {_place(config)} in time.")
    if isinstance(error, sdk.APIConnectionError | httpx2.HTTPError | httpx2.InvalidURL | OSError):
        text = redacted(_reason(error), config)
        if streaming:
            return StreamBrokenError(f"The connection to {_place(config)} broke in the middle of the reply: {text}")
        return _unreachable(error, text, config)
    if type(error).__module__.split(".")[0] == sdk.__name__:
        return ProtocolError(redacted(str(error), config))
    return error


def no_stream(sse: SseDecoder) -> ProviderError:
    """The error for a response that ended before the reply was complete, by what stood in it."""
    start = sse.start.decode("utf-8", "replace").strip()
    if sse.events:
        return StreamBrokenError("The connection ended before the reply was complete.")
    if not start:
        return StreamBrokenError("The server ended the connection without an answer.")
    message, kind = error_fields(start)
    if message and kind:
        return classify(message, kind=kind)
    shown = message or " ".join(start.split())[:200]
    return ProtocolError(f"The server answered with something that is no stream of events: {shown}")


def error_fields(text: str) -> tuple[str, str]:
    """(message, code or type) of an error in JSON, wherever a server puts them; "" for what it does not say."""
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
    words = (fields.get("message"), fields.get("detail"), value.get("message"), value.get("detail"))
    return next((said for said in words if isinstance(said, str) and said), ""), kind


def request_id(headers: Mapping[str, str]) -> str | None:
    """By which the provider finds the request."""
    return headers.get("request-id") or headers.get("x-request-id")


def _refused(response: "httpx2.Response", config: ProviderConfig) -> ProviderError:
    text = response.text.strip()
    message, kind = error_fields(text)
    if text.startswith("<"):
        message = f"an HTML page instead of an answer ({response.reason_phrase})"
    failure = classify(
        redacted(" ".join((message or text).split())[:_SHOWN_CHARS], config),
        status=response.status_code,
        kind=kind,
        request_id=request_id(response.headers),
        retry_after_s=retry_after(response.headers),
    )
    if isinstance(failure, ContextOverflowError) and failure.window_tokens is None:
        failure.window_tokens = overflow_window(text)
    return failure


def _unreachable(error: Exception, text: str, config: ProviderConfig) -> ConnectionFailedError:
    import httpx2

    chain = _chain(error)
    message = f"Cannot reach {_place(config)}: {text}"
    if any(isinstance(link, ssl.SSLCertVerificationError) for link in chain) or "CERTIFICATE_VERIFY_FAILED" in text:
        return ConnectionFailedError(
            message,
            retryable=False,
            remedy="The server's certificate is not trusted: check the proxy, or SSL_CERT_FILE.",
        )
    if any(isinstance(link, httpx2.ProxyError) for link in chain):
        return ConnectionFailedError(
            message, retryable=False, remedy="The proxy refused: check HTTPS_PROXY, HTTP_PROXY and NO_PROXY."
        )
    hopeless = httpx2.UnsupportedProtocol | httpx2.LocalProtocolError | httpx2.InvalidURL
    return ConnectionFailedError(
        message, retryable=False if any(isinstance(link, hopeless) for link in chain) else None
    )


def _chain(error: BaseException | None) -> list[BaseException]:
    links: list[BaseException] = []
    while error is not None and error not in links:
        links.append(error)
        error = error.__cause__ or error.__context__
    return links


def _reason(error: Exception) -> str:
    """The most telling words of the chain: those of the deepest cause that has any."""
    for link in reversed(_chain(error)):
        if text := str(link).strip():
            return text
    return type(error).__name__


def _place(config: ProviderConfig) -> str:
    return config.base_url or f"the provider {config.name}"

"""Errors of the Anthropic SDK and its HTTP client in claw's words. The only place that knows their classes."""

import ssl
from typing import TYPE_CHECKING

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
from providers.types import ProviderConfig

if TYPE_CHECKING:
    import anthropic


def translated(error: Exception, config: ProviderConfig, *, streaming: bool) -> Exception:
    """The `ProviderError` for what went wrong, or `error` itself where that is a defect of this program.

    `streaming`: the reply had begun, so that a lost connection means a broken reply.
    """
    import anthropic
    import httpx2

    if isinstance(error, ProviderError):
        error.message = redacted(error.message, config)
        error.args = (error.message,)
        return error
    if isinstance(error, anthropic.APIStatusError):
        return _from_status(error, config)
    if isinstance(error, anthropic.APITimeoutError | httpx2.ConnectTimeout):
        return ConnectionFailedError(f"No connection to {_host(config)} within {config.connect_timeout_s:g} s.")
    if isinstance(error, anthropic.APIConnectionError | httpx2.HTTPError | httpx2.InvalidURL | OSError):
        text = redacted(_reason(error), config)
        if streaming:
            return StreamBrokenError(f"The connection to {_host(config)} broke in the middle of the reply: {text}")
        return _no_connection(error, text, config)
    if isinstance(error, anthropic.AnthropicError):
        return ProtocolError(redacted(str(error), config))
    return error


def _from_status(error: "anthropic.APIStatusError", config: ProviderConfig) -> ProviderError:
    body = error.body
    said = error.api_message or (body if isinstance(body, str) else "") or _said_elsewhere(body)
    failure = classify(
        redacted(" ".join(said.split())[:1_000], config),
        status=error.status_code,
        kind=str(error.type or ""),
        request_id=error.request_id,
        retry_after_s=retry_after(error.response.headers),
    )
    if isinstance(failure, ContextOverflowError) and failure.window_tokens is None:
        failure.window_tokens = overflow_window(str(body))
    return failure


def _said_elsewhere(body: object) -> str:
    """The words of servers that put them into another field."""
    if isinstance(body, dict):
        for name in ("message", "detail", "error"):
            if isinstance(body.get(name), str):
                return str(body[name])
    return ""


def _no_connection(error: Exception, text: str, config: ProviderConfig) -> ConnectionFailedError:
    import httpx2

    chain = list(_chain(error))
    message = f"Cannot reach {_host(config)}: {text}"
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
    if any(
        isinstance(link, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError | httpx2.InvalidURL) for link in chain
    ):
        return ConnectionFailedError(message, retryable=False)
    return ConnectionFailedError(message)


def _chain(error: BaseException | None) -> "list[BaseException]":
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


def _host(config: ProviderConfig) -> str:
    return config.base_url or "api.anthropic.com"

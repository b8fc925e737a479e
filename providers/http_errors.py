"""Failures of HTTP in claw's words, the same for every wire API: no connection, a broken one, refusals, no stream.

The vendors' SDKs share one HTTP client and name their errors alike, so an adapter passes its SDK in. No text here holds a key.
"""

import math
import re
import ssl
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
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
)
from providers.sse import SseDecoder
from providers.transport import proxy_of
from providers.types import ProviderConfig

if TYPE_CHECKING:
    import httpx2

_SHOWN_CHARS = 1_000
_ERRNO = re.compile(r"^\[Errno -?\d+\] ")


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


def set_up_failure(error: Exception, config: ProviderConfig) -> ProviderError:
    """The error for a client that could not be built: the environment names a proxy or certificates that cannot be used."""
    reason = str(error) or type(error).__name__
    remedy = "Check the variables HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR."
    if isinstance(error, ImportError) and "socksio" in reason:
        reason = f"the proxy {proxy_of(config)} speaks SOCKS, and the package socksio is not installed"
        remedy = "Install it with: pip install socksio. Or name another proxy in HTTPS_PROXY and unset ALL_PROXY."
    text = redacted(f"No connection to {_place(config)} can be set up: {reason}", config)
    return ConnectionFailedError(text, retryable=False, remedy=remedy)


def tells_secret(error: BaseException, config: ProviderConfig) -> bool:
    """Whether a text in the chain of causes holds what must not be shown, so that the chain must not be either."""
    return any(redacted(str(link), config) != str(link) for link in _chain(error))


def no_stream(sse: SseDecoder, host: str) -> ProviderError:
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
    return ProtocolError(f"{host} answered with something that is no stream of events: {shown}")


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


def _redirected(response: "httpx2.Response", config: ProviderConfig) -> ProviderError:
    target = redacted(" ".join(response.headers.get("location", "an address that it does not name").split()), config)
    return ProtocolError(
        f"{response.url.host} answers with a redirect ({response.status_code}) to {target[:200]}",
        remedy="Redirects are not followed, since the key would go along: if you trust it, set base_url to that address.",
        status=response.status_code,
        request_id=request_id(response.headers),
    )


def _refused(response: "httpx2.Response", config: ProviderConfig) -> ProviderError:
    if 300 <= response.status_code < 400:
        return _redirected(response, config)
    text = response.text.strip()
    message, kind = error_fields(text)
    if text.startswith("<"):
        message = f"{response.url.host} sent an HTML page instead of an answer ({response.reason_phrase})"
    failure = classify(
        redacted(" ".join((message or text).split())[:_SHOWN_CHARS], config),
        status=response.status_code,
        kind=kind,
        request_id=request_id(response.headers),
        retry_after_s=retry_after(response.headers),
        hopeless=response.headers.get("x-should-retry") == "false",
    )
    if isinstance(failure, ContextOverflowError) and failure.window_tokens is None:
        failure.window_tokens = overflow_window(text)
    return failure


def _unreachable(error: Exception, text: str, config: ProviderConfig) -> ConnectionFailedError:
    import httpx2

    chain = _chain(error)
    proxy = proxy_of(config)
    message = f"Cannot reach {_place(config)}{f' through the proxy {proxy}' if proxy else ''}: {text}"
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
    """The most telling words of the chain: those of the deepest cause that has any, without the system's number."""
    for link in reversed(_chain(error)):
        if text := _ERRNO.sub("", str(link).strip()):
            return text
    return type(error).__name__


def _place(config: ProviderConfig) -> str:
    return config.base_url or f"the provider {config.name}"


# --------------------------------------------------------------------------- headers and secrets


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a response asks to wait (`retry-after-ms`, `retry-after` as seconds or a date), or None. Not negative.

    A date is compared with the response's own date where it has one, since the clock here may be wrong.
    """
    try:
        if "retry-after-ms" in headers:
            seconds = float(headers["retry-after-ms"]) / 1000
        elif re.fullmatch(r"\s*\d+(\.\d+)?\s*", value := headers.get("retry-after", "")):
            seconds = float(value)
        else:
            now_s = _moment(headers["date"]) if "date" in headers else time.time()
            seconds = _moment(value) - now_s
    except (ValueError, TypeError, OverflowError):
        return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _moment(date: str) -> float:
    return parsedate_to_datetime(date).timestamp()


_LEAST_SECRET_CHARS = 8
_KEY_SHAPE = re.compile(r"\b(sk|key|gsk|xai|AIza)[-_][A-Za-z0-9_\-]{16,}")
_LOG_IN = re.compile(r"(?<=://)[^/\s@]+@")


def redacted(text: str, config: ProviderConfig) -> str:
    """`text` without the provider's key, the values of its configured headers, log-ins in addresses, and anything shaped
    like a key.

    What is shorter than eight characters ("none", "x") is no secret, and hiding it would garble the text.
    """
    secrets = [*config.headers.values(), *([config.key.reveal()] if config.key else [])]
    for secret in sorted((s for s in secrets if len(s) >= _LEAST_SECRET_CHARS), key=len, reverse=True):
        text = text.replace(secret, "(hidden)")
    return _KEY_SHAPE.sub("(hidden)", _LOG_IN.sub("(hidden)@", text))

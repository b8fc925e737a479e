"""What must hold before a key leaves the machine: it is there, it fits into a header, and the address may have it.

And how every adapter's HTTP client is set up, so that nothing goes elsewhere.
"""

import contextlib
import importlib
import os
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from providers.errors import AuthenticationError, MissingKeyError, ProviderError
from providers.models import is_loopback
from providers.types import ProviderConfig

if TYPE_CHECKING:
    import httpx2

NO_KEY = "none"
"""Sent to servers of an own address that need no key; the SDKs insist on one."""
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_MOST_REFUSAL_BYTES = 64 * 1024
"""Of a refusal's body; what is behind it says nothing more."""
_FOR_REQUESTS = ("anyio._backends._asyncio", "httpcore2")


def check_key(config: ProviderConfig) -> str:
    """The key to send.

    Raises:
        ProviderError: there is none and the vendor's own address wants one, or it cannot stand in a header.
    """
    if not config.key:
        if config.base_url is None:
            raise MissingKeyError(f"There is no key for the provider {config.name}.")
        return NO_KEY
    key = config.key.reveal()
    if not all("!" <= char <= "~" for char in key):
        raise AuthenticationError(
            f"The key of the provider {config.name} holds a blank, a line break or another character that no key has.",
            remedy="Set the key again, without quotes and line breaks.",
        )
    return key


def check_address(config: ProviderConfig) -> None:
    """Refuse addresses that are no HTTP, and those that would carry a key over the network unencrypted.

    Raises:
        ProviderError: the address must not be used.
    """
    if config.base_url is None:
        return
    try:
        parts = urlsplit(config.base_url)
        host = parts.hostname
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host:
        raise ProviderError(
            f"The base_url of the provider {config.name} is no web address: {config.base_url}",
            remedy="Write it as https://HOST or https://HOST/PATH.",
        )
    if parts.scheme == "http" and (config.key or config.headers) and not is_loopback(config.base_url):
        raise ProviderError(
            f"The {'key' if config.key else 'headers'} of the provider {config.name} would go unencrypted to {host}.",
            remedy="Use https:// in base_url; http:// is for this machine only.",
        )


def check_headers(config: ProviderConfig) -> None:
    """Refuse headers that HTTP cannot carry. Their values may be secrets, so that none is repeated.

    Raises:
        ProviderError: a name or value must not be sent.
    """
    for name, value in config.headers.items():
        if not _HEADER_NAME.fullmatch(name) or not all(" " <= char <= "~" or char == "\t" for char in value):
            raise ProviderError(
                f"The header {name!r} of the provider {config.name} holds a character that no header can have.",
                remedy=f"Correct `headers` under [providers.{config.name}] in config.toml.",
            )


def headers_of(variable: str) -> list[str]:
    """Names of the headers that an SDK takes from a variable of the environment; they are meant for its vendor."""
    return [line.partition(":")[0].strip() for line in os.environ.get(variable, "").split("\n") if ":" in line]


def proxy_of(config: ProviderConfig) -> str:
    """HOST:PORT of the proxy that the environment names for this provider, without its log-in; empty if there is none."""
    if is_loopback(config.base_url):
        return ""
    from urllib.request import getproxies, proxy_bypass

    try:
        parts = urlsplit(config.base_url or "https://")
        proxies = getproxies()
        named = proxies.get(parts.scheme) or proxies.get("all") or ""
        if not named or (parts.hostname and proxy_bypass(parts.hostname)):
            return ""
        return urlsplit(named if "://" in named else f"//{named}").netloc.rpartition("@")[2]
    except ValueError:
        return ""


def connect_timeout(config: ProviderConfig) -> "httpx2.Timeout":
    """The only time-out of a stream: agent/retry.py watches the rest."""
    import httpx2

    return httpx2.Timeout(None, connect=config.connect_timeout_s)


def client_options(config: ProviderConfig) -> dict[str, Any]:
    """Arguments of the HTTP client: a redirect would carry headers to another host, and this machine is behind no proxy."""
    return {
        "follow_redirects": False,
        "timeout": connect_timeout(config),
        "trust_env": not is_loopback(config.base_url),
        "event_hooks": {"response": [_shorten_refusal]},
    }


async def _shorten_refusal(response: "httpx2.Response") -> None:
    """The SDKs read a refusal's body whole, and it may never end."""
    if response.status_code < 400:
        return
    import httpx2

    class Start(httpx2.AsyncByteStream):
        def __init__(self, whole: Any) -> None:
            self._whole = whole

        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = _MOST_REFUSAL_BYTES
            async for chunk in self._whole:
                yield chunk[:left]
                left -= len(chunk)
                if left <= 0:
                    return

        async def aclose(self) -> None:
            await self._whole.aclose()

    response.stream = Start(response.stream)


def import_for_requests(*more: str) -> None:
    """Import what an SDK imports with its first request only, so that the event loop need not."""
    for module in (*_FOR_REQUESTS, *more):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)

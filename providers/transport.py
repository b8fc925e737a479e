"""What must hold before a key leaves the machine: it is there, it fits into a header, and the address may have it.

And how every adapter's HTTP client is set up, so that nothing goes elsewhere.
"""

import contextlib
import importlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from providers.errors import AuthenticationError, MissingKeyError, ProviderError
from providers.models import is_loopback
from providers.types import ProviderConfig

if TYPE_CHECKING:
    import httpx2

NO_KEY = "none"
"""Sent to servers of an own address that need no key; the SDKs insist on one."""
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
    if parts.scheme == "http" and config.key and not is_loopback(config.base_url):
        raise ProviderError(
            f"The key of the provider {config.name} would go unencrypted to {host}.",
            remedy="Use https:// in base_url; http:// is for this machine only.",
        )


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
    }


def import_for_requests(*more: str) -> None:
    """Import what an SDK imports with its first request only, so that the event loop need not."""
    for module in (*_FOR_REQUESTS, *more):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)

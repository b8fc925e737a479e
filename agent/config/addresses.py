"""Addresses of model servers: which are acceptable, and how each wire API wants them written. Nothing is looked up."""

import re
from urllib.parse import urlsplit

from providers.models import is_this_machine
from providers.types import WireApi

_ENDPOINTS = re.compile(r"/(?:messages|responses|chat/completions|models)$")
_VERSION = re.compile(r"/v\d[a-z0-9]*(?:/|$)")


def address_fault(url: str) -> str:
    """Why a key must not be sent to this address, or why it is none; empty if it is fine. Never repeats the address."""
    text = url.strip()
    if not text or not text.isprintable() or " " in text or "\\" in text:
        return "it is empty, or contains a space, a backslash or a control character"
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"it is no address ({error})" if "port" in str(error).lower() else "it is no address"
    if parts.scheme not in ("http", "https"):
        return "it does not begin with https:// or http://"
    if not host:
        return "it names no host"
    if "@" in parts.netloc:
        return "it contains a user name or password; use auth.json, key_env or headers for these"
    if parts.query or parts.fragment or text.endswith(("?", "#")):
        return "it has a part after ? or #"
    if parts.scheme == "http" and not is_this_machine(host):
        return "http:// would send the key unencrypted; it is allowed for this machine alone"
    return ""


def normalised(url: str, api: WireApi) -> str:
    """The address as the SDK of `api` wants it: Anthropic's without `/v1`, the others' with a version.

    It may be written with or without either, with a final slash, or with the endpoint that documentation shows
    (`…/v1/messages`). A path that already has a version (`/v4`, `/v1beta/openai`) keeps it.
    """
    text = _ENDPOINTS.sub("", url.strip().rstrip("/"))
    if api == "anthropic":
        return text.removesuffix("/v1").rstrip("/")
    path = urlsplit(text).path
    return text if _VERSION.search(path) else f"{text}/v1"

"""The events of an Anthropic Messages stream as they stand on the wire: their shapes, and reading one from its bytes."""

import json
from typing import Any

import msgspec
from msgspec import Struct

from providers.errors import ProtocolError

_KNOWN = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
        "error",
    }
)


class WireUsage(Struct):
    """Loosely typed, since an odd figure is no reason to lose a reply."""

    input_tokens: Any = None
    cache_read_input_tokens: Any = None
    cache_creation_input_tokens: Any = None
    output_tokens: Any = None
    output_tokens_details: Any = None


class WireMessage(Struct):
    usage: WireUsage | None = None


class WireStopDetails(Struct):
    category: str | None = None
    explanation: str | None = None


class WireDelta(Struct):
    """All kinds of delta in one, since one decoder for everything is the quickest."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None
    stop_details: WireStopDetails | None = None


class WireError(Struct):
    type: str = ""
    message: str = ""


class WireEvent(Struct):
    type: str = ""
    index: int = -1
    delta: WireDelta | None = None
    content_block: dict[str, Any] | None = None
    message: WireMessage | None = None
    usage: WireUsage | None = None
    error: WireError | None = None
    request_id: str | None = None


_decode = msgspec.json.Decoder(WireEvent).decode


def parse_event(name: str, data: bytes) -> WireEvent | None:
    """One event, or None for those to pass over."""
    try:
        event = _decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return _odd_event(name, data, error)
    if not event.type:
        event.type = name
    if not event.type and event.error is not None:
        event.type = "error"
    return event if event.type in _KNOWN else None


def _odd_event(name: str, data: bytes, error: Exception) -> WireEvent | None:
    """An event of no known shape: foreign ones are passed over, lone surrogates are let through, the rest is an error."""
    if data.strip() == b"[DONE]" or (name and name not in _KNOWN):
        return None
    try:
        value = json.loads(data)
        kind = value.get("type", name) if isinstance(value, dict) else name
        if kind and isinstance(kind, str) and kind not in _KNOWN:
            return None
        return msgspec.convert(value, WireEvent)
    except (ValueError, RecursionError, msgspec.ValidationError):
        shown = data[:200].decode("utf-8", "replace")
        raise ProtocolError(f"The server sent an event that cannot be read ({error}): {shown}") from error

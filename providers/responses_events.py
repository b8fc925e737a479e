"""The events of a Responses stream as the wire has them: loosely typed, so that no unknown event or odd field can fail.

Also what a failure report or a usage report of this API means.
"""

import json
from typing import Any

import msgspec
from msgspec import Struct

from providers.errors import BadRequestError, ProtocolError, ProviderError, classify
from providers.figures import tokens
from providers.types import Usage
from providers.unicode import clean

_NONE = msgspec.Raw(b"null")
# Codes of a failed response that the same request would meet again.
_HOPELESS = ("invalid_", "image_", "empty_image", "unsupported_", "bio_", "misalignment_", "data_residency")


class WireEvent(Struct):
    """The few fields that matter of any event; loosely typed ones stay raw, so that no unknown event can fail here."""

    type: str = ""
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    delta: msgspec.Raw = _NONE
    arguments: msgspec.Raw = _NONE
    item: msgspec.Raw = _NONE
    response: msgspec.Raw = _NONE
    error: msgspec.Raw = _NONE
    code: msgspec.Raw = _NONE
    message: msgspec.Raw = _NONE


_decoder = msgspec.json.Decoder(WireEvent)
_text_decoder = msgspec.json.Decoder(str)


def decode(data: bytes) -> WireEvent:
    """One event.

    Raises:
        ProtocolError: not JSON, or no object.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        try:
            # Lone surrogates, which are JSON but no UTF-8; and unknown events whose fields have other types.
            value = json.loads(data.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            start = data[:200].decode("utf-8", "replace")
            raise ProtocolError(f"The server sent an event that is not JSON: {start}") from error
    if not isinstance(value, dict):
        raise ProtocolError(f"The server sent an event that is no object: {data[:200].decode('utf-8', 'replace')}")
    event = WireEvent(value["type"] if isinstance(value.get("type"), str) else "")
    for field in WireEvent.__struct_fields__[1:]:
        found = value.get(field)
        if not field.endswith("_index"):
            setattr(event, field, msgspec.Raw(json.dumps(found).encode()))
        elif isinstance(found, int):
            setattr(event, field, found)
    return event


def text_of(raw: msgspec.Raw) -> str:
    """A JSON string; "" for anything else. May hold lone surrogates."""
    try:
        return _text_decoder.decode(raw)
    except msgspec.DecodeError:
        value = json.loads(bytes(raw).decode("utf-8", "replace"))
        return value if isinstance(value, str) else ""


def argument_text(raw: msgspec.Raw) -> str | None:
    """Arguments are a JSON string that holds JSON; some servers send the object itself."""
    value = any_of(raw)
    return None if value is None else json_text(value)


def json_text(value: Any) -> str:
    """A string as it is, anything else as JSON."""
    return clean(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def any_of(raw: msgspec.Raw) -> Any:
    """Any JSON value; None where it is broken."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        try:
            return json.loads(bytes(raw).decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None


def object_of(raw: msgspec.Raw) -> dict[str, Any]:
    """A JSON object; empty for anything else."""
    value = any_of(raw)
    return value if isinstance(value, dict) else {}


def dicts(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; empty for anything else."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def word(item: dict[str, Any], field: str) -> str:
    """A field's string; "" for anything else."""
    value = item.get(field)
    return value if isinstance(value, str) else ""


def call_id(item: dict[str, Any]) -> str:
    """By which a result names its call."""
    return word(item, "call_id") or word(item, "id")


def usage_of(value: Any) -> Usage:
    """The report, normalised: the API's `input_tokens` holds what came from a cache or went into one."""
    if not isinstance(value, dict):
        return Usage()
    inputs, outputs = value.get("input_tokens_details"), value.get("output_tokens_details")
    total, output = _tokens(value, "input_tokens"), _tokens(value, "output_tokens")
    read, written = _tokens(inputs, "cached_tokens"), _tokens(inputs, "cache_write_tokens")
    # A server whose total is smaller than its parts does not count the cached ones in.
    fresh = total - read - written if total >= read + written else total
    return Usage(fresh, read, written, output, min(_tokens(outputs, "reasoning_tokens"), output))


def _tokens(holder: Any, field: str) -> int:
    return tokens(holder.get(field)) if isinstance(holder, dict) else 0


def stream_error(event: WireEvent) -> ProviderError:
    """An `error` event; its fields stand at its top, or inside `error`."""
    error = any_of(event.error)
    if isinstance(error, dict):
        return failure(error)
    return failure({"code": any_of(event.code), "message": any_of(event.message) or error})


def failure(error: Any) -> ProviderError:
    """The error for an error object of this API, inside a stream or a failed response."""
    fields = error if isinstance(error, dict) else {}
    code = word(fields, "code") or word(fields, "type")
    message = clean(word(fields, "message")) or code or "The provider reported a failure without saying why."
    found = classify(message, kind=code)
    if found.retryable and code.startswith(_HOPELESS):
        return BadRequestError(message)
    return found

"""Entries that a newer claw wrote: telling them from damage, and from entries of ours, so that nothing of them is ever lost."""

from typing import Any

import msgspec

from agent.transcript import Payload, Unknown, decode_payload, encode_payload

_NEWER = ("Invalid value", "Invalid enum value")
"""How msgspec begins to say that a kind or a choice is none that it was told of."""


def decode_row(kind: object, raw: bytes | str) -> tuple[Payload, bool]:
    """The payload, and whether it holds more than this claw knows: its kind, a kind inside it, or a field.

    Raises:
        msgspec.DecodeError, TypeError: damaged, or not even bytes.
    """
    try:
        payload = decode_payload(raw)
    except msgspec.ValidationError as error:
        if not str(error).startswith(_NEWER) or not isinstance(kind, str):
            raise
        plain = msgspec.json.decode(raw)
        if plain.get("type") != kind:  # what wrote it would have said so in both places
            raise
        return Unknown(kind, len(raw)), True
    if isinstance(payload, Unknown):
        return payload, True
    # Mostly the bytes are what this claw would write, which is quickly seen.
    return payload, encode_payload(payload) != raw and _has_more(msgspec.json.decode(raw), payload)


def _has_more(plain: Any, value: Any) -> bool:
    """Whether the JSON has a field, anywhere, that the value decoded from it does not have. In a dictionary are plain
    values alone."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        known = dict(zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True))
        return any(
            field != config.tag_field and (field not in known or _has_more(inner, getattr(value, known[field])))
            for field, inner in plain.items()
        )
    if isinstance(value, tuple | list):
        return any(_has_more(inner, item) for inner, item in zip(plain, value, strict=True))
    return False

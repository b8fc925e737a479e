"""Texts that servers send and APIs refuse: lone surrogates (which JSON can spell and UTF-8 cannot), odd names and ids."""

import hashlib
import re
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


def clean(text: str) -> str:
    """`text` as it can be encoded: halves that belong together are joined, the others become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def to_json(value: Any) -> bytes:
    """JSON in valid UTF-8, whatever text the value holds."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_cleaned(value))


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): _cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return value


class SurrogateJoiner:
    """Cleans a text that comes in pieces, also where a piece ends in the middle of a character."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """The piece as it can be shown; its last half character is held back until the next piece."""
        text = self._held + piece
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return clean(text)

    def flush(self) -> str:
        """What was held back when the text ended."""
        text, self._held = self._held, ""
        return clean(text)


_NAME_CHARS = 64
"""The shortest limit of all APIs."""


def wire_name(name: str) -> str:
    """A tool name that the APIs take: models also call tools that do not exist, under any name."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:_NAME_CHARS] or "unnamed"


def wire_id(call_id: str, most_chars: int) -> str:
    """A call's id as an API takes it. Other servers write longer ones; the hash keeps different ids different."""
    if len(call_id) <= most_chars and re.fullmatch(r"[a-zA-Z0-9_-]+", call_id):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    kept = re.sub(r"[^a-zA-Z0-9_-]", "_", call_id)[: most_chars - len(digest) - 1]
    return f"{kept}_{digest}"


def nine_characters(call_id: str) -> str:
    """The id for servers that want exactly nine letters and digits."""
    if re.fullmatch(r"[a-zA-Z0-9]{9}", call_id):
        return call_id
    return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:9]

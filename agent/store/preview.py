"""The end of a session, read without reading the rest: what was said last on the branch that counts."""

import contextlib
import sqlite3
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from msgspec import Struct

from agent.recall import entry_text
from agent.store.damaged import read_what_is_left
from agent.store.mending import UNREADABLE
from agent.transcript import Assistant, Entry, User, decode_payload
from providers.types import TextBlock

_MOST_ROWS = 400
"""Looked at from the end; a long run of tool calls has no message in it."""
_MOST_CHARS = 4_000
"""Of one message."""
_MOST_PAYLOAD_BYTES = 4 * 1024 * 1024


class Said(Struct, frozen=True):
    key: int
    kind: str
    """user or assistant."""
    text: str
    """Foreign text, cut in length."""


def last_messages(path: Path, count: int = 6) -> tuple[Said, ...]:
    """The last messages with a text, the oldest first.

    Raises:
        SchemaError: nothing of the file can be read.
    """
    return ending(path, count)[0]


def ending(path: Path, count: int = 6) -> tuple[tuple[Said, ...], str]:
    """The last messages, and what to tell of a damaged file; empty for a whole one.

    Raises:
        SchemaError: nothing of the file can be read.
    """

    def read(connection: sqlite3.Connection) -> tuple[Said, ...]:
        messages = ((entry, _text(entry)) for entry in _back_from_head(connection))
        said = (Said(entry.key, entry.kind, text[:_MOST_CHARS]) for entry, text in messages if text)
        return tuple(reversed(tuple(islice(said, count))))

    said, damage = read_what_is_left(path, read)
    return said, damage.told


def _back_from_head(connection: sqlite3.Connection) -> Iterator[Entry]:
    """The entries of the branch, the newest first; what cannot be read or is no message is passed over."""
    wanted: int | None = None
    rows = connection.execute(
        "SELECT key, parent, time_ms, CASE WHEN kind IN ('user', 'assistant') AND length(payload) <= ? "
        "THEN payload END FROM entry ORDER BY key DESC LIMIT ?",
        (_MOST_PAYLOAD_BYTES, _MOST_ROWS),
    )
    for number, (key, parent, time_ms, payload) in enumerate(rows):
        if number and key != wanted:
            continue
        wanted = parent
        if payload is not None:
            with contextlib.suppress(*UNREADABLE):
                yield Entry(key, parent, time_ms, decode_payload(payload))


def _text(entry: Entry) -> str:
    match entry.payload:
        case User():
            return entry_text(entry).strip()
        case Assistant(blocks=blocks):
            return "\n".join(block.text for block in blocks if isinstance(block, TextBlock)).strip()
    return ""

"""One line of a listing of sessions, and how it is made of what the index holds, or of a file's name and time alone."""

import contextlib
import re
import time

from msgspec import Struct

from agent.store.base import SessionMeta
from agent.store.scan import FoundFile

_ID_TIME = re.compile(r"\d{8}-\d{6}")


class SessionInfo(Struct, frozen=True):
    """One line of a listing."""

    id: str
    project: str
    created_ms: int
    updated_ms: int
    title: str
    entries: int
    tokens: int = 0
    """Sent to models and received from them."""
    cost_usd: float | None = None
    """None where no price is known."""
    size_bytes: int = 0
    forked_from: str | None = None
    is_known: bool = True
    """False while only the name and the time of the file are."""


class StoredFacts(Struct, frozen=True):
    """What a listing needs of a session's `Facts`; to read no more of them is half the time."""

    meta: SessionMeta
    updated_ms: int = 0
    first_line: str = ""
    given_title: str = ""
    entries: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    damage: str = ""


def info_of(file: FoundFile, stored: StoredFacts) -> SessionInfo:
    meta = stored.meta
    return SessionInfo(
        file.id,  # of a file that was copied, another than it says itself
        meta.project,
        meta.created_ms,
        stored.updated_ms,
        stored.given_title or stored.first_line,
        stored.entries,
        stored.tokens,
        stored.cost_usd,
        file.size_bytes,
        meta.forked_from,
    )


def unread_info(file: FoundFile) -> SessionInfo:
    created_s = file.changed_s
    if match := _ID_TIME.match(file.id):
        with contextlib.suppress(ValueError, OverflowError):
            created_s = time.mktime(time.strptime(match[0], "%Y%m%d-%H%M%S"))
    changed_ms = int(file.changed_s * 1000)
    return SessionInfo(
        file.id, "", int(created_s * 1000), changed_ms, "", 0, size_bytes=file.size_bytes, is_known=False
    )

"""What the index keeps of a session, read from its file: facts for a listing, and the text that can be searched.

Entries are only ever added, so a digest begins behind the last entry that is known. Decisions: of a long result the
beginning and the end can be searched, of everything else the first 64,000 characters; beyond four million characters a
session adds only its user's messages. Within a session, the session's own search looks at everything.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agent.recall import TOOL, entry_text
from agent.store.base import SessionMeta
from agent.store.damaged import read_what_is_left
from agent.store.mending import UNREADABLE, time_of
from agent.store.reading import read_meta
from agent.store.titles import first_line
from agent.transcript import Assistant, Compaction, Entry, Result, Setting, User, decode_payload

MOST_SESSION_CHARS = 4_000_000
_MOST_CHARS = 64_000
_RESULT_HEAD_CHARS = 3_000
_RESULT_TAIL_CHARS = 1_000
_MOST_PAYLOAD_BYTES = 16 * 1024 * 1024
_READ_KINDS = "('user', 'assistant', 'result', 'compaction', 'pin', 'setting')"


class Page(Struct, frozen=True):
    """The text of one entry that can be searched."""

    key: int
    kind: str
    time_ms: int
    body: str


class Facts(Struct, frozen=True):
    """What is known of a session up to an entry. The newest titles win; sums are of everything up to there."""

    meta: SessionMeta
    updated_ms: int = 0
    first_line: str = ""
    given_title: str = ""
    entries: int = 0
    tokens: int = 0
    """Sent to models and received from them, as far as they said."""
    cost_usd: float | None = None
    """None where no price is known."""
    last_key: int = 0
    last_time_ms: int = 0
    chars: int = 0
    """Of all pages."""
    damage: str = ""
    """What to tell of a damaged file, of which only what is left was read."""

    @property
    def title(self) -> str:
        return self.given_title or self.first_line


class Digest(Struct, frozen=True):
    facts: Facts
    pages: tuple[Page, ...]
    """Those behind the entry that was known before."""
    whole: bool
    """Whether it begins at the first entry: what was known before is void."""


def digest(path: Path, known: Facts | None = None) -> Digest:
    """Read what is new in a session since `known`; everything, if that was not about this file or the file is damaged.

    Raises:
        SchemaError: nothing of the file can be read.
    """

    def read(connection: sqlite3.Connection) -> Digest:
        if known is not None and not known.damage and _goes_on(connection, read_meta(connection, path), known):
            return _Reader(known).read(connection, whole=False)
        return _first(connection, path)

    found, damage = read_what_is_left(path, read)
    if damage.told and not found.whole:
        found, damage = read_what_is_left(path, lambda connection: _first(connection, path))
    return replace(found, facts=replace(found.facts, damage=damage.told)) if damage.told else found


def _first(connection: sqlite3.Connection, path: Path) -> Digest:
    meta = read_meta(connection, path)
    return _Reader(Facts(meta, meta.created_ms)).read(connection, whole=True)


def _goes_on(connection: sqlite3.Connection, meta: SessionMeta, known: Facts) -> bool:
    row = connection.execute("SELECT time_ms FROM entry WHERE key = ?", (known.last_key,)).fetchone()
    return meta == known.meta and row is not None and row[0] == known.last_time_ms


class _Reader:
    """Folds entries into facts."""

    def __init__(self, start: Facts) -> None:
        self._start = start
        self._first_line, self._given = start.first_line, start.given_title
        self._tokens, self._cost = start.tokens, start.cost_usd
        self._chars = start.chars
        self._pages: list[Page] = []

    def read(self, connection: sqlite3.Connection, *, whole: bool) -> Digest:
        start = self._start
        key, time_ms, count, updated = start.last_key, start.last_time_ms, 0, start.updated_ms if not whole else 0
        for key, time_ms, payload in _rows(connection, start.last_key):
            count += 1
            time_ms = time_of(time_ms, 0)
            updated = max(updated, time_ms)
            if payload is not None:
                with contextlib.suppress(*UNREADABLE):  # an unreadable row costs only itself
                    self._take(Entry(key, None, time_ms, decode_payload(payload)))
        facts = Facts(
            start.meta,
            updated or start.meta.created_ms,
            self._first_line,
            self._given,
            start.entries + count,
            self._tokens,
            self._cost,
            key,
            time_ms,
            self._chars,
        )
        return Digest(facts, tuple(self._pages), whole)

    def _take(self, entry: Entry) -> None:
        match entry.payload:
            case Setting(title=str(title)):
                self._given = title
                return
            case Assistant(usage=usage, cost_usd=cost) | Compaction(usage=usage, cost_usd=cost):
                self._tokens += usage.prompt_tokens + usage.output_tokens
                if cost is not None:
                    self._cost = (self._cost or 0.0) + cost
            case User() as user:
                self._first_line = self._first_line or first_line(user)
            case Result(tool=tool) if tool == TOOL:
                return
        if self._chars < MOST_SESSION_CHARS or isinstance(entry.payload, User):
            self._add_page(entry)

    def _add_page(self, entry: Entry) -> None:
        text = entry_text(entry)
        if isinstance(entry.payload, Result) and len(text) > _RESULT_HEAD_CHARS + _RESULT_TAIL_CHARS:
            text = f"{text[:_RESULT_HEAD_CHARS]}\n…\n{text[-_RESULT_TAIL_CHARS:]}"
        body = text[:_MOST_CHARS].replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
        if body.strip():
            self._chars += len(body)
            self._pages.append(Page(entry.key, entry.kind, entry.time_ms, body))


def _rows(connection: sqlite3.Connection, after: int) -> Iterator[tuple[int, int, bytes | None]]:
    """Key, time and payload of the entries behind one; no payload of what holds nothing for the index."""
    return connection.execute(
        f"SELECT key, time_ms, CASE WHEN kind IN {_READ_KINDS} AND length(payload) <= {_MOST_PAYLOAD_BYTES} "
        "THEN payload END FROM entry WHERE key > ? ORDER BY key",
        (after,),
    )

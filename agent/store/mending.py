"""Rows of the entry table as entries of a transcript, whatever stands in the rows: what is no entry is passed over, parents
that lead nowhere are put right, and what is lost leaves a mark where the conversation could not go on without.

Decisions: only a rewind's parent is another than the entry before it (a session is built so, a fork keeps it), so that is
what every other parent becomes; a rewind whose target is lost goes to the entry before the target. A mark is a message of
claw's own under a lost key, where a reply would otherwise stand first or behind a finished reply.
"""

import bisect
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from agent.store.unknown import decode_row
from agent.transcript import Assistant, Compaction, Entry, Payload, Result, Rewind, User
from providers.types import TextBlock, ToolCall

MOST_KEY = 10_000_000
"""A higher key was never given, and a session could not count on behind it."""
_END_OF_TIME_MS = 1 << 43
"""In the year 2248; beyond it not every platform has a calendar."""
LOST_MESSAGE = "[A message that stood here was lost: the session's file was damaged.]"
UNREADABLE = (msgspec.MsgspecError, TypeError, ValueError, AttributeError, RecursionError)
"""What decoding says of bytes that nobody wrote so."""
ROWS = "SELECT key, parent, kind, time_ms, payload FROM entry ORDER BY key"
Row = tuple[object, object, object, object, object]
"""As `ROWS` gives them; each column holds whatever it holds."""


class Mended(Struct, frozen=True):
    entries: tuple[Entry, ...]
    """Their keys grow, each parent is an earlier entry."""
    garbage: frozenset[int]
    """Keys of rows that hold nothing that was ever an entry."""
    unknown: int
    """How many entries hold what only a newer claw knows."""
    changed: frozenset[int]
    """Keys of entries that are not as they stand in their rows: marks, and those with another parent or time."""
    missing: frozenset[int]
    """Keys of entries that must have been there: the one before each that is no rewind. More may be lost before them."""

    @property
    def is_damaged(self) -> bool:
        return bool(self.garbage or self.changed)


Decoded = tuple[Payload, bool]


def decoded(kind: object, raw: object) -> Decoded | None:
    """A row's payload, and whether it holds more than this claw knows. None: not what was written, or not even bytes."""
    try:
        return decode_row(kind, raw)  # type: ignore[arg-type]  # whatever it is, it says so
    except UNREADABLE:
        return None


def time_of(value: object, otherwise: int) -> int:
    """A time in milliseconds that can be shown, whatever stands there."""
    return value if type(value) is int and 0 <= value < _END_OF_TIME_MS else otherwise


def mend(rows: Iterable[Row]) -> Mended:
    """`rows` in the order of a healthy table; one whose key does not grow is passed over."""
    return mend_decoded((key, parent, time_ms, decoded(kind, raw)) for key, parent, kind, time_ms, raw in rows)


def mend_decoded(rows: Iterable[tuple[object, object, object, Decoded | None]]) -> Mended:
    """The same for rows (key, parent, time_ms, and what `decoded` gave)."""
    mending = _Mending()
    for row in rows:
        mending.take(*row)
    return Mended(
        tuple(mending.entries),
        frozenset(mending.garbage),
        mending.unknown,
        frozenset(mending.changed),
        frozenset(mending.missing - mending.garbage),
    )


class _Mending:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.garbage: set[int] = set()
        self.unknown = 0
        self.changed: set[int] = set()
        self.missing: set[int] = set()
        self._keys: list[int] = []
        self._last_key = 0
        self._spoke: Payload | None = None
        """The last of the entries on the branch that make a message."""
        self._spoken: list[Payload | None] = []
        """The same as it was at each of the entries."""
        self._calls: set[str] = set()
        self._gap: int | None = None
        """Before which entry something is lost since then."""

    def take(self, key: object, parent: object, time_ms: object, found: Decoded | None) -> None:
        if type(key) is not int or found is None or not self._last_key < key <= MOST_KEY:
            self.garbage.add(key if type(key) is int else 0)
            return
        payload, is_newer = found
        self.unknown += is_newer
        if key - 1 != self._last_key and not isinstance(payload, Rewind):
            self.missing.add(key - 1)
            self._gap = len(self.entries)
        if isinstance(payload, Assistant) and self._gap is not None and self._would_stand_alone():
            self._mark(self._gap, key)
        before = self._keys[-1] if self._keys else None
        right = self._target(parent, before) if isinstance(payload, Rewind) else before
        right_time = time_of(time_ms, self.entries[-1].time_ms if self.entries else 0)
        if right_time != time_ms or right != parent:
            self.changed.add(key)
        self._add(Entry(key, right, right_time, payload))

    def _target(self, parent: object, before: int | None) -> int | None:
        if parent is None:
            return None
        if type(parent) is not int or before is None or parent > before:
            return before
        place = bisect.bisect_right(self._keys, parent)
        return self._keys[place - 1] if place else None

    def _would_stand_alone(self) -> bool:
        """Whether a reply that came now would answer nothing."""
        spoke = self._spoke
        if isinstance(spoke, Assistant):
            return not any(isinstance(block, ToolCall) for block in spoke.blocks)
        return spoke is None

    def _makes_message(self, payload: Payload) -> bool:
        """A result whose call was lost does not: the window leaves it out."""
        if isinstance(payload, Result):
            return payload.call_id in self._calls
        return isinstance(payload, User | Assistant | Compaction)

    def _mark(self, place: int, key: int) -> None:
        """Put a mark before the entry at a place, where something is lost; `key` is the entry's that is to come."""
        after = self.entries[place] if place < len(self.entries) else None
        before = self.entries[place - 1] if place else None
        lost = (key if after is None else after.key) - 1
        time_ms = before.time_ms if before is not None else 0
        text = User((TextBlock(LOST_MESSAGE),), synthetic=True)
        self.entries.insert(place, Entry(lost, before.key if before is not None else None, time_ms, text))
        self._keys.insert(place, lost)
        self._spoken[place:] = [text] * (len(self._spoken) - place + 1)
        self.changed.add(lost)
        if after is not None:
            self.entries[place + 1] = Entry(after.key, lost, after.time_ms, after.payload)
            self.changed.add(after.key)

    def _add(self, entry: Entry) -> None:
        if isinstance(entry.payload, Assistant):
            self._calls.update(block.id for block in entry.payload.blocks if isinstance(block, ToolCall))
        if self._makes_message(entry.payload):
            self._spoke, self._gap = entry.payload, None
        elif isinstance(entry.payload, Rewind):
            target = bisect.bisect_left(self._keys, entry.parent) if entry.parent is not None else None
            self._spoke = self._spoken[target] if target is not None else None
        self.entries.append(entry)
        self._keys.append(entry.key)
        self._spoken.append(self._spoke)
        self._last_key = entry.key

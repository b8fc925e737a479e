"""The rows that were found in a damaged session file: which of them count, how they are put right among themselves, and what is
known to be lost. A row is known by what it must be: an entry decodes, a blob has its hash. Where it was found is not known here.
"""

import hashlib
import sqlite3
from collections.abc import Iterator

from msgspec import Struct

from agent.store.mending import MOST_KEY, Decoded, Mended, decoded, mend_decoded
from agent.store.queue_rows import insert_message, message_of
from agent.transcript import AttachmentBlock, Entry, Result, Setting, Unknown, User, encode_payload
from providers.types import ImageBlock


class Salvage(Struct, frozen=True):
    """What could be saved of a session file, and what is known to be lost."""

    entries: int = 0
    lost_entries: int = 0
    """At least so many."""
    blobs: int = 0
    lost_blobs: int = 0
    """Those that saved entries name."""
    messages: int = 0
    is_queue_lost: bool = False
    missing_bytes: int = 0
    """Cut off from the file's end."""


class Saved:
    """What was found so far, by what it must be to count."""

    def __init__(self, target: sqlite3.Connection, id_: str) -> None:
        self._target = target
        self._id = id_
        self.entries: dict[int, tuple[object, object, Decoded]] = {}
        """Parent, time and payload of each entry."""
        self.unreadable: set[int] = set()
        self.blobs: set[str] = set()
        self.meta: dict[str, str] = {}
        self.messages: set[int] = set()

    def entry(self, key: object, parent: object, kind: object, time_ms: object, raw: object) -> None:
        if type(key) is not int or not 0 < key <= MOST_KEY or key in self.entries:
            return
        found = decoded(kind, raw)
        if found is None:
            self.unreadable.add(key)
            return
        payload, _ = found
        name = payload.kind if isinstance(payload, Unknown) else payload.__struct_config__.tag
        row = (key, parent, name, time_ms if time_ms is not None else 0, raw)
        self._target.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", row)
        self.entries[key] = (parent, time_ms, found)

    def blob(self, name: object, data: object) -> None:
        if not isinstance(data, bytes) or name in self.blobs or hashlib.sha256(data).hexdigest() != name:
            return
        self._target.execute("INSERT INTO blob VALUES (?, ?)", (name, data))
        self.blobs.add(name)

    def named(self, name: object, value: object) -> None:
        if isinstance(name, str) and isinstance(value, str) and "\ufffd" not in value:
            self.meta.setdefault(name, value)

    def count(self, key: object, tokenizer: object, tokens: object) -> None:
        if type(key) is int and type(tokens) is int and isinstance(tokenizer, str) and 0 < key <= MOST_KEY:
            self._target.execute("INSERT OR IGNORE INTO count VALUES (?, ?, ?)", (key, tokenizer, tokens))

    def message(self, id_: object, text: object, delivery: object = "step", user: object = None) -> None:
        if type(id_) is int and 0 < id_ <= MOST_KEY and isinstance(text, str) and id_ not in self.messages:
            insert_message(self._target, message_of(id_, text, delivery, user))
            self.messages.add(id_)

    def finish(self, *, is_queue_lost: bool, missing_bytes: int) -> Salvage:
        """Put the entries right among themselves and write what stands beside them."""
        if not self.entries:
            return Salvage(missing_bytes=missing_bytes)
        mended = mend_decoded((key, *self.entries[key]) for key in sorted(self.entries))
        for entry in mended.entries:
            if entry.key in mended.changed and entry.key in self.entries:
                row = (entry.parent, entry.time_ms, entry.key)
                self._target.execute("UPDATE entry SET parent = ?, time_ms = ? WHERE key = ?", row)
            elif entry.key in mended.changed:
                new = (entry.key, entry.parent, entry.kind, entry.time_ms, encode_payload(entry.payload))
                self._target.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", new)
        lost = self._lost_entries(mended)
        self._write_meta(mended)
        named = {name for entry in mended.entries for name in blob_names(entry)}
        return Salvage(
            len(self.entries),
            lost,
            len(self.blobs),
            len(named - self.blobs),
            len(self.messages),
            is_queue_lost,
            missing_bytes,
        )

    def _lost_entries(self, mended: Mended) -> int:
        lost = (self.unreadable | mended.missing) - self.entries.keys()
        if "id" in self.meta and "forked_from" not in self.meta:  # a fork has gaps where other branches were
            last = max(self.entries)
            return last - len(self.entries) + sum(key > last for key in lost)
        return len(lost)

    def _write_meta(self, mended: Mended) -> None:
        said = [entry.payload.cwd for entry in mended.entries if isinstance(entry.payload, Setting)]
        folder = next((cwd for cwd in said if cwd), "")  # where it was begun is mostly its project
        created = str(mended.entries[0].time_ms)
        rows = {"id": self._id, "project": folder, "created_ms": created} | self.meta
        self._target.executemany("INSERT INTO meta VALUES (?, ?)", rows.items())


def blob_names(entry: Entry) -> Iterator[str]:
    """Hashes of the blobs that an entry names."""
    payload = entry.payload
    if not isinstance(payload, User | Result):
        return
    for block in payload.blocks:
        if isinstance(block, ImageBlock | AttachmentBlock) and block.sha256:
            yield block.sha256
    if isinstance(payload, Result) and payload.spill is not None:
        yield payload.spill.sha256

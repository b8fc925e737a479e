"""The index of all sessions: what a listing shows of each, and a search through the text of all of them.

It follows the session files and never leads: a row whose file has changed is read again, from the first new entry on,
and a session that is not in it yet is listed by its name and time. Who lists decides when the rest is read.
"""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

from agent.store.index_file import BUSY_S, IndexFile
from agent.store.scan import FoundFile, look, scan, status_of
from agent.store.schema import SchemaError
from agent.store.session_info import SessionInfo, StoredFacts, info_of, unread_info

if TYPE_CHECKING:
    from agent.store.digest import Digest, Facts
    from agent.store.index_search import Found

T = TypeVar("T")

BATCH = 25
"""Sessions that are read before anything is shown of them, and written in one transaction."""
_NOTE_BYTES = 4 * 1024 * 1024
"""More than this is not read while somebody waits for a session to close."""
_NOTE_BUSY_S = 0.2


class Listing(Struct, frozen=True):
    sessions: tuple[SessionInfo, ...] = ()
    """The last written first. Those that wait are as they were when they were read last."""
    waiting: tuple[FoundFile, ...] = ()
    """Those whose files have changed since, or were never read, in the same order."""
    gone: tuple[str, ...] = ()
    """Ids in the index whose files are no longer there."""
    problems: tuple[str, ...] = ()


class Refreshed(Struct, frozen=True):
    """Some of the sessions that waited, as they are now; a line for each that cannot be read."""

    sessions: tuple[SessionInfo, ...]
    problems: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    """Ids of those that cannot be read."""


class _Row(Struct, frozen=True):
    number: int
    stamp: str
    facts: bytes


class SessionIndex:
    """Every method blocks and may be called in any thread."""

    def __init__(self, folder: Path, file: Path | None, *, full_text: bool | None = None) -> None:
        """`file` None keeps the index in memory; `full_text` None: if SQLite can search by trigrams."""
        self._folder = folder
        self._index = IndexFile(file, full_text)

    def close(self) -> None:
        self._index.close()

    # ------------------------------------------------------------------ listing

    def listing(self) -> Listing:
        """All sessions at once, without opening any of their files."""
        found = scan(self._folder)
        if not found.files:
            return Listing(problems=found.problems)
        rows = self._rows(_all_rows, BUSY_S)
        decoder = msgspec.json.Decoder(StoredFacts)
        infos: list[SessionInfo] = []
        waiting: list[FoundFile] = []
        problems = list(found.problems)
        for file in found.files:
            row = rows.pop(file.id, None)
            stored = None if row is None else _decoded(decoder, row.facts)
            if row is None or stored is None or row.stamp != file.stamp:
                waiting.append(file)
            infos.append(unread_info(file) if stored is None else info_of(file, stored))
            if row is not None and stored is not None and stored.damage and row.stamp == file.stamp:
                problems.append(stored.damage)
        return Listing(tuple(infos), tuple(waiting), () if found.problems else tuple(rows), tuple(problems))

    def refresh(self, listing: Listing) -> Iterator[Refreshed]:
        """Read what waits, some at a time and the newest first, and keep it."""
        if listing.gone:
            self.forget(listing.gone)
        for start in range(0, len(listing.waiting), BATCH):
            yield self._read(listing.waiting[start : start + BATCH])

    def complete(self) -> tuple[list[SessionInfo], list[str]]:
        """All sessions that can be read, the last written first, and a line for each that cannot."""
        listing = self.listing()
        fresh: dict[str, SessionInfo] = {}
        problems, unreadable = list(listing.problems), set[str]()
        for batch in self.refresh(listing):
            fresh.update((info.id, info) for info in batch.sessions)
            problems += batch.problems
            unreadable.update(batch.unreadable)
        infos = [fresh.get(info.id, info) for info in listing.sessions if info.id not in unreadable]
        return infos, problems

    def projects(self) -> dict[str, tuple[str, str]]:
        """Stamp and project of each session that is known, by id; a row counts for a file of the same stamp."""
        try:
            return self._index.run(_projects, _NOTE_BUSY_S)
        except sqlite3.OperationalError:
            return {}

    def note(self, path: Path) -> None:
        """Take up what is new in one session, if that is quickly done; otherwise the next listing does."""
        with contextlib.suppress(OSError, sqlite3.Error):
            file = look(path)
            if file is None or self._index.run(lambda c: _unread_bytes(c, file), _NOTE_BUSY_S) > _NOTE_BYTES:
                return
            self._read([file], _NOTE_BUSY_S)

    def forget(self, ids: Iterable[str]) -> None:
        """Remove all that is kept of these sessions, best effort: what stays is found to be gone by the next listing."""
        wanted = list(ids)

        def remove(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            for id_ in wanted:
                row = connection.execute("SELECT number FROM session WHERE id = ?", (id_,)).fetchone()
                if row is not None:
                    self._remove_pages(connection, row[0])
                    connection.execute("DELETE FROM session WHERE number = ?", row)
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        with contextlib.suppress(sqlite3.OperationalError):
            self._index.run(remove)

    # ------------------------------------------------------------------ search

    def search(
        self, words: str, limit: int = 50, *, each: int | None = None, within_s: float | None = None
    ) -> "list[Found]":
        """The newest entries that hold all the words; if none does, those of sessions that hold them all somewhere.

        `each`: at most so many of one session. `within_s`: after that it gives up and finds nothing. What is not in the
        index yet is not searched.
        """
        from agent.store.index_search import search

        deadline = None if within_s is None else time.monotonic() + within_s
        try:
            found = self._index.run(lambda c: search(c, words, limit, each, deadline, self._index.full_text))
        except sqlite3.OperationalError:
            return []
        there = {id_: look(self._folder / f"{id_}.db") is not None for id_ in {hit.session for hit in found}}
        return [hit for hit in found if there[hit.session]]

    # ------------------------------------------------------------------ reading sessions

    def _read(self, files: Sequence[FoundFile], busy_s: float = BUSY_S) -> Refreshed:
        from agent.store.digest import Facts, digest

        rows = self._rows(lambda c: _rows_of(c, [file.id for file in files]), busy_s)
        decoder = msgspec.json.Decoder(Facts)
        digests: list[tuple[FoundFile, _Row | None, Digest]] = []
        problems: list[str] = []
        unreadable: list[str] = []
        for file in files:
            row = rows.get(file.id)
            try:
                known = None if row is None else _decoded(decoder, row.facts)
                digests.append((file, row, digest(file.path, known)))
            except SchemaError as error:
                if status_of(file.path) is not None:
                    problems.append(str(error).partition("\n")[0])
                unreadable.append(file.id)
        with contextlib.suppress(sqlite3.OperationalError):  # another process writes: the next listing reads them again
            self._index.run(lambda c: self._keep(c, digests), busy_s)
        problems += [digest.facts.damage for _, _, digest in digests if digest.facts.damage]
        infos = tuple(_refreshed(file, digest.facts) for file, _, digest in digests)
        return Refreshed(infos, tuple(problems), tuple(unreadable))

    def _rows(self, read: "Callable[[sqlite3.Connection], dict[str, _Row]]", busy_s: float) -> "dict[str, _Row]":
        """Where another process keeps the index to itself, nothing is known."""
        try:
            return self._index.run(read, busy_s)
        except sqlite3.OperationalError:
            return {}

    def _keep(self, connection: sqlite3.Connection, digests: "Sequence[tuple[FoundFile, _Row | None, Digest]]") -> None:
        connection.execute("BEGIN IMMEDIATE")
        now = _rows_of(connection, [file.id for file, _, _ in digests])
        for file, before, read in digests:
            row = now.get(file.id)
            if row != before:  # another process has read it meanwhile
                continue
            values = (file.stamp, file.size_bytes, read.facts.meta.project, msgspec.json.encode(read.facts), file.id)
            if row is None:
                sql = "INSERT INTO session (stamp, size_bytes, project, facts, id) VALUES (?, ?, ?, ?, ?)"
                number = connection.execute(sql, values).lastrowid
            else:
                number = row.number
                sql = "UPDATE session SET stamp = ?, size_bytes = ?, project = ?, facts = ? WHERE id = ?"
                connection.execute(sql, values)
                if read.whole:
                    self._remove_pages(connection, number)
            for page in read.pages:
                cursor = connection.execute(
                    "INSERT INTO page (session, key, kind, time_ms, body) VALUES (?, ?, ?, ?, ?)",
                    (number, page.key, page.kind, page.time_ms, page.body),
                )
                if self._index.full_text:
                    connection.execute("INSERT INTO words (rowid, body) VALUES (?, ?)", (cursor.lastrowid, page.body))
        connection.execute("COMMIT")

    def _remove_pages(self, connection: sqlite3.Connection, number: int) -> None:
        if self._index.full_text:
            connection.execute(
                "INSERT INTO words (words, rowid, body) SELECT 'delete', number, body FROM page WHERE session = ?",
                (number,),
            )
        connection.execute("DELETE FROM page WHERE session = ?", (number,))


def _decoded(decoder: "msgspec.json.Decoder[T]", facts: bytes) -> T | None:
    """None where the disk did not keep what was written; they are read again from the session's file then."""
    try:
        return decoder.decode(facts)
    except (msgspec.MsgspecError, TypeError, ValueError):
        return None


def _all_rows(connection: sqlite3.Connection) -> dict[str, _Row]:
    return {row[0]: _Row(*row[1:]) for row in connection.execute("SELECT id, number, stamp, facts FROM session")}


def _projects(connection: sqlite3.Connection) -> dict[str, tuple[str, str]]:
    rows = connection.execute("SELECT id, stamp, project FROM session")
    return {id_: (stamp, project) for id_, stamp, project in rows}


def _rows_of(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, _Row]:
    marks = ",".join("?" * len(ids))
    found = connection.execute(f"SELECT id, number, stamp, facts FROM session WHERE id IN ({marks})", ids)
    return {row[0]: _Row(*row[1:]) for row in found}


def _unread_bytes(connection: sqlite3.Connection, file: FoundFile) -> int:
    row = connection.execute("SELECT size_bytes FROM session WHERE id = ?", (file.id,)).fetchone()
    return file.size_bytes - (row[0] if row is not None else 0)


def _refreshed(file: FoundFile, facts: "Facts") -> SessionInfo:
    stored = StoredFacts(
        facts.meta, facts.updated_ms, facts.first_line, facts.given_title, facts.entries, facts.tokens, facts.cost_usd
    )
    return info_of(file, stored)

"""The folder of sessions: new ids, finding, listing, loading and forking session files. One file a session, `<id>.db`."""

import contextlib
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from agent.config.paths import path_text
from agent.store.base import Blob, QueuedMessage, SessionMeta
from agent.store.index import SessionIndex
from agent.store.lock import SessionLock
from agent.store.queue_rows import read_messages
from agent.store.reading import read_meta, read_quietly, reading
from agent.store.scan import scan
from agent.store.schema import SchemaError
from agent.store.session_file import SessionFile
from agent.store.session_info import SessionInfo
from agent.transcript import Entry, Transcript, decode_payload

_LOOKED_INTO = 8
"""Files that are opened before the index is asked: mostly the session is among them."""
Failed = Callable[[str], None]
Closed = Callable[[Path], None]
"""See `SessionFile`."""


class SessionNotFoundError(Exception):
    """No session has that id, or more than one begins with it."""


class LoadedSession(Struct, frozen=True):
    meta: SessionMeta
    entries: tuple[Entry, ...]
    queue: tuple[QueuedMessage, ...]
    counts: dict[str, dict[int, int]]
    """Tokenizer → entry key → tokens."""
    damaged: int
    """How many rows could not be read and were passed over."""

    @property
    def damage(self) -> str:
        """What is missing, in one line; empty if nothing is."""
        if not self.damaged:
            return ""
        what = "1 entry" if self.damaged == 1 else f"{self.damaged} entries"
        return f"{what} of the session could not be read and {'is' if self.damaged == 1 else 'are'} left out."


def new_id(now_s: float | None = None) -> str:
    """YYYYMMDD-HHMMSS-xxxx, local time."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now_s))
    return f"{stamp}-{secrets.token_hex(2)}"


def new_session(folder: Path, project: Path, on_failure: Failed, on_closed: Closed = lambda path: None) -> SessionFile:
    """A session that begins; its file appears with the first append."""
    meta = SessionMeta(new_id(), path_text(project), int(time.time() * 1000))
    return SessionFile(folder / f"{meta.id}.db", meta, None, on_failure, on_closed)


def open_session(
    path: Path, on_failure: Failed, on_closed: Closed = lambda path: None
) -> tuple[SessionFile, LoadedSession]:
    """Lock a session for writing and read it.

    Raises:
        SessionBusyError: another process writes it.
        SchemaError: a newer layout, or not a session file.
    """
    lock = SessionLock(path.with_suffix(".lock"))
    try:
        loaded = load(path)
    except BaseException:
        lock.release()
        raise
    return SessionFile(path, loaded.meta, lock, on_failure, on_closed), loaded


def load(path: Path) -> LoadedSession:
    """Read a whole session, also while another process writes it.

    Raises:
        SchemaError: a newer layout, or not a session file.
    """
    with reading(path) as connection:
        entries, damaged = _entries(connection)
        queue = read_messages(connection)
        counts: dict[str, dict[int, int]] = {}
        for key, tokenizer, tokens in connection.execute("SELECT key, tokenizer, tokens FROM count"):
            counts.setdefault(tokenizer, {})[key] = tokens
        return LoadedSession(read_meta(connection, path), tuple(entries), queue, counts, damaged)


def find(folder: Path, session_id: str) -> Path:
    """The file of a session, by its id or an unambiguous beginning of it.

    Raises:
        SessionNotFoundError: none or several.
    """
    files = scan(folder).files if session_id else ()
    hits = [file.path for file in files if file.id.startswith(session_id)]
    exact = [path for path in hits if path.stem == session_id]
    if len(exact or hits) != 1:
        many = f"{len(hits)} sessions begin" if hits else "No session begins"
        raise SessionNotFoundError(f"{many} with {session_id!r}.\n`claw sessions list --all` shows them.")
    return (exact or hits)[0]


def newest(folder: Path, project: Path, index: SessionIndex | None = None) -> Path | None:
    """The session of this project that was written last. `index` spares a look into each file where many others are newer."""
    wanted = path_text(project)
    known: dict[str, tuple[str, str]] = {}
    for number, file in enumerate(scan(folder).files):
        if number == _LOOKED_INTO and index is not None:
            known = index.projects()
        stamp, its_project = known.get(file.id, ("", ""))
        if stamp != file.stamp:
            its_project = _project(file.path)
        if its_project == wanted:
            return file.path
    return None


def _project(path: Path) -> str:
    with contextlib.suppress(SchemaError):
        return read_quietly(path, lambda connection: read_meta(connection, path).project)
    return ""


def of_project(folder: Path, project: Path, without: str) -> Iterator[tuple[str, tuple[Entry, ...]]]:
    """Id and entries of the project's sessions, the last written first, read one by one; those that cannot be read and
    the one with the id `without` are passed over."""
    for path in (file.path for file in scan(folder).files):
        if path.stem == without:
            continue
        with contextlib.suppress(SchemaError), reading(path) as connection:
            if read_meta(connection, path).project == path_text(project):
                yield path.stem, tuple(_entries(connection)[0])


def listing(folder: Path) -> tuple[list[SessionInfo], list[str]]:
    """All sessions, the last written first, and a line for each file that could not be read; without an index on disk."""
    with contextlib.closing(SessionIndex(folder, None)) as index:
        return index.complete()


def fork(path: Path, on_failure: Failed, on_closed: Closed = lambda path: None) -> tuple[SessionFile, LoadedSession]:
    """A new session with a copy of another's branch and blobs. Keys stay, with gaps where other branches were."""
    source = load(path)
    branch = tuple(Transcript(source.entries).branch)
    meta = SessionMeta(new_id(), source.meta.project, int(time.time() * 1000), forked_from=source.meta.id)
    target = SessionFile(path.with_name(f"{meta.id}.db"), meta, None, on_failure, on_closed)
    with reading(path) as connection:
        blobs = [Blob(*row) for row in connection.execute("SELECT sha256, data FROM blob")]
    target.append(branch, blobs)
    return target, LoadedSession(meta, branch, (), source.counts, source.damaged)


def _entries(connection: sqlite3.Connection) -> tuple[list[Entry], int]:
    entries: list[Entry] = []
    known: set[int] = set()
    damaged = 0
    for key, parent, time_ms, payload in connection.execute(
        "SELECT key, parent, time_ms, payload FROM entry ORDER BY key"
    ):
        try:
            entry = Entry(key, parent, time_ms, decode_payload(payload))
        except (msgspec.DecodeError, TypeError):  # not what was written, or not even bytes
            damaged += 1
            continue
        if parent is not None and parent not in known:
            # The entry before it was unreadable: hang it on the last good one, so that the rest is not lost.
            entry = Entry(key, entries[-1].key if entries else None, time_ms, entry.payload)
        known.add(key)
        entries.append(entry)
    return entries, damaged

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
from agent.store.lock import SessionLock
from agent.store.schema import SchemaError, check_version, connect
from agent.store.session_file import SessionFile
from agent.transcript import Entry, Setting, Transcript, User, decode_payload
from providers.types import TextBlock


class SessionNotFoundError(Exception):
    """No session has that id, or more than one begins with it."""


class SessionInfo(Struct, frozen=True):
    """One line of a listing."""

    id: str
    project: str
    created_ms: int
    updated_ms: int
    title: str
    entries: int


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


def new_session(folder: Path, project: Path, on_failure: Callable[[str], None]) -> SessionFile:
    """A session that begins; its file appears with the first append."""
    meta = SessionMeta(new_id(), path_text(project), int(time.time() * 1000))
    return SessionFile(folder / f"{meta.id}.db", meta, on_failure=on_failure)


def open_session(path: Path, on_failure: Callable[[str], None]) -> tuple[SessionFile, LoadedSession]:
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
    return SessionFile(path, loaded.meta, lock, on_failure), loaded


def load(path: Path) -> LoadedSession:
    """Read a whole session, also while another process writes it.

    Raises:
        SchemaError: a newer layout, or not a session file.
    """
    with _reading(path) as connection:
        entries, damaged = _entries(connection)
        queue = tuple(QueuedMessage(*row) for row in connection.execute("SELECT id, text FROM queue ORDER BY id"))
        counts: dict[str, dict[int, int]] = {}
        for key, tokenizer, tokens in connection.execute("SELECT key, tokenizer, tokens FROM count"):
            counts.setdefault(tokenizer, {})[key] = tokens
        return LoadedSession(_meta(connection, path), tuple(entries), queue, counts, damaged)


def find(folder: Path, session_id: str) -> Path:
    """The file of a session, by its id or an unambiguous beginning of it.

    Raises:
        SessionNotFoundError: none or several.
    """
    hits = [path for path in _files(folder) if path.stem.startswith(session_id)] if session_id else []
    exact = [path for path in hits if path.stem == session_id]
    if len(exact or hits) != 1:
        many = f"{len(hits)} sessions begin" if hits else "No session begins"
        raise SessionNotFoundError(f"{many} with {session_id!r}.\n`claw sessions list` shows them.")
    return (exact or hits)[0]


def newest(folder: Path, project: Path) -> Path | None:
    """The session of this project that was written last."""
    for path in sorted(_files(folder), key=_changed, reverse=True):
        with contextlib.suppress(SchemaError), _reading(path) as connection:
            if _meta(connection, path).project == path_text(project):
                return path
    return None


def of_project(folder: Path, project: Path, without: str) -> Iterator[tuple[str, tuple[Entry, ...]]]:
    """Id and entries of the project's sessions, the last written first, read one by one; those that cannot be read and
    the one with the id `without` are passed over."""
    for path in sorted(_files(folder), key=_changed, reverse=True):
        if path.stem == without:
            continue
        with contextlib.suppress(SchemaError), _reading(path) as connection:
            if _meta(connection, path).project == path_text(project):
                yield path.stem, tuple(_entries(connection)[0])


def listing(folder: Path) -> tuple[list[SessionInfo], list[str]]:
    """All sessions, the last written first, and a line for each file that could not be read."""
    infos: list[SessionInfo] = []
    problems: list[str] = []
    for path in sorted(_files(folder), key=_changed, reverse=True):
        try:
            with _reading(path) as connection:
                infos.append(_info(connection, path))
        except SchemaError as error:
            problems.append(str(error).partition("\n")[0])
    return infos, problems


def fork(path: Path, on_failure: Callable[[str], None]) -> tuple[SessionFile, LoadedSession]:
    """A new session with a copy of another's branch and blobs. Keys stay, with gaps where other branches were."""
    source = load(path)
    branch = tuple(Transcript(source.entries).branch)
    meta = SessionMeta(new_id(), source.meta.project, int(time.time() * 1000), forked_from=source.meta.id)
    target = SessionFile(path.with_name(f"{meta.id}.db"), meta, on_failure=on_failure)
    with _reading(path) as connection:
        blobs = [Blob(*row) for row in connection.execute("SELECT sha256, data FROM blob")]
    target.append(branch, blobs)
    return target, LoadedSession(meta, branch, (), source.counts, source.damaged)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with contextlib.closing(connect(path, read_only=True)) as connection:
            check_version(connection, path)
            yield connection
    except sqlite3.Error as error:
        raise SchemaError(
            f"{path} cannot be read: {error}.\n"
            "It is damaged, or its permissions are not yours; `claw sessions list` shows the others."
        ) from None


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


def _meta(connection: sqlite3.Connection, path: Path) -> SessionMeta:
    rows = dict(connection.execute("SELECT name, value FROM meta"))
    created = rows.get("created_ms", "0")
    return SessionMeta(
        rows.get("id", path.stem),
        rows.get("project", ""),
        int(created) if created.isdigit() else 0,
        rows.get("forked_from"),
    )


def _info(connection: sqlite3.Connection, path: Path) -> SessionInfo:
    meta = _meta(connection, path)
    entries, updated = connection.execute("SELECT COUNT(*), MAX(time_ms) FROM entry").fetchone()
    return SessionInfo(meta.id, meta.project, meta.created_ms, updated or meta.created_ms, _title(connection), entries)


def _title(connection: sqlite3.Connection) -> str:
    for (payload,) in connection.execute("SELECT payload FROM entry WHERE kind = 'setting' ORDER BY key DESC"):
        with contextlib.suppress(msgspec.DecodeError):
            setting = decode_payload(payload)
            if isinstance(setting, Setting) and setting.title:
                return setting.title
    row = connection.execute("SELECT payload FROM entry WHERE kind = 'user' ORDER BY key LIMIT 1").fetchone()
    if row is not None:
        with contextlib.suppress(msgspec.DecodeError):
            user = decode_payload(row[0])
            if isinstance(user, User):
                text = next((b.text for b in user.blocks if isinstance(b, TextBlock)), "")
                return text.strip().split("\n", 1)[0][:80]
    return ""


def _files(folder: Path) -> list[Path]:
    return list(folder.glob("*.db")) if folder.is_dir() else []


def _changed(path: Path) -> float:
    """Time of the last write; the newest rows may be in the write-ahead log."""
    times = [0.0]
    for candidate in (path, path.with_name(path.name + "-wal")):
        with contextlib.suppress(OSError):
            stat = candidate.stat()
            if stat.st_size:  # a reader leaves an empty log behind
                times.append(stat.st_mtime)
    return max(times)

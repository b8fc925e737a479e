"""The folder of sessions: new ids, finding, listing, loading and forking session files. One file a session, `<id>.db`."""

import contextlib
import functools
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from agent.config.paths import path_text
from agent.config.private_file import make_folder_private
from agent.store.base import Blob, QueuedMessage, SessionMeta
from agent.store.damaged import Damage, make_whole, project_of, read_what_is_left, replace_damaged
from agent.store.index import SessionIndex
from agent.store.lock import SessionLock
from agent.store.mending import ROWS, mend
from agent.store.queue_rows import read_messages
from agent.store.read_only import ReadOnlyStore
from agent.store.reading import read_meta, read_quietly
from agent.store.scan import BESIDE, SUFFIX, scan
from agent.store.schema import VERSION, NewerLayoutError, SchemaError, version_of
from agent.store.session_file import SessionFile
from agent.store.session_info import SessionInfo
from agent.transcript import Entry, Transcript, Unknown

_LOOKED_INTO = 8
"""Files that are opened before the index is asked: mostly the session is among them."""
Failed = Callable[[str], None]
Closed = Callable[[Path], None]
Recovered = Callable[[], None]
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
    """How many entries could not be read and were passed over, as far as that is known."""
    layout: int = VERSION
    unknown: int = 0
    """How many entries hold what only a newer claw knows."""
    told: str = ""
    """What became of the file where it was damaged, or what can be read of it, in one line."""
    is_damaged: bool = False
    """Whether its rows are not as a session writes them."""

    @property
    def newer(self) -> str:
        """Why a newer claw has to write it; empty if it was not written by one."""
        if self.layout > VERSION:
            return f"It was written by a newer claw (layout {self.layout}, this one knows {VERSION})."
        if self.unknown:
            what = "1 entry of it holds" if self.unknown == 1 else f"{self.unknown} entries of it hold"
            return f"{what} what only a newer claw knows."
        return ""

    @property
    def damage(self) -> str:
        """What is missing, in one line; empty if nothing is."""
        if self.told or not self.damaged:
            return self.told
        what = "1 entry" if self.damaged == 1 else f"{self.damaged} entries"
        return f"{what} of the session could not be read and {'is' if self.damaged == 1 else 'are'} left out."


def new_id(now_s: float | None = None) -> str:
    """YYYYMMDD-HHMMSS-xxxxxxxx, local time. The clock may show the same second again, so the rest alone tells ids apart."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now_s))
    return f"{stamp}-{secrets.token_hex(4)}"


def _unused_id(folder: Path) -> str:
    while any(os.path.lexists(folder / f"{(id_ := new_id())}{ending}") for ending in (SUFFIX, *BESIDE)):
        pass
    return id_


def new_session(
    folder: Path,
    project: Path,
    on_failure: Failed,
    on_closed: Closed = lambda path: None,
    on_recovery: Recovered = lambda: None,
) -> SessionFile:
    """A session that begins; its file appears with the first append."""
    meta = SessionMeta(_unused_id(folder), path_text(project), int(time.time() * 1000))
    return SessionFile(folder / f"{meta.id}.db", meta, None, on_failure, on_closed, on_recovery)


def open_session(
    path: Path,
    on_failure: Failed,
    on_closed: Closed = lambda path: None,
    on_recovery: Recovered = lambda: None,
) -> tuple[SessionFile, LoadedSession]:
    """Lock a session for writing and read it; a damaged one is kept aside, and what could be saved of it is opened. Its
    files become their owner's alone, if they were not.

    Raises:
        SessionBusyError: another process writes it, or it cannot be locked.
        NewerLayoutError: it can only be read, as `view` does.
        SchemaError: not a session file, or a damaged one of which nothing can be saved or kept.
    """
    lock = SessionLock(path.with_suffix(".lock"))
    try:
        told = make_whole(path)
        loaded = _load_as_it_is(path)
        if loaded.newer:
            raise NewerLayoutError(f"Session {path.stem} cannot be written. {loaded.newer}\nUpdate claw.")
        if loaded.is_damaged:
            told = replace_damaged(path)
            loaded = _load_as_it_is(path)
        loaded = msgspec.structs.replace(loaded, told=told)
        _make_private(path)
    except BaseException:
        lock.release()
        raise
    return SessionFile(path, loaded.meta, lock, on_failure, on_closed, on_recovery), loaded


def view(path: Path, reason: str = "") -> tuple[ReadOnlyStore, LoadedSession]:
    """Read a session without a lock for writing, and without making anything beside it but the sign that it is read.

    `reason`: why it is not to be written; a newer claw's session has one of its own.

    Raises:
        SchemaError: not a session file, or one of a newer claw that lacks what this one looks for.
    """
    loaded = _with_damage(*read_what_is_left(path, lambda connection: _load(connection, path)))
    return ReadOnlyStore(path, reason or loaded.newer), loaded


def _make_private(path: Path) -> None:
    """Best effort: what is not ours to change stays as it is."""
    make_folder_private(path.parent)
    for file in (path, *(path.with_suffix(ending) for ending in BESIDE)):
        with contextlib.suppress(OSError):
            if file.stat().st_mode & 0o077:
                file.chmod(0o600)


def load(path: Path) -> LoadedSession:
    """Read a whole session, also while another process writes it; of a damaged one what can be read. Writes nothing.

    Raises:
        SchemaError: not a session file, or one of a newer claw that lacks what this one looks for.
    """
    return _with_damage(*read_what_is_left(path, lambda connection: _load(connection, path), check=True))


def _with_damage(loaded: LoadedSession, damage: Damage) -> LoadedSession:
    damaged = max(loaded.damaged, damage.lost_entries)
    return msgspec.structs.replace(loaded, told=damage.told, damaged=damaged)


def _load_as_it_is(path: Path) -> LoadedSession:
    return read_quietly(path, lambda connection: _load(connection, path))


def _load(connection: sqlite3.Connection, path: Path) -> LoadedSession:
    mended = mend(connection.execute(ROWS))
    queue = read_messages(connection)
    counts: dict[str, dict[int, int]] = {}
    for key, tokenizer, tokens in connection.execute("SELECT key, tokenizer, tokens FROM count"):
        if type(key) is type(tokens) is int:  # of a damaged row it may be anything
            counts.setdefault(tokenizer, {})[key] = tokens
    meta, layout = read_meta(connection, path), version_of(connection)
    damaged, is_damaged = len(mended.garbage), mended.is_damaged
    return LoadedSession(meta, mended.entries, queue, counts, damaged, layout, mended.unknown, is_damaged=is_damaged)


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
        return project_of(path)
    return ""


def of_project(folder: Path, project: Path, without: str) -> Iterator[tuple[str, tuple[Entry, ...]]]:
    """Id and entries of the project's sessions, the last written first, read one by one; those that cannot be read and
    the one with the id `without` are passed over."""
    wanted = path_text(project)
    for path in (file.path for file in scan(folder).files):
        if path.stem == without:
            continue
        with contextlib.suppress(SchemaError):
            entries, _ = read_what_is_left(path, functools.partial(_entries_of, path=path, project=wanted))
            if entries is not None:
                yield path.stem, entries


def _entries_of(connection: sqlite3.Connection, path: Path, project: str) -> tuple[Entry, ...] | None:
    """None for a session of another project."""
    return mend(connection.execute(ROWS)).entries if read_meta(connection, path).project == project else None


def listing(folder: Path) -> tuple[list[SessionInfo], list[str]]:
    """All sessions, the last written first, and a line for each file that could not be read; without an index on disk."""
    with contextlib.closing(SessionIndex(folder, None)) as index:
        return index.complete()


def fork(
    path: Path,
    on_failure: Failed,
    on_closed: Closed = lambda path: None,
    on_recovery: Recovered = lambda: None,
) -> tuple[SessionFile, LoadedSession]:
    """A new session with a copy of another's branch and blobs. Keys stay, with gaps where other branches were. Entries of
    kinds that only a newer claw knows stay behind."""
    source = load(path)
    branch = _connected(e for e in Transcript(source.entries).branch if not isinstance(e.payload, Unknown))
    id_ = _unused_id(path.parent)
    meta = SessionMeta(id_, source.meta.project, int(time.time() * 1000), forked_from=source.meta.id)
    target = SessionFile(path.with_name(f"{meta.id}.db"), meta, None, on_failure, on_closed, on_recovery)
    target.append(branch, read_what_is_left(path, _blobs)[0])
    return target, LoadedSession(meta, branch, (), source.counts, source.damaged, told=source.told)


def _blobs(connection: sqlite3.Connection) -> list[Blob]:
    return [Blob(*row) for row in connection.execute("SELECT sha256, data FROM blob")]


def _connected(branch: Iterable[Entry]) -> tuple[Entry, ...]:
    """A branch of which entries were left out, each hung on the one before it."""
    kept: list[Entry] = []
    for entry in branch:
        kept.append(Entry(entry.key, kept[-1].key if kept else None, entry.time_ms, entry.payload))
    return tuple(kept)

"""What becomes of a damaged session file. To be written, it is kept aside and a whole file with what could be saved takes its
name; to be read, the same is made for the moment and nothing on disk is touched. Nothing is deleted but with its
session, by its user.

The new file is complete, on the disk and named `<id>.salvaged` before the old one leaves its name, so that whenever the
program dies, the next opening ends what was begun. The old one with its log goes to `damaged/` beside the sessions.
"""

import contextlib
import errno
import os
import re
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from agent.config.paths import ensure_private_dir
from agent.store.lock import is_locked
from agent.store.reading import DamagedFileError, read_meta, read_quietly
from agent.store.scan import status_of
from agent.store.schema import VERSION, SchemaError, connect, create_tables, version_of
from agent.store.syncing import sync_file, sync_folder

if TYPE_CHECKING:
    from agent.store.salvage_rows import Salvage

T = TypeVar("T")


class Damage(NamedTuple):
    """What a file was found to lack."""

    told: str = ""
    """One line for the user; empty for a file that is whole."""
    lost_entries: int = 0
    """At least so many."""


FOLDER = "damaged"
READY = ".salvaged"
_IN_WORK = ".salvaging"
_LOGS = ("-wal", "-shm")
_PROBES = (
    "SELECT name, value FROM meta LIMIT 0",
    "SELECT key, parent, kind, time_ms, payload FROM entry LIMIT 0",
    "SELECT sha256, data FROM blob LIMIT 0",
    "SELECT key, tokenizer, tokens FROM count LIMIT 0",
    "SELECT id, text FROM queue LIMIT 0",
)


def make_whole(path: Path) -> str:
    """If the file is damaged, put a whole one in its place. The caller holds the session's lock. What to tell of it; empty
    if there was nothing to do.

    Raises:
        SchemaError: nothing can be saved, or the damaged file cannot be kept; it is as it was.
    """
    told = _finish(path)
    try:
        read_checked(path, lambda connection: None, is_alone=True)
    except DamagedFileError:
        return replace_damaged(path)
    return told


def replace_damaged(path: Path) -> str:
    """See `make_whole`."""
    real = path.resolve()
    work, ready = real.with_suffix(_IN_WORK), real.with_suffix(READY)
    try:
        _remove_work(work)
        os.close(os.open(work, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            with contextlib.closing(connect(work)) as connection:
                found = _salvage_into(path, connection)
            if work.with_name(f"{work.name}-wal").exists():  # closing could not bring it over
                raise OSError(errno.EIO, "it was not written whole")
            sync_file(work)
            work.replace(ready)
        finally:
            _remove_work(work)
        sync_folder(real.parent)
        kept = _replace(path)
    except (OSError, sqlite3.Error) as error:
        raise SchemaError(
            f"{path} is damaged, and what is left of it cannot be saved: {error}. It is as it was.\n"
            "Make room or see to the folder's permissions; `claw sessions show` reads what can be read."
        ) from None
    return f"Session {path.stem} was damaged: {_words(found, 'could be saved')} The damaged file is kept as {kept}."


def read_what_is_left(path: Path, read: Callable[[sqlite3.Connection], T], *, check: bool = False) -> tuple[T, Damage]:
    """What `read` makes of the file, or of what can be saved of a damaged one, and the damage. `read` may be called more than
    once. `check`: look at the whole file for damage, not just where `read` meets it.

    Raises:
        SchemaError: nothing of it can be read.
    """
    try:
        if check:
            return read_checked(path, read, is_alone=not is_locked(path.with_suffix(".lock"))), Damage()
        return read_quietly(path, read), Damage()
    except DamagedFileError:
        with salvaged(path) as (connection, damage):
            return read(connection), damage


def project_of(path: Path) -> str:
    """The project of a session, also of a damaged one, without saving all of it; empty if that is lost.

    Raises:
        SchemaError: it cannot be read.
    """
    try:
        return read_quietly(path, lambda connection: read_meta(connection, path).project)
    except DamagedFileError:
        from agent.store.salvage import meta_value

        with contextlib.suppress(OSError):
            return meta_value(path, "project")
    return ""


@contextlib.contextmanager
def salvaged(path: Path) -> Iterator[tuple[sqlite3.Connection, Damage]]:
    """A database with what can be saved of a damaged file, for as long as it is looked at.

    Raises:
        SchemaError: nothing can be saved.
    """
    try:
        # A temporary file of SQLite's own, which has no name.
        with contextlib.closing(sqlite3.connect("", isolation_level=None)) as connection:
            found = _salvage_into(path, connection)
            told = f"{path} is damaged: {_words(found, 'can be read')} The file is as it was."
            yield connection, Damage(told, found.lost_entries)
    except (OSError, sqlite3.Error) as error:
        raise SchemaError(
            f"{path} is damaged and cannot be read: {error}.\nSee to its permissions, and make room."
        ) from None


def read_checked(path: Path, read: Callable[[sqlite3.Connection], T], *, is_alone: bool) -> T:
    """What `read` makes of a file that is whole. `is_alone`: no other process writes it, so its log stays as it is.

    Raises:
        DamagedFileError: it is not whole.
        SchemaError: it cannot be read for another reason.
    """

    def check_and_read(connection: sqlite3.Connection) -> T:
        if version_of(connection) <= VERSION:
            (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if said != "ok":
                raise sqlite3.DatabaseError(said)
            for probe in _PROBES:
                connection.execute(probe)
        if is_alone and _is_log_damaged(path):
            raise sqlite3.DatabaseError("its log is damaged")
        return read(connection)

    return read_quietly(path, check_and_read)


# --------------------------------------------------------------------------- inside


def _salvage_into(path: Path, connection: sqlite3.Connection) -> "Salvage":
    from agent.store.salvage import salvage

    create_tables(connection)
    found = salvage(path, connection)
    connection.execute("COMMIT")
    if not found.entries:
        is_empty = not path.stat().st_size
        what = "it is empty, so it is not a session file" if is_empty else "it is damaged, or not a session file"
        raise SchemaError(
            f"{path} cannot be read: {what}. It stays as it is.\n"
            f"Put a back-up in its place, or delete it with `claw sessions rm {path.stem}`."
        )
    return found


def _is_log_damaged(path: Path) -> bool:
    """Whether SQLite, which has just opened the file, stopped reading its log before the log's end."""
    real = path.resolve()
    try:
        log = os.open(real.with_name(real.name + "-wal"), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        from agent.store.salvage_log import log_goes_on

        # The log's index says how far it was read; its layout is public: https://www.sqlite.org/walformat.html (2026-11).
        index = real.with_name(real.name + "-shm").read_bytes()[:48]
        read_frames = int.from_bytes(index[16:20], sys.byteorder)
        page_bytes = int.from_bytes(index[14:16], sys.byteorder)
        return len(index) == 48 and log_goes_on(log, read_frames, page_bytes if page_bytes != 1 else 1 << 16)
    except OSError:
        return False
    finally:
        os.close(log)


def _finish(path: Path) -> str:
    """End what a process that died had begun; what to tell."""
    if status_of(path.resolve().with_suffix(READY)) is None:
        return ""
    try:
        kept = _replace(path)
    except OSError as error:
        raise SchemaError(
            f"{path} is damaged and cannot be replaced: {error}.\nSee to the folder's permissions."
        ) from None
    return f"Session {path.stem} was damaged and has been saved. The damaged file is kept as {kept}."


def _replace(path: Path) -> Path:
    """Keep the damaged file, and give its name to the one that is ready."""
    real = path.resolve()
    ready = real.with_suffix(READY)
    try:
        kept = _keep(path)
    except OSError:
        ready.unlink(missing_ok=True)
        raise
    for ending in _LOGS:  # SQLite would read the old log into the new file
        real.with_name(real.name + ending).unlink(missing_ok=True)
    ready.replace(real)
    sync_folder(real.parent)
    return kept


def _keep(path: Path) -> Path:
    """Give the file and its log a second name under `damaged/`, private to the owner; where that does not work, copy them.
    A name needs no room and no reading, which a failing disk may refuse."""
    real = path.resolve()
    folder = path.parent / FOLDER
    ensure_private_dir(folder)
    stem = f"{path.stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    number = 1
    while (kept := folder / f"{stem}{f'-{number}' if number > 1 else ''}.db").exists():
        number += 1
    for ending in ("", *_LOGS):
        source, target = real.with_name(real.name + ending), kept.with_name(kept.name + ending)
        if source.exists():
            _second_name(source, target)
    sync_folder(folder.parent)
    sync_folder(folder)
    return kept


def kept_of(path: Path) -> list[Path]:
    """The files that were kept of a session that was damaged; they go when the user deletes the session."""
    of_it = re.compile(re.escape(path.stem) + r"-\d{8}-\d{6}(-\d+)?\.db(-wal|-shm)?")
    with contextlib.suppress(OSError):
        return [file for file in (path.parent / FOLDER).iterdir() if of_it.fullmatch(file.name)]
    return []


def _second_name(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as copy, source.open("rb") as original:
                shutil.copyfileobj(original, copy)
                copy.flush()
                os.fsync(copy.fileno())
        except BaseException:
            target.unlink(missing_ok=True)
            raise
    with contextlib.suppress(OSError):
        target.chmod(0o600)


def _remove_work(work: Path) -> None:
    for ending in ("", *_LOGS):
        work.with_name(work.name + ending).unlink(missing_ok=True)


def _words(found: "Salvage", saved: str) -> str:
    parts = [f"{_many(found.entries, 'entry', 'entries')} {saved}"]
    if found.lost_entries:
        parts.append(f"at least {_many(found.lost_entries, 'is', 'are')} lost")
    if found.lost_blobs:
        parts.append(f"{_many(found.lost_blobs, 'image or whole output is', 'images or whole outputs are')} lost")
    if found.is_queue_lost:
        parts.append("messages that waited may be lost")
    if found.missing_bytes:
        parts.append(f"{found.missing_bytes:,} bytes of the file are missing, and what stood there")
    if len(parts) == 1:
        parts.append("nothing is known to be lost")
    return f"{', '.join(parts)}."


def _many(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"

"""One session's SQLite file. A thread owns the writing connection; callers queue jobs and wait for `durable` where they must.

The file is made with the first append. Jobs that wait together are committed together, in order. If writing fails (a full
disk, a read-only file system, a lock that cannot be had, a file that someone removed) the session goes on in memory: the jobs
are kept and tried again every few seconds and with the next one. Nobody ever waits for a writer that gave up.
"""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from agent.config.paths import ensure_private_dir
from agent.store.base import AnyBlob, Blob, QueuedMessage, SessionMeta
from agent.store.birth import make_file, sweep
from agent.store.file_blob import FileBlob, insert
from agent.store.lock import SessionLock
from agent.store.migration import migrate
from agent.store.queue_rows import insert_message
from agent.store.scan import log_of
from agent.store.schema import BUSY_S, VERSION, connect, newer, version_of
from agent.transcript import Entry, encode_payload

RETRY_S = 3.0
"""After this time what could not be written is tried again."""
LONG_LOG_BYTES = 4 << 20
"""A log of this size is moved into the file, as SQLite by itself does at 1,000 pages."""

_Row = tuple[int, int | None, str, int, bytes]


class _Job(NamedTuple):
    write: Callable[[sqlite3.Connection, bool], object]
    """Takes whether it may have been written before, by a commit that was said to have failed."""
    blobs: tuple[str, ...] = ()
    entries: int = 0


class _Wake(NamedTuple):
    call: Callable[[], object]


class SessionFile:
    """The store of a session that is kept. Holds the session's lock from the first write until `close`."""

    read_only = ""

    def __init__(
        self,
        path: Path,
        meta: SessionMeta,
        lock: SessionLock | None = None,
        on_failure: Callable[[str], None] = lambda text: None,
        on_closed: Callable[[Path], None] = lambda path: None,
        on_recovery: Callable[[], None] = lambda: None,
        retry_s: float = RETRY_S,
    ) -> None:
        """`lock` is given for a file that exists. `on_failure` takes two lines for the user, once for each run of failures,
        and `on_recovery` is called when everything of it was written; both are called from the writer thread. `on_closed`
        is told the file when it was written to and the session has been closed, in the thread that closes it."""
        self.path = path
        self.meta = meta
        self._lock = lock
        self._made = lock is not None  # the writer thread's own, once that runs
        self._on_failure = on_failure
        self._on_recovery = on_recovery
        self._on_closed = on_closed
        self._retry_s = retry_s
        self._jobs: queue.SimpleQueue[_Job | _Wake | None] = queue.SimpleQueue()
        self._unwritten: dict[str, AnyBlob] = {}
        self._kept = 0
        self._reader: sqlite3.Connection | None = None
        self._connection: sqlite3.Connection | None = None
        self._failed = False
        self._thread: threading.Thread | None = None

    @property
    def unwritten(self) -> int:
        return self._kept

    # ------------------------------------------------------------------ SessionStore

    def append(self, entries: Sequence[Entry], blobs: Iterable[AnyBlob] = (), delivered: Iterable[int] = ()) -> None:
        rows: list[_Row] = [(e.key, e.parent, e.kind, e.time_ms, encode_payload(e.payload)) for e in entries]
        blobs = tuple(blobs)
        blob_rows = [(blob.sha256, blob.data) for blob in blobs if isinstance(blob, Blob)]
        files = [blob for blob in blobs if isinstance(blob, FileBlob)]
        gone = [(id_,) for id_ in delivered]
        self._unwritten.update((blob.sha256, blob) for blob in blobs)

        def write(connection: sqlite3.Connection, again: bool) -> None:
            fresh = [row for row in rows if not _is_there(connection, row)] if again else rows
            connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", fresh)
            connection.executemany("INSERT OR IGNORE INTO blob VALUES (?, ?)", blob_rows)
            for file in files:
                insert(connection, file)
            connection.executemany("DELETE FROM queue WHERE id = ?", gone)

        self._put(_Job(write, tuple(blob.sha256 for blob in blobs), len(rows)))

    def enqueue(self, message: QueuedMessage, blobs: Iterable[Blob] = ()) -> None:
        blobs = tuple(blobs)
        rows = [(blob.sha256, blob.data) for blob in blobs]
        self._unwritten.update((blob.sha256, blob) for blob in blobs)

        def write(connection: sqlite3.Connection, again: bool) -> None:
            insert_message(connection, message)
            connection.executemany("INSERT OR IGNORE INTO blob VALUES (?, ?)", rows)

        self._put(_Job(write, tuple(sha256 for sha256, _ in rows)))

    def dequeue(self, ids: Iterable[int]) -> None:
        gone = [(id_,) for id_ in ids]
        self._put(_Job(lambda c, again: c.executemany("DELETE FROM queue WHERE id = ?", gone)))

    def save_counts(self, tokenizer: str, counts: Mapping[int, int]) -> None:
        rows = [(key, tokenizer, tokens) for key, tokens in counts.items()]
        self._put(_Job(lambda c, again: c.executemany("INSERT OR REPLACE INTO count VALUES (?, ?, ?)", rows)))

    def blob(self, sha256: str) -> bytes:
        if (blob := self._unwritten.get(sha256)) is not None:
            return blob.data
        for is_fresh in (False, True):
            try:
                if self._reader is None or is_fresh:  # the file may have been replaced by one of the newest layout
                    self._close_reader()
                    self._reader = connect(self.path, read_only=True)
                row = self._reader.execute("SELECT data FROM blob WHERE sha256 = ?", (sha256,)).fetchone()
            except sqlite3.Error:  # not there yet, or damaged since it was opened
                row = None
            if row is not None and isinstance(row[0], bytes) and Blob.of(row[0]).sha256 == sha256:
                return row[0]
        raise KeyError(sha256)

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    async def durable(self, key: int) -> None:
        if self._thread is None:
            return
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._jobs.put(_Wake(lambda: loop.call_soon_threadsafe(_finish, done)))
        await done

    def close(self) -> None:
        was_written = self._thread is not None
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None
        self._close_reader()
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        if was_written:
            self._on_closed(self.path)

    # ------------------------------------------------------------------ the writer thread

    def _put(self, job: _Job) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="session-writer", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def _write_all(self) -> None:
        pending: list[_Job] = []
        closing, was_made = False, self._made
        while not closing:
            jobs, wakes, closing = self._take(self._retry_s if pending else None)
            pending = self._write([*pending, *jobs])
            for wake in wakes:
                with contextlib.suppress(RuntimeError):  # the loop that waited may be closed
                    wake.call()
            self._shorten_log()  # behind those who wait: it takes long where an output of 64 MiB stands in it
            if self._made and not was_made:  # nobody waits for this any more
                was_made = True
                sweep(self.path.parent)
        self._disconnect()

    def _take(self, patience_s: float | None) -> tuple[list[_Job], list[_Wake], bool]:
        """Wait for work, then take all there is; the flag says that `close` was called. None after `patience_s`."""
        jobs: list[_Job] = []
        wakes: list[_Wake] = []
        try:
            item = self._jobs.get(timeout=patience_s)
            while True:
                match item:
                    case None:
                        return jobs, wakes, True
                    case _Wake():
                        wakes.append(item)
                    case _Job():
                        jobs.append(item)
                item = self._jobs.get_nowait()
        except queue.Empty:
            return jobs, wakes, False

    def _write(self, jobs: list[_Job]) -> list[_Job]:
        """Write the jobs in order; gives those that could not be. After a failure the first one tries alone, so that
        another failure costs no more than it, however many wait."""
        first_alone = self._failed
        while jobs:
            batch = jobs[:1] if first_alone else jobs
            try:
                self._commit(batch)
            except Exception as error:  # whatever it is: the thread must live on to wake those who wait
                self._kept = sum(job.entries for job in jobs)
                if not self._failed:
                    self._failed = True
                    self._on_failure(self._told(error))
                return jobs
            for sha256 in (sha256 for job in batch for sha256 in job.blobs):
                self._unwritten.pop(sha256, None)
            jobs, first_alone = jobs[len(batch) :], False
        self._kept = 0
        if self._failed:
            self._failed = False
            self._on_recovery()
        return jobs

    def _told(self, error: Exception) -> str:
        reason = str(error).partition("\n")[0].rstrip(".")
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror
        elif getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
            reason = "the disk is full"
        what = f"The session cannot be written ({reason}) and goes on in memory."
        return f"{what}\nIt is tried again by itself: make room, or mend {self.path.parent}."

    def _commit(self, jobs: Sequence[_Job]) -> None:
        """Write the jobs in one transaction. A new file comes to be in the same one, so none is ever without entries."""
        if not self._made:
            return self._make(jobs)
        if not self.path.exists():
            # What would be written now could not be read without what was in it.
            self._disconnect()
            raise FileNotFoundError("it was removed while the session was open")
        if self._lock is None:  # closed, and gone on with all the same
            self._lock = SessionLock(self.path.with_suffix(".lock"))
        try:
            connection = self._connection or self._connected()
            connection.execute("BEGIN IMMEDIATE")
            for job in jobs:
                job.write(connection, self._failed)
            connection.execute("COMMIT")
        except BaseException:
            self._disconnect()
            raise
        return None

    def _shorten_log(self) -> None:
        """Empty a log that is long. SQLite by itself begins again at its start, and a page that a kill cuts off there would
        look damaged: behind it stands what the log held before."""
        with contextlib.suppress(OSError, sqlite3.Error):
            if self._connection is not None and log_of(self.path).stat().st_size >= LONG_LOG_BYTES:
                self._connection.execute("PRAGMA busy_timeout = 0")  # with a reader in it, the next commit tries again
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                self._connection.execute(f"PRAGMA busy_timeout = {round(BUSY_S * 1_000)}")

    def _make(self, jobs: Sequence[_Job]) -> None:
        def fill(connection: sqlite3.Connection) -> None:
            connection.executemany("INSERT INTO meta VALUES (?, ?)", self._meta_rows())
            for job in jobs:
                job.write(connection, self._failed)

        if self._lock is None:
            ensure_private_dir(self.path.parent)
            self._lock = SessionLock(self.path.with_suffix(".lock"))
        make_file(self.path, fill)
        self._made = True

    def _connected(self) -> sqlite3.Connection:
        migrate(self.path)
        self._connection = connect(self.path)
        self._connection.execute("PRAGMA wal_autocheckpoint = 0")
        if (layout := version_of(self._connection)) > VERSION:
            raise newer(self.path, layout)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _meta_rows(self) -> list[tuple[str, str]]:
        rows = [("id", self.meta.id), ("project", self.meta.project), ("created_ms", str(self.meta.created_ms))]
        return rows + ([("forked_from", self.meta.forked_from)] if self.meta.forked_from else [])


def _is_there(connection: sqlite3.Connection, row: _Row) -> bool:
    """Whether the row was written: a commit whose sync failed may be found whole when the file is opened again.

    Raises:
        sqlite3.IntegrityError: another one has its key.
    """
    sql = "SELECT key, parent, kind, time_ms, CAST(payload AS BLOB) FROM entry WHERE key = ?"
    found = connection.execute(sql, row[:1]).fetchone()
    if found is not None and found != row:
        raise sqlite3.IntegrityError(f"another program has written entry {row[0]}")
    return found is not None


def _finish(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)

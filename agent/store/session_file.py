"""One session's SQLite file. A thread owns the writing connection; callers queue jobs and wait for `durable` where they must.

The file is made with the first append. Jobs that wait together are committed together, in order. If writing fails (a full
disk, a read-only file system, a file that someone removed) the session goes on in memory: the jobs are kept and tried again
with the next one. Nobody ever waits for a writer that gave up.
"""

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from agent.config.paths import ensure_private_dir
from agent.store.base import Blob, QueuedMessage, SessionMeta
from agent.store.lock import SessionBusyError, SessionLock
from agent.store.queue_rows import insert_message
from agent.store.schema import connect, create_tables, upgrade
from agent.transcript import Entry, encode_payload


class _Job(NamedTuple):
    write: Callable[[sqlite3.Connection], object]
    blobs: tuple[str, ...] = ()


class _Wake(NamedTuple):
    call: Callable[[], object]


class SessionFile:
    """The store of a session that is kept. Holds the session's lock from the first write until `close`."""

    def __init__(
        self,
        path: Path,
        meta: SessionMeta,
        lock: SessionLock | None = None,
        on_failure: Callable[[str], None] = lambda text: None,
        on_closed: Callable[[Path], None] = lambda path: None,
    ) -> None:
        """`lock` is given for a file that exists. `on_failure` takes a text for the user, once for each run of failures;
        it may be called from the writer thread. `on_closed` is told the file when it was written to and the session has
        been closed, in the thread that closes it."""
        self.path = path
        self.meta = meta
        self._lock = lock
        self._made = lock is not None  # the writer thread's own, once that runs
        self._on_failure = on_failure
        self._on_closed = on_closed
        self._jobs: queue.SimpleQueue[_Job | _Wake | None] = queue.SimpleQueue()
        self._unwritten: dict[str, bytes] = {}
        self._reader: sqlite3.Connection | None = None
        self._thread: threading.Thread | None = None
        self._unlockable = False

    # ------------------------------------------------------------------ SessionStore

    def append(self, entries: Sequence[Entry], blobs: Iterable[Blob] = (), delivered: Iterable[int] = ()) -> None:
        rows = [(e.key, e.parent, e.kind, e.time_ms, encode_payload(e.payload)) for e in entries]
        blob_rows = [(blob.sha256, blob.data) for blob in blobs]
        gone = [(id_,) for id_ in delivered]
        self._unwritten.update(blob_rows)

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", rows)
            connection.executemany("INSERT OR IGNORE INTO blob VALUES (?, ?)", blob_rows)
            connection.executemany("DELETE FROM queue WHERE id = ?", gone)

        self._put(_Job(write, tuple(sha256 for sha256, _ in blob_rows)))

    def enqueue(self, message: QueuedMessage, blobs: Iterable[Blob] = ()) -> None:
        rows = [(blob.sha256, blob.data) for blob in blobs]
        self._unwritten.update(rows)

        def write(connection: sqlite3.Connection) -> None:
            insert_message(connection, message)
            connection.executemany("INSERT OR IGNORE INTO blob VALUES (?, ?)", rows)

        self._put(_Job(write, tuple(sha256 for sha256, _ in rows)))

    def dequeue(self, ids: Iterable[int]) -> None:
        gone = [(id_,) for id_ in ids]
        self._put(_Job(lambda c: c.executemany("DELETE FROM queue WHERE id = ?", gone)))

    def save_counts(self, tokenizer: str, counts: Mapping[int, int]) -> None:
        rows = [(key, tokenizer, tokens) for key, tokens in counts.items()]
        self._put(_Job(lambda c: c.executemany("INSERT OR REPLACE INTO count VALUES (?, ?, ?)", rows)))

    def blob(self, sha256: str) -> bytes:
        if (data := self._unwritten.get(sha256)) is not None:
            return data
        if not self.path.exists():
            raise KeyError(sha256)
        if self._reader is None:
            self._reader = connect(self.path, read_only=True)
        row = self._reader.execute("SELECT data FROM blob WHERE sha256 = ?", (sha256,)).fetchone()
        if row is None:
            raise KeyError(sha256)
        return bytes(row[0])

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
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._lock is not None:
            self._lock.release()
        if was_written:
            self._on_closed(self.path)

    # ------------------------------------------------------------------ the writer thread

    def _put(self, job: _Job) -> None:
        if self._unlockable:
            return
        if self._lock is None:
            try:
                ensure_private_dir(self.path.parent)
                self._lock = SessionLock(self.path.with_suffix(".lock"))
            except (SessionBusyError, OSError) as error:
                self._unlockable = True
                self._on_failure(f"The session is not kept: {error}")
                return
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="session-writer", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def _write_all(self) -> None:
        connection: sqlite3.Connection | None = None
        pending: list[_Job] = []
        failed = closing = False
        while not closing:
            jobs, wakes, closing = self._take()
            pending += jobs
            if pending:
                try:
                    connection = self._commit(connection, pending)
                    failed = False
                    for job in pending:
                        for sha256 in job.blobs:
                            self._unwritten.pop(sha256, None)
                    pending = []
                except Exception as error:  # whatever it is: the thread must live on to wake those who wait
                    connection = None
                    if not failed:
                        self._on_failure(f"{self.path} cannot be written: {error}. The session goes on in memory.")
                    failed = True
            for wake in wakes:
                with contextlib.suppress(RuntimeError):  # the loop that waited may be closed
                    wake.call()
        if connection is not None:
            connection.close()

    def _take(self) -> tuple[list[_Job], list[_Wake], bool]:
        """Wait for work, then take all there is; the flag says that `close` was called."""
        jobs: list[_Job] = []
        wakes: list[_Wake] = []
        item = self._jobs.get()
        while True:
            match item:
                case None:
                    return jobs, wakes, True
                case _Wake():
                    wakes.append(item)
                case _Job():
                    jobs.append(item)
            try:
                item = self._jobs.get_nowait()
            except queue.Empty:
                return jobs, wakes, False

    def _commit(self, connection: sqlite3.Connection | None, jobs: Sequence[_Job]) -> sqlite3.Connection:
        """Write the jobs in one transaction. A new file comes to be in the same one, so none is ever without entries."""
        is_new = not self._made
        if not is_new and not self.path.exists():
            # What would be written now could not be read without what was in it.
            if connection is not None:
                connection.close()
            raise FileNotFoundError("it was removed while the session was open")
        if is_new:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            connection = None
        connection = connection or connect(self.path)
        try:
            if is_new:
                create_tables(connection)
                connection.executemany("INSERT INTO meta VALUES (?, ?)", self._meta_rows())
            else:
                connection.execute("BEGIN IMMEDIATE")
                upgrade(connection)
            for job in jobs:
                job.write(connection)
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            if is_new:
                self.path.unlink(missing_ok=True)
            raise
        self._made = True
        return connection

    def _meta_rows(self) -> list[tuple[str, str]]:
        rows = [("id", self.meta.id), ("project", self.meta.project), ("created_ms", str(self.meta.created_ms))]
        return rows + ([("forked_from", self.meta.forked_from)] if self.meta.forked_from else [])


def _finish(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)

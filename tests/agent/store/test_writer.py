"""The thread that writes a session: what fails is told and tried again, and nothing is written twice, halfway or elsewhere."""

import asyncio
import contextlib
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent.store import sessions
from agent.store.base import Blob, QueuedMessage, SessionMeta
from agent.store.lock import SessionLock, held, is_locked
from agent.store.session_file import SessionFile
from tests.agent.processes.running import linux_only
from tests.fakes.store_writer import entry, written

META = SessionMeta("x", "/p", 0)


class Told:
    """What a store says of its failures."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.recoveries = 0
        self.recovered = threading.Event()

    def recover(self) -> None:
        self.recoveries += 1
        self.recovered.set()

    def store(self, path: Path, retry_s: float = 60) -> SessionFile:
        """Of a file that exists, if there is one."""
        lock = SessionLock(path.with_suffix(".lock")) if path.is_file() else None
        return SessionFile(path, META, lock, self.failures.append, on_recovery=self.recover, retry_s=retry_s)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.db"


def sql(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def add(store: SessionFile, *keys: int) -> None:
    for key in keys:
        store.append([entry(key)])
    asyncio.run(store.durable(0))


def keys(path: Path) -> list[int]:
    return [e.key for e in sessions.load(path).entries]


def test_what_waits_is_written_in_order_and_only_as_far_as_it_can_be(path: Path, told: Told) -> None:
    path.mkdir()
    with closing(told.store(path)) as store:
        add(store, 1)
        store.enqueue(QueuedMessage(1, "half a character: \udcff"))
        add(store, 2)
        assert store.unwritten == 2 and told.failures[0].startswith(
            "The session cannot be written (there is another session of its name) and goes on in memory.\n"
        )
        path.rmdir()
        add(store)
        assert keys(path) == [1] and store.unwritten == 1, "the first is not held up by what can never be written"
        assert len(told.failures) == 1 and not told.recoveries, "one run of failures is told once"
    assert store.unwritten == 1


def test_it_is_tried_again_by_itself_and_told_when_all_is_written(path: Path, told: Told) -> None:
    path.mkdir()
    blob = Blob.of(b"picture")
    with closing(told.store(path, 0.01)) as store:
        store.enqueue(QueuedMessage(1, "waits"), [blob])
        add(store, 1)
        assert store.unwritten == 1 and store.blob(blob.sha256) == b"picture", "what is only in memory can be read"
        path.rmdir()
        assert told.recovered.wait(60)
        assert store.unwritten == 0 and store.blob(blob.sha256) == b"picture"
        add(store, 2)
        assert (len(told.failures), told.recoveries) == (1, 1)
    assert keys(path) == [1, 2] and sessions.load(path).queue == (QueuedMessage(1, "waits"),)


@pytest.mark.parametrize("found", ["nothing", "the entry", "another entry"])
def test_what_a_failed_commit_wrote_all_the_same_is_not_written_twice(path: Path, told: Told, found: str) -> None:
    aside = path.with_suffix(".aside")
    with closing(told.store(written(path, 1))) as store:
        add(store, 2)
        path.rename(aside)
        add(store, 3)
        assert store.unwritten == 1 and "(it was removed while the session was open)" in told.failures[0]
        aside.rename(path)
        if found != "nothing":  # as of a disk that says that it failed, and did not
            with closing(SessionFile(path, META, SessionLock(path.with_suffix(".other")))) as other:
                other.append([entry(3, "hello" if found == "the entry" else "another")])
        add(store, 4)
        if found == "another entry":
            assert store.unwritten == 2 and not told.recoveries
            sql(path, "DELETE FROM entry WHERE key = 3")
            add(store, 5)
        assert store.unwritten == 0 and (len(told.failures), told.recoveries) == (1, 1)
    loaded = sessions.load(path)
    assert [e.key for e in loaded.entries] == [1, 2, 3, 4, *([5] if found == "another entry" else [])]
    assert loaded.entries[2] == entry(3) and not loaded.damage


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("INSERT INTO entry VALUES (2, 1, 'user', 0, x'00')", "UNIQUE constraint failed: entry.key"),
        ("PRAGMA user_version = 99", "x.db was written by a newer claw (layout 99, this one knows 2)"),
        ("DROP TABLE entry", "no such table: entry"),
        (  # SQLite's own way to say that there is no room, without a disk that is full
            "CREATE TRIGGER t BEFORE INSERT ON entry BEGIN INSERT INTO last VALUES (NULL); END",
            "(the disk is full)",
        ),
    ],
)
def test_a_file_that_does_not_take_it_is_told_in_words_and_stays_as_it_is(
    path: Path, told: Told, statement: str, reason: str
) -> None:
    written(path, 1)
    with closing(told.store(path)) as store:
        sql(path, "CREATE TABLE last (n INTEGER PRIMARY KEY AUTOINCREMENT)")
        sql(path, f"INSERT INTO last VALUES ({2**63 - 1})")
        sql(path, statement)
        before = path.read_bytes()
        add(store, 2)
        assert store.unwritten == 1 and path.read_bytes() == before
        (said,) = told.failures
        assert reason in said and said.endswith(f"\nIt is tried again by itself: make room, or mend {path.parent}.")


def test_a_failure_that_is_no_fault_of_the_disk_is_not_blamed_on_it(path: Path, told: Told) -> None:
    with closing(told.store(path)) as store:
        store.enqueue(QueuedMessage(1, "\udcff"))
        add(store)
    assert "surrogates not allowed" in told.failures[0]


def test_who_no_longer_waits_is_not_woken(path: Path, told: Told) -> None:
    errors: list[object] = []

    async def main(store: SessionFile) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
        with closing(sqlite3.connect(path, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            store.append([entry(2)])
            waiting = asyncio.ensure_future(store.durable(2))
            await asyncio.sleep(0)
            waiting.cancel()
            holder.execute("ROLLBACK")
        await store.durable(2)

    with closing(told.store(written(path, 1))) as store:
        asyncio.run(main(store))
    assert errors == [] and keys(path) == [1, 2]


def test_a_session_that_was_never_written_keeps_nobody_waiting_and_tells_nobody(path: Path) -> None:
    closed: list[Path] = []
    store = SessionFile(path, META, on_closed=closed.append)
    with pytest.raises(StopIteration):  # it never waits
        store.durable(0).send(None)
    store.close()
    assert closed == [] and list(path.parent.iterdir()) == []
    store = SessionFile(path, META, on_closed=closed.append)
    store.append([entry(1)])
    store.close()
    store.close()
    assert closed == [path]


def _open_files(folder: Path) -> Iterator[str]:
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if link.readlink().is_relative_to(folder):
                yield link.readlink().name


@linux_only
def test_a_closed_session_has_no_file_open(path: Path, told: Told) -> None:
    store, blob = told.store(path), Blob.of(b"x")
    store.append([entry(1)], [blob])
    add(store, 2)
    store.blob(blob.sha256)
    assert list(_open_files(path.parent))
    store.close()
    assert list(_open_files(path.parent)) == []


def test_a_session_that_begins_sweeps_away_what_killed_ones_left_of_theirs(path: Path, told: Told) -> None:
    left = path.with_name("dead.new")
    with closing(told.store(written(path, 1))) as store:
        left.touch()
        add(store, 2)
    assert left.exists(), "to go on with a session costs no look at the folder"
    with closing(told.store(path.with_name("y.db"))) as store:
        add(store, 1)
    assert not left.exists()


def test_a_blob_is_read_from_the_file_that_has_the_name_now(path: Path, told: Told) -> None:
    blob, later = Blob.of(b"first"), Blob.of(b"later")
    with closing(told.store(path)) as store:
        store.append([entry(1)], [blob])
        add(store)
        assert store.blob(blob.sha256) == b"first"
        other = Path(shutil.copy(path, path.with_suffix(".other")))
        sql(other, f"INSERT INTO blob VALUES ('{later.sha256}', x'{later.data.hex()}')")
        other.rename(path)
        assert store.blob(later.sha256) == b"later"
        sql(path, f"UPDATE blob SET data = 'first' WHERE sha256 = '{blob.sha256}'")
        with pytest.raises(KeyError):
            store.blob(blob.sha256)


def test_what_comes_after_closing_is_written_under_the_lock_again(path: Path, told: Told) -> None:
    store = told.store(path)
    add(store, 1)
    store.close()
    with held(path):
        add(store, 2)
        assert store.unwritten == 1 and "open in another claw" in told.failures[0] and keys(path) == [1]
    add(store, 3)
    store.close()
    assert keys(path) == [1, 2, 3] and not is_locked(path.with_suffix(".lock"))

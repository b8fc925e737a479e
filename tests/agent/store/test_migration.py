"""Session files of other layouts: older ones become new ones without a moment at which none is whole, newer ones are read."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agent.recall import entry_text
from agent.replay import replay
from agent.store import sessions
from agent.store.base import Blob, QueuedMessage, ReadOnlyError
from agent.store.index import SessionIndex
from agent.store.migration import MigrationError, migrate
from agent.store.schema import VERSION, NewerLayoutError, SchemaError, version_of
from agent.transcript import Transcript, Unknown
from tests.agent.store.test_lock import REPOSITORY, ignore
from tests.fakes.store_writer import entry, written

OLD_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE entry (key INTEGER PRIMARY KEY, parent INTEGER, kind TEXT NOT NULL, time_ms INTEGER NOT NULL, payload BLOB NOT NULL);
CREATE TABLE blob (sha256 TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE count (key INTEGER NOT NULL, tokenizer TEXT NOT NULL, tokens INTEGER NOT NULL, PRIMARY KEY (key, tokenizer))
    WITHOUT ROWID;
CREATE TABLE queue (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
"""
"""Of layout 1."""


def old_session(path: Path, entries: int = 3) -> Path:
    """A session of layout 1 whose newest rows stand in its write-ahead log, as `kill -9` leaves it."""
    script = f"""
import os, sqlite3, sys
c = sqlite3.connect({str(path)!r}, isolation_level=None)
c.execute("PRAGMA journal_mode = WAL")
for statement in {OLD_TABLES!r}.split(";"):
    c.execute(statement)
c.execute("PRAGMA user_version = 1")
c.execute("PRAGMA wal_checkpoint(TRUNCATE)")
c.executemany("INSERT INTO meta VALUES (?, ?)", [("id", {path.stem!r}), ("project", "/p"), ("created_ms", "5")])
for key in range(1, {entries} + 1):
    payload = b'{{"type":"user","blocks":[{{"type":"text","text":"hello"}}],"synthetic":false}}'
    c.execute("INSERT INTO entry VALUES (?, ?, 'user', ?, ?)", (key, key - 1 or None, 1_000 + key, payload))
c.execute("INSERT INTO blob VALUES ('{Blob.of(b"spill").sha256}', x'{b"spill".hex()}')")
c.execute("INSERT INTO queue VALUES (7, 'waits')")
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert path.with_suffix(".db-wal").stat().st_size > 0
    return path


def layout(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return version_of(connection)


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


async def test_T96_an_older_session_is_migrated_with_its_first_new_entry_and_loses_nothing(tmp_path: Path) -> None:
    path = old_session(tmp_path / "old.db")
    path.chmod(0o644)
    store, loaded = sessions.open_session(path, ignore)
    assert loaded.entries == (entry(1), entry(2), entry(3)) and loaded.queue == (QueuedMessage(7, "waits"),)
    blob = Blob.of(b"spill")
    assert store.blob(blob.sha256) == b"spill" and layout(path) == 1, "looking at it changes nothing"
    new = Blob.of(b"more")
    store.append([entry(4)], [new])
    store.enqueue(QueuedMessage(8, "too", "turn"))
    await store.durable(4)
    assert layout(path) == VERSION and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert store.blob(new.sha256) == b"more" and store.blob(blob.sha256) == b"spill"
    store.close()
    loaded = sessions.load(path)
    assert [e.key for e in loaded.entries] == [1, 2, 3, 4] and loaded.meta.created_ms == 5
    assert loaded.queue == (QueuedMessage(7, "waits"), QueuedMessage(8, "too", "turn"))
    assert not {name for name in names(tmp_path) if "migrating" in name}


def test_T96_the_steps_are_taken_one_after_the_other(tmp_path: Path) -> None:
    path = old_session(tmp_path / "old.db")
    steps = {1: ("ALTER TABLE queue ADD COLUMN a",), 2: ("ALTER TABLE queue ADD COLUMN b", "CREATE TABLE more (x)")}
    assert migrate(path, steps, 3) and layout(path) == 3
    assert not migrate(path, steps, 3), "once is enough"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT a, b FROM queue").fetchall() == [(None, None)]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize(
    "step",
    [
        "DELETE FROM entry WHERE key = 2",
        "UPDATE entry SET payload = '' WHERE key = 2",
        "CREATE TABL",
        "DROP TABLE blob",
    ],
)
def test_T96_a_step_that_would_lose_something_changes_nothing(tmp_path: Path, step: str) -> None:
    path = old_session(tmp_path / "old.db")
    with pytest.raises((MigrationError, sqlite3.Error)):
        migrate(path, {1: (step,)}, 2)
    assert layout(path) == 1 and [e.key for e in sessions.load(path).entries] == [1, 2, 3]
    assert not {name for name in names(tmp_path) if "migrating" in name}


def test_T96_what_a_killed_migration_left_is_in_nobodys_way(tmp_path: Path) -> None:
    path = old_session(tmp_path / "old.db")
    for ending in ("", "-wal", "-shm", "-journal"):
        (tmp_path / f"old.db.migrating{ending}").write_bytes(b"half a file")
    assert migrate(path) and layout(path) == VERSION
    assert not {name for name in names(tmp_path) if "migrating" in name}


def test_T96_an_older_session_that_somebody_reads_is_migrated_later(tmp_path: Path) -> None:
    path = old_session(tmp_path / "old.db")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM entry").fetchone()
        with pytest.raises(sqlite3.OperationalError, match="reading it"):
            migrate(path)
        assert layout(path) == 1
        reader.execute("COMMIT")
    assert migrate(path)


def test_T96_where_a_copy_finds_no_room_none_is_begun(tmp_path: Path) -> None:
    path = old_session(tmp_path / "old.db")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = path.stat().st_size
    os.truncate(path, 1 << 43)  # takes no room itself
    with pytest.raises(OSError, match="No space left"):
        migrate(path)
    assert layout(path) == 1 and not {name for name in names(tmp_path) if "migrating" in name}
    os.truncate(path, size)
    assert migrate(path) and [e.key for e in sessions.load(path).entries] == [1, 2, 3]


CALLS = ("rename", "unlink", "openat", "fdatasync", "fsync", "pwrite64", "ftruncate")


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_T96_killed_at_any_call_of_a_migration_the_session_is_whole(tmp_path: Path, call: str) -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    script = (
        "import sys; from pathlib import Path; from agent.store.migration import migrate; migrate(Path(sys.argv[1]))"
    )
    killed = 0
    for when in (*range(1, 30), *range(30, 400, 37)):
        path = old_session(tmp_path / f"{call}-{when}.db", 40)
        done = subprocess.run(
            ["strace", "-f", "-qq", "-o", "/dev/null", "-P", str(path), "-P", str(tmp_path), "-P", f"{path}.migrating",
             "-P", f"{path}-wal", "-P", f"{path}-shm", "-e", f"trace={call}",
             "-e", f"inject={call}:signal=KILL:when={when}", sys.executable, "-c", script, str(path)],
            cwd=REPOSITORY,
        )  # fmt: skip
        loaded = sessions.load(path)
        assert [e.key for e in loaded.entries] == list(range(1, 41)) and not loaded.damage
        assert loaded.queue == (QueuedMessage(7, "waits"),)
        assert migrate(path) == (loaded.layout == 1) and layout(path) == VERSION
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        killed += 1
    assert killed, f"the migration makes no call of {call}"


# --------------------------------------------------------------------------- newer ones


def newer_session(path: Path, change: str) -> Path:
    written(path, 3)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(change)
    return path


def _entry_row(key: int, payload: dict[str, object]) -> str:
    return f"INSERT INTO entry VALUES ({key}, {key - 1}, '{payload['type']}', 9, '{json.dumps(payload)}');"


NEWER = {
    "layout": f"PRAGMA user_version = {VERSION + 7}; ALTER TABLE entry ADD COLUMN colour TEXT; CREATE TABLE more (x);",
    "kind": _entry_row(4, {"type": "dream", "of": ["sheep"]}) + _entry_row(5, {"type": "setting", "title": "T"}),
    "kind inside": _entry_row(4, {"type": "user", "blocks": [{"type": "smell", "of": "rain"}]}),
    "choice": _entry_row(4, {"type": "clearing", "items": [], "reason": "boredom"}),
    "field": _entry_row(4, {"type": "setting", "title": "T", "mood": "calm"}),
    "field inside": _entry_row(4, {"type": "user", "blocks": [{"type": "text", "text": "a", "language": "de"}]}),
}


@pytest.mark.parametrize("what", NEWER)
def test_T96_what_a_newer_claw_wrote_is_read_and_never_written(tmp_path: Path, what: str) -> None:
    path = newer_session(tmp_path / "new.db", NEWER[what])
    whole = path.read_bytes()
    with pytest.raises(NewerLayoutError, match="newer claw") as caught:
        sessions.open_session(path, ignore)
    assert str(caught.value).endswith("\nUpdate claw.")
    before = names(tmp_path)
    store, loaded = sessions.view(path)
    assert "newer claw" in store.read_only and [e.key for e in loaded.entries][:3] == [1, 2, 3]
    branch = Transcript(loaded.entries).branch
    shown = list(replay(branch))
    assert [type(event).__name__ for event in shown[:3]] == ["UserMessageAdded"] * 3
    unknown = [e for e in branch if isinstance(e.payload, Unknown)]
    assert len(unknown) == (what in ("kind", "kind inside", "choice"))
    if unknown:
        assert "does not know" in repr(shown[3]) and entry_text(unknown[0]) == ""
    with pytest.raises(ReadOnlyError):
        store.append([entry(9)])
    with pytest.raises(ReadOnlyError):
        store.enqueue(QueuedMessage(1, "x"))
    with pytest.raises(ReadOnlyError):
        store.dequeue([7])
    store.save_counts("x", {1: 1})
    assert names(tmp_path) - before == {"new.viewing"}
    store.close()
    assert path.read_bytes() == whole and names(tmp_path) == before
    infos, problems = SessionIndex(tmp_path, None).complete()
    assert [info.id for info in infos] == ["new"] and not problems


async def test_T96_a_copy_of_a_newer_session_can_be_written_and_holds_what_this_claw_knows(tmp_path: Path) -> None:
    path = newer_session(tmp_path / "new.db", NEWER["kind"])
    copy, loaded = sessions.fork(path, ignore)
    await copy.durable(5)
    assert [(e.key, e.parent) for e in loaded.entries] == [(1, None), (2, 1), (3, 2), (5, 3)]
    await asyncio.to_thread(copy.close)
    again, loaded = sessions.open_session(copy.path, ignore)
    assert [e.key for e in loaded.entries] == [1, 2, 3, 5] and not loaded.damage
    again.close()
    assert len(sessions.load(path).entries) == 5


def test_T96_a_newer_session_without_what_this_claw_looks_for_says_to_update(tmp_path: Path) -> None:
    path = newer_session(
        tmp_path / "new.db", f"PRAGMA user_version = {VERSION + 1}; ALTER TABLE entry RENAME TO record;"
    )
    with pytest.raises(SchemaError, match=r"newer claw.*\nUpdate claw"):
        sessions.view(path)
    infos, problems = SessionIndex(tmp_path, None).complete()
    assert not infos and "newer claw" in problems[0]


def test_damage_is_not_taken_for_something_newer(tmp_path: Path) -> None:
    path = newer_session(tmp_path / "x.db", _entry_row(4, {"type": "user", "blocks": 5}))
    loaded = sessions.load(path)
    assert not loaded.newer and [e.key for e in loaded.entries] == [1, 2, 3]


def test_T96_a_session_behind_a_link_is_migrated_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    real, link = old_session(tmp_path / "there" / "x.db"), tmp_path / "x.db"
    link.symlink_to(real)
    assert migrate(link) and link.is_symlink() and layout(real) == VERSION
    assert names(tmp_path / "there") == {"x.db"} and len(sessions.load(link).entries) == 3

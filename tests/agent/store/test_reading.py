"""What stands in a session file, whatever stands in it: its own facts, its waiting messages, its blobs, and its layout."""

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from agent.store import sessions
from agent.store.base import Blob, QueuedMessage, SessionMeta
from agent.store.damaged import project_of
from agent.store.digest import digest
from agent.store.index import SessionIndex
from agent.store.queue_rows import message_of
from agent.store.reading import DamagedFileError, read_meta, read_quietly
from agent.store.scan import FoundFile, look, scan
from agent.store.schema import VERSION, NewerLayoutError, SchemaError, check_version, connect, create_tables, version_of
from agent.store.session_file import SessionFile
from agent.store.session_info import unread_info
from agent.store.titles import rename
from agent.store.unknown import decode_row
from agent.transcript import Rewind, Setting, Unknown, User, encode_payload
from providers.types import TextBlock
from tests.agent.store.test_lock import ignore
from tests.fakes.store_writer import entry, written

SAID = User((TextBlock("x"),))


@pytest.fixture
def tables() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create_tables(connection)
        yield connection


def sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


# --------------------------------------------------------------------------- opening


@pytest.mark.parametrize(
    ("version", "to_write", "error"),
    [
        (0, False, SchemaError),
        (0, True, SchemaError),
        (1, True, None),
        (VERSION, True, None),
        (VERSION + 1, False, None),
        (VERSION + 1, True, NewerLayoutError),
    ],
)
def test_a_newer_layout_can_be_read_and_not_written(
    tables: sqlite3.Connection, version: int, to_write: bool, error: type[Exception] | None
) -> None:
    tables.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(error) if error else contextlib.nullcontext():
        assert check_version(tables, Path("x.db"), to_write=to_write) == version


def test_who_reads_while_another_writes_reads_again(tmp_path: Path) -> None:
    path = written(tmp_path / "x.db", 1)
    seen: list[int] = []

    def read(connection: sqlite3.Connection) -> int:
        seen.append(connection.execute("SELECT COUNT(*) FROM entry").fetchone()[0])
        return seen[-1]

    assert read_quietly(path, read) == 1 and seen == [1]
    assert {file.name for file in tmp_path.iterdir()} == {"x.db", "x.lock"}, "nothing is left beside it"

    def disturbed(connection: sqlite3.Connection) -> int:
        found = read(connection)
        if len(seen) == 2:
            sql(path, "INSERT INTO entry VALUES (2, 1, 'user', 0, x'00')")
        return found

    assert read_quietly(path, disturbed) == 2 and seen == [1, 1, 2]


@pytest.mark.parametrize("changes", [False, True])
def test_damage_that_is_met_while_another_writes_is_looked_at_again(tmp_path: Path, changes: bool) -> None:
    path = written(tmp_path / "x.db", 1)
    tries = 0

    def read(connection: sqlite3.Connection) -> int:
        nonlocal tries
        tries += 1
        if tries == 1:
            if changes:
                sql(path, "CREATE TABLE later (x)")
            raise sqlite3.DatabaseError("malformed")
        return tries

    if changes:
        assert read_quietly(path, read) == 2
    else:
        with pytest.raises(DamagedFileError):
            read_quietly(path, read)
        assert tries == 1


def test_what_is_wrong_around_a_file_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(SchemaError) as caught:
        sessions.load(tmp_path / "nowhere.db")
    assert type(caught.value) is SchemaError and "cannot be read" in str(caught.value)
    (tmp_path / "x.db").mkdir()
    with pytest.raises(SchemaError, match="no regular file"):
        sessions.load(tmp_path / "x.db")


def test_a_newer_session_may_lack_what_nobody_asks_for(tmp_path: Path) -> None:
    path = written(tmp_path / "x.db", 3)
    sql(path, "PRAGMA user_version = 99", "ALTER TABLE blob RENAME COLUMN data TO content")
    loaded = sessions.load(path)
    assert len(loaded.entries) == 3 and not loaded.damage and "newer claw" in loaded.newer
    with pytest.raises(NewerLayoutError, match="cannot be written"):
        sessions.open_session(path, ignore)


def test_a_newer_session_that_is_damaged_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = written(tmp_path / "x.db", 3)
    sql(path, "PRAGMA user_version = 99", "UPDATE entry SET payload = zeroblob(20000) WHERE key = 3")
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"A" * 4096)
    with pytest.raises(SchemaError, match="damaged, or not a session file"):
        sessions.view(path)


# --------------------------------------------------------------------------- rows


@pytest.mark.parametrize(
    ("rows", "meta"),
    [
        ([], SessionMeta("x", "", 0)),
        (
            [("id", "a"), ("project", "/p"), ("created_ms", "1790000000000"), ("forked_from", "b")],
            SessionMeta("a", "/p", 1_790_000_000_000, "b"),
        ),
        ([("created_ms", "²")], SessionMeta("x", "", 0)),
        ([("created_ms", "-5")], SessionMeta("x", "", 0)),
        ([("created_ms", "")], SessionMeta("x", "", 0)),
        ([("created_ms", "9" * 13)], SessionMeta("x", "", 10**13 - 1)),
        ([("created_ms", "9" * 14)], SessionMeta("x", "", 0)),
        ([("id", b"a"), (b"project", "/p"), ("created_ms", b"5")], SessionMeta("x", "", 0)),
    ],
)
def test_a_session_s_own_facts_are_read_whatever_they_are(
    tables: sqlite3.Connection, rows: list[tuple[object, object]], meta: SessionMeta
) -> None:
    tables.executemany("INSERT INTO meta VALUES (?, ?)", rows)
    assert read_meta(tables, Path("x.db")) == meta


@pytest.mark.parametrize(
    ("delivery", "raw", "message"),
    [
        ("turn", encode_payload(SAID), QueuedMessage(1, "t", "turn", SAID)),
        ("quiet", encode_payload(SAID).decode(), QueuedMessage(1, "t", "quiet", SAID)),
        ("turn", None, QueuedMessage(1, "t", "turn")),
        ("turn", 5, QueuedMessage(1, "t", "turn")),
        ("turn", encode_payload(Rewind()), QueuedMessage(1, "t", "turn")),
        ("turn", b"garbage", QueuedMessage(1, "t", "turn")),
        ("never", encode_payload(SAID), QueuedMessage(1, "t")),
        (b"\0", None, QueuedMessage(1, "t")),
    ],
)
def test_a_waiting_message_is_as_much_as_can_be_read_of_it(
    delivery: object, raw: object, message: QueuedMessage
) -> None:
    assert message_of(1, "t", delivery, raw) == message


def test_a_waiting_row_without_a_text_is_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path / "x.db", 1)
    sql(path, "INSERT INTO queue (id, text) VALUES (1, x'00'), (2, 'two')")
    assert sessions.load(path).queue == (QueuedMessage(2, "two"),)


NESTED = b'{"type":"user","blocks":[{"type":"text","text":"a","language":"de"}]}'


@pytest.mark.parametrize(
    ("kind", "raw", "payload", "is_newer"),
    [
        ("user", encode_payload(SAID), SAID, False),
        ("user", b'{"type": "user", "blocks": [{"text": "x", "type": "text"}]}', SAID, False),
        ("nonsense", encode_payload(SAID), SAID, False),
        ("user", NESTED, User((TextBlock("a"),)), True),
        ("setting", b'{"type":"setting","title":"T","mood":"calm"}', Setting(title="T"), True),
        ("setting", b'{"type":"setting","title":"T"}', Setting(title="T"), False),
        ("dream", b'{"type":"dream","of":"sheep"}', Unknown("dream", 29), True),
        ("user", b'{"type":"user","blocks":[{"type":"smell"}]}', Unknown("user", 43), True),
    ],
)
def test_what_a_newer_claw_added_is_seen_anywhere(kind: str, raw: bytes, payload: object, is_newer: bool) -> None:
    assert decode_row(kind, raw) == (payload, is_newer)


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("user", b'{"type":"user","blocks":5}'),
        ("user", b'{"type":"assistant","blocks":[{"type":"smell"}]}'),  # its own kind would stand in both places
        (None, b'{"type":"user","blocks":[{"type":"smell"}]}'),
        ("user", b"\0"),
        ("user", b'{"type":"user"}'),
    ],
)
def test_damage_is_nothing_newer(kind: object, raw: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, TypeError)):
        decode_row(kind, raw)


def test_a_title_can_be_given_to_a_session_that_has_only_waiting_messages(tmp_path: Path) -> None:
    path = written(tmp_path / "x.db", 0)
    rename(path, "A title")
    loaded = sessions.load(path)
    assert [(e.key, e.parent, e.payload) for e in loaded.entries] == [(1, None, Setting(title="A title"))]
    sql(path, "PRAGMA user_version = 99")
    for _ in range(2):  # it does not stay locked either
        with pytest.raises(NewerLayoutError):
            rename(path, "Another")


def test_who_only_looks_gets_blobs_that_are_there(tmp_path: Path) -> None:
    path, blob = written(tmp_path / "x.db", 1), Blob.of(b"data")
    sql(path, f"INSERT INTO blob VALUES ('{blob.sha256}', x'{blob.data.hex()}')")
    store, _ = sessions.view(path, "to look")
    assert store.read_only == "to look" and store.blob(blob.sha256) == b"data"
    with pytest.raises(KeyError):
        store.blob("0" * 64)
    path.write_bytes(b"damaged since")
    with pytest.raises(KeyError):
        store.blob(blob.sha256)
    store.close()


# --------------------------------------------------------------------------- files


def test_a_file_is_described_with_its_log(tmp_path: Path) -> None:
    path, log = tmp_path / "x.db", tmp_path / "x.db-wal"
    path.write_bytes(b"12345")
    os.utime(path, (50, 50))
    alone = look(path)
    assert alone is not None and (alone.id, alone.path, alone.size_bytes, alone.changed_s) == ("x", path, 5, 50.0)
    log.touch()
    assert look(path) == alone and not alone.has_log, "a reader leaves an empty one behind"
    log.write_bytes(b"678")
    stamps = {alone.stamp}
    for time_s, changed_s in ((90, 90.0), (20, 50.0)):
        os.utime(log, (time_s, time_s))
        both = look(path)
        assert both is not None and both == scan(tmp_path).files[0]
        assert (both.size_bytes, both.changed_s, both.has_log) == (8, changed_s, True)
        stamps.add(both.stamp)
    assert len(stamps) == 3
    path.write_bytes(b"")
    empty = look(path)
    assert empty is not None and empty.changed_s == 0.0
    assert look(tmp_path) is None and look(tmp_path / "none.db") is None


def test_only_files_are_sessions_and_the_last_written_comes_first(tmp_path: Path) -> None:
    assert scan(tmp_path / "none") == scan(tmp_path)
    for name, time_s in (("a.db", 5), ("b.db", 9), ("c.db", 5), ("b.db-wal", 1), ("x.new", 1), ("d.lock", 1)):
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (time_s, time_s))
    (tmp_path / "linked.db").symlink_to(tmp_path / "a.db")
    (tmp_path / "folder.db").mkdir()
    (tmp_path / "astray.db").symlink_to(tmp_path / "none")
    found = scan(tmp_path)
    assert [file.id for file in found.files] == ["b", "linked", "c", "a"]
    assert [problem.partition(" is ")[0] for problem in found.problems] == [
        str(tmp_path / "astray.db"),
        str(tmp_path / "folder.db"),
    ]
    (told,) = scan(tmp_path / "a.db").problems
    assert told == f"{tmp_path / 'a.db'} cannot be read: Not a directory."


@pytest.mark.parametrize(
    ("name", "created"),
    [
        ("20260102-030405-abcd", "20260102-030405"),
        ("99999999-999999-x", None),
        ("notes", None),
        ("x-20260102-030405", None),
    ],
)
def test_of_a_file_that_was_not_read_its_name_tells_when_it_was_begun(name: str, created: str | None) -> None:
    info = unread_info(FoundFile(Path("/s"), f"{name}.db", "", 1_790_000_000.5, 7))
    wanted = 1_790_000_000_500 if created is None else int(time.mktime(time.strptime(created, "%Y%m%d-%H%M%S")) * 1000)
    assert (info.id, info.created_ms, info.updated_ms, info.size_bytes) == (name, wanted, 1_790_000_000_500, 7)
    assert not info.is_known


def test_a_settled_file_is_read_as_it_stands_and_nothing_is_made_beside_it(tmp_path: Path) -> None:
    path = written(tmp_path / "x.db", 2)
    for settled, made in ((True, False), (False, True)):
        with closing(connect(path, read_only=True, settled=settled)) as connection:
            assert version_of(connection) == VERSION
            assert connection.execute("SELECT COUNT(*) FROM entry").fetchone() == (2,)
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                connection.execute("DELETE FROM entry")
            assert path.with_name("x.db-shm").exists() == made
    with closing(connect(path)) as connection:
        connection.execute("DELETE FROM entry")
    assert sessions.load(path).entries == ()


@pytest.mark.parametrize("value", ["7", "'data'", "x'00'", "NULL"])
def test_who_only_looks_gets_no_blob_that_is_not_what_its_name_says(tmp_path: Path, value: str) -> None:
    path, name = written(tmp_path / "x.db", 1), Blob.of(b"data").sha256
    sql(path, "PRAGMA writable_schema = ON", "UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '')")
    sql(path, f"INSERT INTO blob VALUES ('{name}', {value})")
    store, _ = sessions.view(path)
    with pytest.raises(KeyError):
        store.blob(name)
    store.close()


async def test_a_session_behind_a_link_is_read_with_its_log(tmp_path: Path) -> None:
    real, link = tmp_path / "there" / "x.db", tmp_path / "here" / "x.db"
    link.parent.mkdir()
    link.symlink_to(real)
    open_one = SessionFile(real, SessionMeta("x", "/p", 0))
    for key in (1, 2, 3):
        open_one.append([entry(key)])
        await open_one.durable(key)
    file = look(link)
    assert file is not None and file.has_log and scan(link.parent).files == (file,)
    store, loaded = sessions.view(link)
    assert len(loaded.entries) == 3 and len(sessions.load(link).entries) == 3
    store.close()
    open_one.close()
    assert link.is_symlink() and {path.name for path in link.parent.iterdir()} == {"x.db"}


def test_what_has_a_log_s_name_and_is_none_hides_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "x.db", 2)
    alone = look(path)
    (tmp_path / "x.db-wal").mkdir()
    assert look(path) == alone and scan(tmp_path).files == (alone,)
    store, loaded = sessions.view(path)
    assert len(loaded.entries) == 2
    store.close()


async def test_a_folder_that_cannot_be_looked_into_is_told_and_a_session_goes_on_in_memory(tmp_path: Path) -> None:
    folder, failures = tmp_path / ("a name too long" * 20), list[str]()
    path = folder / "x.db"
    store = sessions.new_session(folder, Path("/p"), failures.append)
    store.append([entry(1)])
    await store.durable(1)
    store.close()
    assert store.unwritten == len(failures) == 1 and sessions.newest(folder, Path("/p")) is None
    for look_at in (sessions.view, sessions.load, digest, project_of):
        with pytest.raises(SchemaError):
            look_at(path)
    with closing(SessionIndex(folder, folder / "index.db")) as index:
        infos, problems = index.complete()
        index.note(path)
        assert infos == [] == index.search("hello") and len(problems) == 1

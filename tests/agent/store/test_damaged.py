"""What is told of a damaged session file, where it goes, and which files count as damaged."""

import asyncio
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tracemalloc
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from agent.store import damaged, sessions
from agent.store import salvage_pages as pages
from agent.store.base import AnyBlob, Blob, QueuedMessage, SessionMeta
from agent.store.index import SessionIndex
from agent.store.lock import held
from agent.store.migration import migrate
from agent.store.salvage import salvage
from agent.store.schema import SchemaError, create_tables
from agent.store.session_file import SessionFile
from agent.transcript import AttachmentBlock, Entry, Payload, Result, Spill, User
from providers.types import ImageBlock, TextBlock
from tests.agent.processes.running import linux_only
from tests.agent.store.test_lock import REPOSITORY, ignore
from tests.agent.store.test_migration import old_session

BLOBS = tuple(Blob.of(data) for data in (b"image", b"attached", b"whole output", b"nobody's"))
NAMES = tuple(blob.sha256 for blob in BLOBS)
NAMING: tuple[Payload, ...] = (
    User((TextBlock("see"), ImageBlock("image/png", NAMES[0]), AttachmentBlock("a.txt", "", sha256=NAMES[1]))),
    User((AttachmentBlock("b.txt", "text alone"),)),
    Result("c", "bash", (TextBlock("cut"),), spill=Spill(NAMES[2], 12)),
    Result("d", "bash", (TextBlock("not cut"),)),
)
"""Entries that name the first three."""


def made(path: Path, *payloads: Payload, blobs: tuple[AnyBlob, ...] = ()) -> Path:
    store = SessionFile(path, SessionMeta(path.stem, "/p", 0))
    store.append([Entry(key, key - 1 or None, 7, payload) for key, payload in enumerate(payloads, 1)], blobs)
    store.enqueue(QueuedMessage(1, "waits"))
    store.close()
    return path


def said(count: int) -> tuple[Payload, ...]:
    return tuple(User((TextBlock(f"message {number}"),)) for number in range(count))


def sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def spoil(path: Path, at: int = 0, size: int = 100) -> bytes:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"A" * size)
    return path.read_bytes()


def told(path: Path) -> str:
    """What is told when it is opened, but where the damaged file is kept."""
    store, loaded = sessions.open_session(path, ignore)
    store.close()
    words, _, kept = loaded.told.partition(" The damaged file is kept as ")
    assert kept == f"{next((path.parent / damaged.FOLDER).glob('*.db'))}."
    return words.removeprefix(f"Session {path.stem} was damaged: ")


GARBAGE = "UPDATE entry SET payload = 'garbage' WHERE key"


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        ((f"{GARBAGE} = 1",), "4 entries could be saved, at least 1 is lost."),
        ((f"{GARBAGE} IN (1, 2)",), "3 entries could be saved, at least 2 are lost."),
        ((f"{GARBAGE} > 1",), "1 entry could be saved, at least 4 are lost."),
        (
            (f"{GARBAGE} = 5", f"DELETE FROM blob WHERE sha256 IN ('{NAMES[0]}', '{NAMES[3]}')"),
            "4 entries could be saved, at least 1 is lost, 1 image or whole output is lost.",
        ),
        (
            (f"{GARBAGE} = 5", "DELETE FROM blob"),
            "4 entries could be saved, at least 1 is lost, 3 images or whole outputs are lost.",
        ),
        (("DROP TABLE blob",), "5 entries could be saved, 3 images or whole outputs are lost."),
        (("DROP TABLE queue",), "5 entries could be saved, messages that waited may be lost."),
        (("DROP TABLE count",), "5 entries could be saved, nothing is known to be lost."),
        (("DROP TABLE meta",), "5 entries could be saved, nothing is known to be lost."),
        (("ALTER TABLE count RENAME tokens TO number",), "5 entries could be saved, nothing is known to be lost."),
    ],
)
def test_what_is_lost_is_told_in_numbers(tmp_path: Path, statements: tuple[str, ...], words: str) -> None:
    path = made(tmp_path / "x.db", *NAMING, *said(1), blobs=BLOBS)
    sql(path, *statements)
    assert told(path) == words
    assert sessions.load(path).told == "" and sessions.load(path).damaged == 0, "what is put in its place is whole"


def test_what_is_cut_off_is_told_in_bytes(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", *said(2))
    whole = path.stat().st_size
    os.truncate(path, whole - 1_234)
    looked = sessions.load(path)
    assert looked.told.startswith(f"{path} is damaged: 2 entries can be read")
    assert looked.told.endswith(". The file is as it was.")
    assert told(path).endswith("1,234 bytes of the file are missing, and what stood there.")


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"", "it is empty, so it is not a session file"), (b"words", "it is damaged, or not a session file")],
)
def test_a_file_without_an_entry_is_told_for_what_it_is(tmp_path: Path, content: bytes, what: str) -> None:
    (tmp_path / "x.db").write_bytes(content)
    with pytest.raises(SchemaError, match=re.escape(f"x.db cannot be read: {what}. It stays as it is.")):
        sessions.load(tmp_path / "x.db")


def test_each_damaged_file_is_kept_under_a_name_of_its_own(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", *said(3))
    before = []
    for _ in range(3):
        before.append(spoil(path))
        sessions.open_session(path, ignore)[0].close()
    kept = list((tmp_path / damaged.FOLDER).iterdir())
    assert sorted(file.read_bytes() for file in kept) == sorted(before)
    assert all(re.fullmatch(r"x-\d{8}-\d{6}(-[2-9])?\.db", file.name) for file in kept)


def test_what_a_killed_process_left_in_work_is_in_nobodys_way(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", *said(3))
    spoil(path)
    for ending in ("", "-wal", "-shm"):
        path.with_name(f"x.salvaging{ending}").write_bytes(b"half")
    assert told(path) == "3 entries could be saved, nothing is known to be lost."
    assert {file.name for file in tmp_path.iterdir()} == {"x.db", "x.lock", damaged.FOLDER}


def test_what_was_begun_and_cannot_be_ended_leaves_all_as_it_was(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", *said(3))
    path.with_suffix(".salvaged").write_bytes(path.read_bytes())
    before = spoil(path)
    (tmp_path / damaged.FOLDER).write_bytes(b"in the way")
    with pytest.raises(SchemaError, match="is damaged and cannot be replaced"):
        sessions.open_session(path, ignore)
    assert path.read_bytes() == before and not path.with_suffix(".salvaged").exists()
    (tmp_path / damaged.FOLDER).unlink()
    assert told(path) == "3 entries could be saved, nothing is known to be lost."


def test_where_no_second_name_can_be_given_it_is_kept_as_a_copy(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other file system")
    path = made(tmp_path / "x.db", *said(3))
    before = spoil(path)
    elsewhere = memory / f"claw-test-damaged-{os.getpid()}"
    elsewhere.mkdir()
    (tmp_path / damaged.FOLDER).symlink_to(elsewhere)
    try:
        assert told(path) == "3 entries could be saved, nothing is known to be lost."
        (kept,) = elsewhere.iterdir()
        assert kept.read_bytes() == before and kept.stat().st_mode & 0o777 == 0o600
    finally:
        for file in elsewhere.iterdir():
            file.unlink()
        elsewhere.rmdir()


@pytest.mark.parametrize("size", [16, 100, 4096])
def test_where_sqlite_reads_nothing_all_that_stands_beside_the_entries_is_saved_too(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x.db"
    meta = SessionMeta("x", "/p", 5, forked_from="y")
    store = SessionFile(path, meta)
    store.append([Entry(1, None, 7, said(1)[0])], [BLOBS[0]])
    store.save_counts("t", {1: 5, 2: 6})
    for number in (1, 2):
        store.enqueue(QueuedMessage(number, f"waits {number}", "turn", User((TextBlock("waits"),))))
    store.close()
    before = sessions.load(path)
    spoil(path, 0, size)
    assert sessions.newest(tmp_path, Path("/p")) == path and sessions.newest(tmp_path, Path("/q")) is None
    store, loaded = sessions.open_session(path, ignore)
    assert loaded.meta == meta and loaded.counts == {"t": {1: 5, 2: 6}} and loaded.queue == before.queue
    assert loaded.entries == before.entries and store.blob(BLOBS[0].sha256) == BLOBS[0].data
    assert "nothing is known to be lost" in loaded.told
    store.close()


def test_messages_are_found_where_their_tree_begins_and_only_there(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", *said(2))
    sql(
        path,
        "DROP TABLE queue",
        "CREATE TABLE other (id INTEGER PRIMARY KEY, text TEXT)",
        "INSERT INTO other VALUES (4, 'of another table')",
        "CREATE TABLE queue (id INTEGER PRIMARY KEY, text TEXT, delivery TEXT, user BLOB)",
        "INSERT INTO queue VALUES (5, 'waits', 'step', NULL)",
        f"{GARBAGE} = 2",
    )
    store, loaded = sessions.open_session(path, ignore)
    store.close()
    assert loaded.queue == (QueuedMessage(5, "waits"),)
    assert "1 entry could be saved, at least 1 is lost. " in loaded.told


def test_a_header_that_is_none_says_nothing_of_what_is_missing(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", *said(2))
    os.truncate(path, path.stat().st_size - 1_234)
    spoil(path, 0, 16)
    assert "bytes of the file" not in told(path)


# --------------------------------------------------------------------------- the log


@pytest.mark.parametrize("damage", ["none", "a frame", "the header", "its end"])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_log_that_stops_too_early_is_damage_unless_somebody_writes_it(
    tmp_path: Path, damage: str, is_open: bool
) -> None:
    path, log = tmp_path / "x.db", tmp_path / "x.db-wal"
    store = SessionFile(tmp_path / "open.db", SessionMeta("x", "/p", 0))
    for key in range(1, 7):
        store.append([Entry(key, key - 1 or None, 7, User((TextBlock("words " * 500),)))])
        asyncio.run(store.durable(key))
    for ending in ("", "-wal"):
        shutil.copyfile(tmp_path / f"open.db{ending}", tmp_path / f"x.db{ending}")
    store.close()
    match damage:
        case "a frame":
            spoil(log, 32 + 2 * (24 + 4096) + 500, 20)
        case "the header":
            spoil(log, 8, 4)
        case "its end":  # not written to its end: no damage
            os.truncate(log, log.stat().st_size - 100)
    with held(path) if is_open else nullcontext():
        loaded = sessions.load(path)
    assert bool(loaded.told) == (damage in ("a frame", "the header") and not is_open)
    assert loaded.entries[0].key == 1
    store, loaded = sessions.open_session(path, ignore)
    store.close()
    assert bool(loaded.told) == (damage in ("a frame", "the header"))
    assert (tmp_path / damaged.FOLDER).exists() == bool(loaded.told)
    assert len(loaded.entries) >= 5
    assert ("4,096 bytes of the file are missing" in loaded.told) == (damage == "a frame"), "what its log holds is not"
    assert loaded.told.count("bytes") == (damage == "a frame")


@linux_only
def test_no_file_stays_open_of_what_was_looked_at_saved_or_brought_up(tmp_path: Path) -> None:
    def left_open() -> list[str]:
        names = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return [name for name in names if name.startswith(str(tmp_path))]

    path = made(tmp_path / "sessions" / "x.db", *said(3))
    index = SessionIndex(path.parent, tmp_path / "index.db")
    (tmp_path / "index.db").write_bytes(b"no index")
    index.complete()
    index.close()
    old = old_session(path.with_name("old.db"))
    sessions.load(old)
    migrate(old)
    spoil(path)
    sessions.load(path)
    sessions.open_session(path, ignore)[0].close()
    view, _ = sessions.view(path)
    view.close()
    assert left_open() == [], "nor is anything left to the garbage collector"


SYNCED = """
import sys
from pathlib import Path
from agent.store import sessions
from agent.store.migration import migrate
from tests.fakes.store_writer import written
folder = Path(sys.argv[1])
written(folder / "new.db", 1)
migrate(folder / "old.db")
sessions.open_session(folder / "bad.db", print)[0].close()
"""


def test_each_new_file_is_on_the_disk_before_it_has_its_name_and_its_name_before_anything_else(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    folder = tmp_path / "sessions"
    spoil(made(folder / "bad.db", *said(3)))
    old_session(folder / "old.db")
    trace = ["strace", "-f", "-qq", "-y", "-o", str(tmp_path / "trace"), "-e", "trace=fsync,rename,link"]
    subprocess.run([*trace, sys.executable, "-c", SYNCED, folder], cwd=REPOSITORY, check=True)
    calls = [
        (line.split("(")[0].split()[-1], [Path(name).name for name in re.findall(r'[<"](/[^>"]+)[>"]', line)])
        for line in (tmp_path / "trace").read_text().splitlines()
        if str(folder) in line
    ]
    renames = [number for number, (call, _) in enumerate(calls) if call == "rename"]
    assert [calls[number][1] for number in renames] == [
        ["new.new", "new.db"],
        ["old.db.migrating", "old.db"],
        ["bad.salvaging", "bad.salvaged"],
        ["bad.salvaged", "bad.db"],
    ]
    assert all(calls[number + 1] == ("fsync", ["sessions"]) for number in renames)
    assert [calls[number - 1] for number in renames[1:]] == [
        ("fsync", ["old.db.migrating"]),
        ("fsync", ["bad.salvaging"]),
        ("fsync", [damaged.FOLDER]),
    ]
    assert [names[0] for call, names in calls if call == "link"] == ["bad.db"]


# --------------------------------------------------------------------------- rows with another's number


def give_number(path: Path, key: int, number: int) -> None:
    """Write another number of one byte over an entry's."""
    content = bytearray(path.read_bytes())
    for start in range(0, len(content), pages.PAGE_BYTES):
        page = bytes(content[start : start + pages.PAGE_BYTES])
        for at in (int.from_bytes(page[place : place + 2], "big") for place in range(8, 8 + 2 * page[4], 2)):
            _, behind = pages.varint(page, at)
            if page[0] == pages.TABLE_LEAF and page[behind] == key and b'"user"' in page[at : at + 60]:
                content[start + behind] = number
    path.write_bytes(content)


@pytest.mark.parametrize(("key", "number"), [(33, 97), (33, 1), (70, 6), (3, 127), (80, 112)])
def test_an_entry_whose_number_is_damaged_takes_no_other_one_s_place(tmp_path: Path, key: int, number: int) -> None:
    path = made(tmp_path / "x.db", *said(100))
    give_number(path, key, number)
    assert told(path) == "99 entries could be saved, at least 1 is lost."
    loaded = sessions.load(path)
    expected = {place: payload for place, payload in enumerate(said(100), 1) if place != key}
    assert {entry.key: entry.payload for entry in loaded.entries} == expected


def test_a_number_far_away_costs_no_memory(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", *said(3))
    sql(path, "UPDATE entry SET key = 9999999 WHERE key = 3", f"{GARBAGE} = 2")
    tracemalloc.start()
    try:
        words = sessions.load(path).told
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
        words = told(path)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert words == "2 entries could be saved, at least 9,999,997 are lost."


def test_where_the_queue_is_said_to_begin_nowhere_it_is_found_all_the_same(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", *said(2))
    sql(path, "PRAGMA writable_schema = ON", "UPDATE sqlite_master SET rootpage = 'seven' WHERE name = 'queue'")
    store, loaded = sessions.open_session(path, ignore)
    store.close()
    assert "2 entries could be saved, nothing is known to be lost. " in loaded.told
    assert loaded.queue == (QueuedMessage(1, "waits"),)


@pytest.mark.parametrize("table", range(5))
def test_a_torn_row_in_the_table_of_tables_costs_nothing(tmp_path: Path, table: int) -> None:
    path = made(tmp_path / "x.db", *said(2), blobs=BLOBS)
    content = bytearray(path.read_bytes())
    at = int.from_bytes(content[108 + 2 * table : 110 + 2 * table], "big")
    _, behind = pages.varint(bytes(content), at)
    content[behind - 1] -= 1  # one byte less than its columns take
    path.write_bytes(content)
    store, loaded = sessions.open_session(path, ignore)
    assert "2 entries could be saved, nothing is known to be lost. " in loaded.told
    assert loaded.queue == (QueuedMessage(1, "waits"),) and store.blob(NAMES[0]) == BLOBS[0].data
    store.close()


def test_a_full_disk_is_told_as_such(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", *said(100))
    spoil(path, 4 * 4096, 4096)
    with closing(sqlite3.connect(tmp_path / "target", isolation_level=None)) as target:
        create_tables(target)
        target.execute("PRAGMA max_page_count = 8")
        with pytest.raises(sqlite3.OperationalError, match="full"):
            salvage(path, target)

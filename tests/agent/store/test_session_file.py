import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agent.store import sessions
from agent.store.base import Blob, QueuedMessage, SessionMeta
from agent.store.lock import SessionBusyError
from agent.store.schema import SchemaError
from agent.store.session_file import LONG_LOG_BYTES, SessionFile
from agent.transcript import Entry, Rewind, Setting, Transcript, User
from providers.types import TextBlock

PROJECT = Path("/somewhere/project")


def user(text: str) -> User:
    return User((TextBlock(text),))


def entry(key: int, text: str = "hello") -> Entry:
    return Entry(key, key - 1 or None, 1_000 + key, user(text))


def ignore(text: str) -> None:
    raise AssertionError(text)


async def test_a_session_comes_back_whole(tmp_path: Path) -> None:
    store = sessions.new_session(tmp_path / "sessions", PROJECT, ignore)
    blob = Blob.of(b"\x00whole output")
    store.append([entry(1), entry(2, "你好 [/x]")], [blob])
    assert store.blob(blob.sha256) == blob.data
    store.enqueue(QueuedMessage(1, "later"))
    store.enqueue(QueuedMessage(2, "even later"))
    store.append([entry(3)], delivered=[1])
    store.save_counts("o200k_base", {1: 5, 2: 7})
    await store.durable(3)
    assert store.blob(blob.sha256) == blob.data
    store.close()

    reopened, loaded = sessions.open_session(store.path, ignore)
    assert loaded.entries == (entry(1), entry(2, "你好 [/x]"), entry(3))
    assert loaded.queue == (QueuedMessage(2, "even later"),)
    assert loaded.counts == {"o200k_base": {1: 5, 2: 7}}
    assert loaded.meta == store.meta
    assert reopened.blob(blob.sha256) == blob.data
    with pytest.raises(KeyError):
        reopened.blob("0" * 64)
    reopened.close()


async def test_T90_a_long_log_is_emptied_and_never_begun_again_over_its_old_content(tmp_path: Path) -> None:
    store = sessions.new_session(tmp_path, PROJECT, ignore)
    log = store.path.with_name(store.path.name + "-wal")
    sizes: list[int] = []
    while sizes.count(0) < 3:
        store.append([entry(len(sizes) + 1, "x" * 1_000_000)])
        await store.durable(len(sizes) + 1)
        await store.durable(len(sizes) + 1)  # the writer is behind what it did after the first answer
        sizes.append(log.stat().st_size if log.exists() else 0)
    assert 1_000_000 < max(sizes) < LONG_LOG_BYTES
    # The next page is at the log's end: whatever a kill cuts off there, nothing follows it.
    last = len(sizes) + 1
    store.append([entry(last)])
    await store.durable(last)
    assert 0 < log.stat().st_size < 100_000
    store.close()
    reopened, loaded = sessions.open_session(store.path, ignore)
    assert [each.key for each in loaded.entries] == list(range(1, last + 1))
    reopened.close()


async def test_durable_means_that_another_process_can_read_it(tmp_path: Path) -> None:
    store = sessions.new_session(tmp_path, PROJECT, ignore)
    for key in range(1, 30):
        store.append([entry(key)])
        await store.durable(key)
        assert sessions.load(store.path).entries[-1].key == key
    store.close()


def test_no_file_before_the_first_entry_and_private_modes_T98(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store = sessions.new_session(tmp_path / "sessions", PROJECT, ignore)
        assert not (tmp_path / "sessions").exists()
        store.append([entry(1)])
        asyncio.run(store.durable(1))
        modes = {path.suffix: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "sessions").iterdir()}
        assert stat.S_IMODE((tmp_path / "sessions").stat().st_mode) == 0o700
        store.close()
    finally:
        os.umask(old)
    assert modes and set(modes.values()) == {0o600}


def test_one_writer_and_a_fork_for_the_second_T94(tmp_path: Path) -> None:
    store = sessions.new_session(tmp_path, PROJECT, ignore)
    blob = Blob.of(b"spill")
    store.append([entry(1), entry(2), Entry(3, 1, 0, Rewind()), Entry(4, 3, 0, user("after"))], [blob])
    asyncio.run(store.durable(4))
    with pytest.raises(SessionBusyError, match="open in another claw"):
        sessions.open_session(store.path, ignore)
    forked, loaded = sessions.fork(store.path, ignore)
    asyncio.run(forked.durable(4))
    assert [e.key for e in loaded.entries] == [1, 3, 4]
    assert sessions.load(forked.path).meta.forked_from == store.meta.id
    assert forked.blob(blob.sha256) == b"spill"
    forked.close()
    store.close()
    reopened, _ = sessions.open_session(store.path, ignore)
    reopened.close()


def test_listing_finds_titles_and_the_newest_of_a_project(tmp_path: Path) -> None:
    for number, project in enumerate((PROJECT, PROJECT, Path("/other"))):
        meta = SessionMeta(f"20260101-00000{number}-abcd", str(project), number)
        store = SessionFile(tmp_path / f"{meta.id}.db", meta)
        store.append([Entry(1, None, 50 + number, user(f"question {number}\nmore"))])
        if number == 0:
            store.append([Entry(2, 1, 60, Setting(title="A title"))])
        store.close()
        os.utime(tmp_path / f"{meta.id}.db", (number, number))
    (tmp_path / "20260101-000009-dead.db").write_bytes(b"not a database at all, but long enough" * 100)
    infos, problems = sessions.listing(tmp_path)
    assert [(info.title, info.entries, info.updated_ms) for info in infos] == [
        ("question 2", 1, 52),
        ("question 1", 1, 51),
        ("A title", 2, 60),
    ]
    assert len(problems) == 1 and "dead.db" in problems[0]
    assert sessions.newest(tmp_path, PROJECT) == tmp_path / "20260101-000001-abcd.db"
    assert sessions.newest(tmp_path, Path("/nowhere")) is None
    assert sessions.find(tmp_path, "20260101-000002").stem == "20260101-000002-abcd"
    for wrong in ("20260101", "nothing", ""):
        with pytest.raises(sessions.SessionNotFoundError, match="claw sessions list"):
            sessions.find(tmp_path, wrong)


def test_a_newer_layout_is_refused_and_an_unreadable_row_costs_only_itself(tmp_path: Path) -> None:
    store = sessions.new_session(tmp_path, PROJECT, ignore)
    store.append([entry(1), entry(2), entry(3)])
    store.close()
    with sqlite3.connect(store.path) as connection:
        connection.execute('UPDATE entry SET payload = \'{"type":"invented"}\' WHERE key = 2')
    connection.close()
    loaded = sessions.load(store.path)
    assert [e.key for e in loaded.entries] == [1, 3] and loaded.damaged == 1
    assert [e.key for e in Transcript(loaded.entries).branch] == [1, 3]
    with sqlite3.connect(store.path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(SchemaError, match="newer claw"):
        sessions.open_session(store.path, ignore)
    (tmp_path / "empty.db").touch()
    with pytest.raises(SchemaError, match="not a session file"):
        sessions.load(tmp_path / "empty.db")


def test_when_nothing_can_be_written_the_session_goes_on_in_memory_T97(tmp_path: Path) -> None:
    said: list[str] = []
    path = tmp_path / "x.db"
    path.mkdir()  # what stands in the way cannot be opened as a database
    store = SessionFile(path, SessionMeta("20260101-000000-abcd", "/p", 0), on_failure=said.append)
    store.append([entry(1)], [Blob.of(b"a")])
    asyncio.run(store.durable(1))
    store.append([entry(2)], [Blob.of(b"b")])
    asyncio.run(store.durable(2))
    assert len(said) == 1 and "goes on in memory" in said[0]
    assert store.blob(Blob.of(b"b").sha256) == b"b"
    path.rmdir()  # the obstacle goes: what was kept in memory is written with the next entry
    store.append([entry(3)])
    asyncio.run(store.durable(3))
    assert [e.key for e in sessions.load(path).entries] == [1, 2, 3]
    assert store.blob(Blob.of(b"a").sha256) == b"a"
    store.close()


def test_T97_a_job_that_can_never_be_written_keeps_nobody_waiting(tmp_path: Path) -> None:
    said: list[str] = []
    store = sessions.new_session(tmp_path, PROJECT, said.append)
    store.append([entry(1)])
    store.enqueue(QueuedMessage(1, "half a character: \udcff"))
    store.append([entry(2)])
    asyncio.run(asyncio.wait_for(store.durable(2), 40))
    assert len(said) == 1 and "goes on in memory" in said[0]
    store.close()


def test_a_file_that_is_removed_while_it_is_open_is_not_begun_anew_without_its_beginning(tmp_path: Path) -> None:
    said: list[str] = []
    store = sessions.new_session(tmp_path, PROJECT, said.append)
    store.append([entry(1)])
    asyncio.run(store.durable(1))
    store.path.unlink()
    for key in (2, 3):
        store.append([entry(key)])
        asyncio.run(store.durable(key))
    assert len(said) == 1 and "removed" in said[0]
    assert not store.path.exists()
    store.close()


@pytest.mark.parametrize("name", [b"caf\xe9", b"\xff\xfe", "käse 你好".encode()])
def test_a_project_whose_name_is_no_text_has_sessions_like_any_other(tmp_path: Path, name: bytes) -> None:
    project, other = Path(os.fsdecode(b"/p/" + name)), Path(os.fsdecode(b"/p/" + name + b"\xe9"))
    store = sessions.new_session(tmp_path, project, ignore)
    store.append([entry(1)])
    asyncio.run(asyncio.wait_for(store.durable(1), 40))
    store.close()
    assert sessions.newest(tmp_path, project) == store.path
    assert sessions.newest(tmp_path, other) is None
    assert sessions.listing(tmp_path)[0][0].project.encode()


@pytest.mark.parametrize("damage", ["pages", "text", "empty", "number"])
def test_B11_a_damaged_file_is_told_in_words_and_hides_no_other(tmp_path: Path, damage: str) -> None:
    store = sessions.new_session(tmp_path, PROJECT, ignore)
    store.append([entry(key, "word " * 400) for key in range(1, 40)])
    store.close()
    whole = store.path.read_bytes()
    good = tmp_path / "20200101-000000-good.db"
    good.write_bytes(whole)
    os.utime(good, (1, 1))
    if damage == "number":
        with sqlite3.connect(store.path) as connection:
            connection.execute("UPDATE entry SET payload = 5 WHERE key = 7")
        connection.close()
        loaded = sessions.load(store.path)
        assert loaded.damaged == 1 and len(loaded.entries) == 38
        return
    store.path.write_bytes(
        {"pages": whole[:8192] + b"A" * (len(whole) - 8192), "text": b"garbage", "empty": b""}[damage]
    )
    for look in (
        sessions.load,
        lambda path: sessions.open_session(path, ignore),
        lambda path: sessions.fork(path, ignore),
    ):
        with pytest.raises(SchemaError) as caught:
            look(store.path)
        what, _, remedy = str(caught.value).partition("\n")
        assert str(store.path) in what and remedy
    infos, problems = sessions.listing(tmp_path)
    assert [info.id for info in infos] and len(problems) == 1 and str(store.path) in problems[0]
    # One that can still be told to be of this project is not passed over in silence.
    assert sessions.newest(tmp_path, PROJECT) == (store.path if damage == "pages" else good)


CRASHER = """
import asyncio, sys
from pathlib import Path
from agent.store import sessions
from agent.transcript import Entry, User
from providers.types import TextBlock

async def main():
    store = sessions.new_session(Path(sys.argv[1]), Path("/p"), print)
    for key in range(1, 100_000):
        store.append([Entry(key, key - 1 or None, 0, User((TextBlock("x" * 700),)))])
        await store.durable(key)
        sys.stdout.write(f"{key}\\n")
        sys.stdout.flush()

asyncio.run(main())
"""


@pytest.mark.parametrize("after", [1, 2, 17, 60])
def test_kill_9_loses_nothing_that_was_acknowledged_T91(tmp_path: Path, after: int) -> None:
    root = Path(__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", CRASHER, str(tmp_path)], cwd=root, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    acknowledged = 0
    for line in process.stdout:
        acknowledged = int(line)
        if acknowledged >= after:
            process.send_signal(signal.SIGKILL)
            break
    acknowledged = max([acknowledged, *(int(line) for line in process.stdout if line.endswith("\n"))])
    process.stdout.close()
    process.wait()
    (path,) = tmp_path.glob("*.db")
    store, loaded = sessions.open_session(path, ignore)
    keys = [e.key for e in loaded.entries]
    assert keys == list(range(1, len(keys) + 1)) and len(keys) >= acknowledged and loaded.damaged == 0
    store.close()

"""Damaged session files: saved when they are opened to go on, read when they are only looked at, and never harmed."""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.store import damaged, sessions
from agent.store.base import QueuedMessage
from agent.store.index import SessionIndex
from agent.store.lock import SessionBusyError
from agent.store.mending import LOST_MESSAGE, mend
from agent.store.preview import ending, last_messages
from agent.store.removal import Removal
from agent.store.schema import SchemaError
from agent.store.titles import rename
from agent.transcript import Assistant, Entry, Payload, Result, Rewind, Setting, Transcript, User, encode_payload
from providers.types import TextBlock, ToolCall, Usage
from tests.faults import g02_damage, g09_resume
from tests.faults.damage import KINDS, Original, make

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> list[Original]:
    """One that was closed, and one that was not."""
    return [make(tmp_path_factory.mktemp(f"original{seed}") / "made", seed) for seed in (2, 3)]


def copied(original: Original, folder: Path) -> Path:
    for ending_ in ("", "-wal"):
        source = original.path.with_name(original.path.name + ending_)
        if source.exists():
            shutil.copyfile(source, folder / source.name)
    return folder / original.path.name


def spoil(path: Path, at: int = 8192, size: int = 4096) -> bytes:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"A" * size)
    return path.read_bytes()


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def no_failure(text: str) -> None:
    raise AssertionError(text)


# --------------------------------------------------------------------------- every kind


@pytest.mark.parametrize("kind", KINDS)
def test_T92_each_kind_of_damage_costs_only_what_was_hit(originals: list[Original], tmp_path: Path, kind: str) -> None:
    original = originals[1 if "log" in kind else list(KINDS).index(kind) % 2]
    result = g02_damage.run(original, tmp_path / "damaged", kind, 1)
    assert result["notes"] == [] and result["slowest_s"] < 5
    assert result["found"] == result["wanted"], result
    assert result["wanted"] or kind in ("empty", "foreign", "log gone")


def test_T100_a_session_four_times_as_long_takes_about_four_times_as_long_to_open(tmp_path: Path) -> None:
    short, long = (
        g09_resume.resume(g09_resume.make(tmp_path / str(size) / "data" / "sessions", 400 * size, size), 1)
        for size in (1, 4)
    )
    assert long.cpu_s < 4 * 1.5 * short.cpu_s
    assert long.peak_mb < 150 and long.events > 3 * short.events


def test_T92_the_damaged_file_and_its_log_are_kept_private_and_told_once(
    originals: list[Original], tmp_path: Path
) -> None:
    path = copied(originals[1], tmp_path)
    path.chmod(0o644)
    log = path.with_name(path.name + "-wal")
    before = path.read_bytes(), spoil(log, log.stat().st_size // 2, 100)
    store, loaded = sessions.open_session(path, no_failure)
    store.close()
    kept = sorted((tmp_path / damaged.FOLDER).iterdir())
    assert [file.suffix for file in kept if file.suffix != ".db-shm"] == [".db", ".db-wal"]
    assert (kept[0].read_bytes(), next(f for f in kept if f.suffix == ".db-wal").read_bytes()) == before
    assert {stat.S_IMODE(file.stat().st_mode) for file in (*kept, path)} == {0o600}
    assert stat.S_IMODE((tmp_path / damaged.FOLDER).stat().st_mode) == 0o700
    assert str(kept[0]) in loaded.damage and f"{len(loaded.entries):,} entries could be saved" in loaded.damage
    store, again = sessions.open_session(path, no_failure)
    store.append([Entry(again.entries[-1].key + 1, again.entries[-1].key, 0, User((TextBlock("on"),)))])
    store.close()
    assert again.damage == "" and sessions.load(path).entries[:-1] == loaded.entries
    assert [info.id for info in sessions.listing(tmp_path)[0]] == [path.stem]


def test_T92_who_only_looks_reads_what_is_left_and_writes_nothing(originals: list[Original], tmp_path: Path) -> None:
    path, good = copied(originals[0], tmp_path), tmp_path / "20200101-000000-good.db"
    shutil.copyfile(path, good)
    spoil(path, 0, 100)
    before = everything(tmp_path)
    with contextlib.closing(SessionIndex(tmp_path, tmp_path.parent / "index.db")) as index:
        for _ in range(2):  # the second time it comes from the index
            infos, problems = index.complete()
            assert {info.id: info.entries for info in infos}[path.stem] == len(originals[0].entries)
            assert len(infos) == 2 and len(problems) == 1 and str(path) in problems[0]
        word = str(sessions.load(good).entries[2].payload).partition("text='")[2][:14]
        assert {hit.session for hit in index.search(word)} == {path.stem, good.stem}
    assert last_messages(path) == last_messages(good) and str(path) in ending(path)[1]
    loaded = sessions.load(path)
    assert str(path) in loaded.damage and loaded.entries == sessions.load(good).entries
    assert dict(sessions.of_project(tmp_path, Path("/p"), "")).keys() == {path.stem, good.stem}
    assert sessions.view(path, "to look")[1].entries == loaded.entries
    os.utime(good, (1, 1))
    assert sessions.newest(tmp_path, Path("/p")) == path
    left = {name: data for name, data in everything(tmp_path).items() if not name.endswith(".viewing")}
    assert left == before


def test_a_fork_of_a_damaged_session_leaves_it_as_it_is(originals: list[Original], tmp_path: Path) -> None:
    path = copied(originals[0], tmp_path)
    before = spoil(path, 0, 100)
    forked, loaded = sessions.fork(path, no_failure)
    forked.close()
    assert path.read_bytes() == before and "damaged" in loaded.damage
    assert sessions.load(forked.path).entries == loaded.entries
    assert all(forked.blob(name) for name in originals[0].blobs)


@pytest.mark.parametrize("content", [b"", b"\0", b"no database", b"\0" * 70_000])
def test_T92_where_nothing_is_left_the_error_names_file_and_remedy(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "20260101-000000-dead.db"
    path.write_bytes(content)
    for look in (sessions.load, lambda path: sessions.open_session(path, no_failure), lambda path: rename(path, "x")):
        with pytest.raises(SchemaError) as caught:
            look(path)
        what, _, remedy = str(caught.value).partition("\n")
        assert str(path) in what and f"claw sessions rm {path.stem}" in remedy
    assert everything(tmp_path) == {path.name: content, f"{path.stem}.lock": b""}


def test_what_cannot_be_kept_is_not_touched(originals: list[Original], tmp_path: Path) -> None:
    path = copied(originals[0], tmp_path)
    spoil(path)
    (tmp_path / damaged.FOLDER).write_bytes(b"in the way")
    before = everything(tmp_path)
    with pytest.raises(SchemaError, match="It is as it was"):
        sessions.open_session(path, no_failure)
    assert {**before, f"{path.stem}.lock": b""} == everything(tmp_path)


def test_an_open_session_is_not_saved_from_under_its_writer(originals: list[Original], tmp_path: Path) -> None:
    path = copied(originals[0], tmp_path)
    store, _ = sessions.open_session(path, no_failure)
    before = spoil(path)
    for attempt in (lambda: sessions.open_session(path, no_failure), lambda: rename(path, "x")):
        with pytest.raises(SessionBusyError):
            attempt()
    assert path.read_bytes() == before and not (tmp_path / damaged.FOLDER).exists()
    store.close()


def test_who_reads_while_another_writes_never_takes_the_file_for_damaged(tmp_path: Path) -> None:
    store = sessions.new_session(tmp_path, Path("/p"), no_failure)
    for key in range(1, 120):
        store.append([Entry(key, key - 1 or None, 0, User((TextBlock("x" * 3_000),)))])
        if key % 6 == 0:
            loaded = sessions.load(store.path) if store.path.exists() else None
            assert loaded is None or not loaded.damage
    asyncio.run(store.durable(119))
    assert not sessions.load(store.path).damage
    store.close()


def test_to_give_a_title_saves_a_damaged_session_first(originals: list[Original], tmp_path: Path) -> None:
    path = copied(originals[0], tmp_path)
    before = spoil(path, 0, 100)
    rename(path, "A title")
    (kept,) = (tmp_path / damaged.FOLDER).iterdir()
    assert kept.read_bytes() == before
    loaded = sessions.load(path)
    assert not loaded.damage and len(loaded.entries) == len(originals[0].entries) + 1


def test_who_deletes_a_session_deletes_what_was_kept_of_it(originals: list[Original], tmp_path: Path) -> None:
    path, other = copied(originals[0], tmp_path), tmp_path / "20200101-000000-good.db"
    shutil.copyfile(path, other)
    for file in (path, other):
        spoil(file, 0, 100)
        sessions.open_session(file, no_failure)[0].close()
    with contextlib.closing(SessionIndex(tmp_path, None)) as index:
        removal = Removal(tmp_path, tmp_path / "spills", index)
        assert removal.size_bytes(path) > other.stat().st_size * 3 // 2
        removal.remove([path])
    assert {file.name.partition("-good")[0] for file in tmp_path.rglob("*.db")} == {"20200101-000000"}
    assert len(list((tmp_path / damaged.FOLDER).iterdir())) == 1


# --------------------------------------------------------------------------- what was begun


def test_what_a_killed_process_had_begun_is_ended(originals: list[Original], tmp_path: Path) -> None:
    path = copied(originals[1], tmp_path)
    whole = sessions.load(path).entries
    spoil(path)
    path.with_suffix(".salvaging").write_bytes(b"half")
    shutil.copyfile(copied(originals[0], tmp_path.parent), path.with_suffix(".salvaged"))
    old = path.read_bytes()
    store, loaded = sessions.open_session(path, no_failure)
    store.close()
    assert loaded.entries == sessions.load(originals[0].path).entries != whole
    kept = list((tmp_path / damaged.FOLDER).glob("*.db"))
    assert [file.read_bytes() for file in kept] == [old] and str(kept[0]) in loaded.damage
    assert not path.with_name(path.name + "-wal").exists() and not path.with_suffix(".salvaged").exists()


OPENER = """
import sys
from pathlib import Path
from agent.store import sessions
sessions.open_session(Path(sys.argv[1]), print)[0].close()
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is missing")
@pytest.mark.parametrize("call", ["rename", "link", "linkat", "unlink", "fsync", "fdatasync", "pwrite64", "chmod"])
def test_T91_killed_anywhere_while_it_is_saved_nothing_is_lost(
    originals: list[Original], tmp_path: Path, call: str
) -> None:
    for number in (1, 2, 3, 5, 8, 13):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = copied(originals[1], folder)
        log = path.with_name(path.name + "-wal")
        old = path.read_bytes(), spoil(log, log.stat().st_size // 2, 100)
        wanted = sessions.load(path).entries
        inject = f"inject={call}:signal=KILL:when={number}"
        command = ["strace", "-qq", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]
        done = subprocess.run([*command, sys.executable, "-c", OPENER, path], cwd=ROOT, capture_output=True)
        assert done.returncode in (0, -signal.SIGKILL, 128 + signal.SIGKILL), done.stderr
        store, loaded = sessions.open_session(path, no_failure)
        store.close()
        assert loaded.entries == wanted
        kept = [file.read_bytes() for file in (folder / damaged.FOLDER).iterdir()]
        assert old[0] in kept and old[1] in kept


# --------------------------------------------------------------------------- rows


def reply(*ids: str) -> Assistant:
    calls = tuple(ToolCall(id_, "bash", "{}") for id_ in ids)
    return Assistant((TextBlock("x"), *calls), "p", "m", "anthropic", "f", None, Usage(), "end_turn")


def said(text: str = "x") -> User:
    return User((TextBlock(text),))


def rows(*found: tuple[int, object, Payload | bytes]) -> Iterator[tuple[object, object, object, object, object]]:
    for key, parent, payload in found:
        kind = payload.__struct_config__.tag if not isinstance(payload, bytes) else "user"
        yield key, parent, kind, 7, payload if isinstance(payload, bytes) else encode_payload(payload)


def tree_of(*found: tuple[int, object, Payload | bytes]) -> list[tuple[int, int | None]]:
    entries = mend(rows(*found)).entries
    Transcript(entries)
    return [(entry.key, entry.parent) for entry in entries]


@pytest.mark.parametrize("parent", [3, 4, 99, -1, 2**62, None, "x", b"\0", 1.5, 1])
def test_T92_a_parent_that_leads_anywhere_else_keeps_the_order(parent: object) -> None:
    found = tree_of((1, None, said()), (2, 1, reply()), (3, parent, said()), (4, 3, reply()))
    assert found == [(1, None), (2, 1), (3, 2), (4, 3)]


def test_a_rewind_keeps_its_target_or_the_entry_before_a_lost_one() -> None:
    start: list[tuple[int, object, Payload | bytes]] = [
        (1, None, said()),
        (2, 1, reply()),
        (3, 2, said()),
        (4, 3, reply()),
    ]
    assert tree_of(*start, (5, 2, Rewind()), (6, 5, said()))[-2:] == [(5, 2), (6, 5)]
    assert tree_of(*start, (5, None, Rewind()), (6, 5, said()))[-2:] == [(5, None), (6, 5)]
    assert tree_of(*start[:2], (3, 2, b"\0"), (4, 3, said()), (5, 3, Rewind()))[-1] == (5, 2)
    assert tree_of(*start, (5, 5, Rewind()))[-1] == (5, 4)
    assert tree_of(*start, (5, "x", Rewind()))[-1] == (5, 4)


def test_what_is_no_entry_is_passed_over_and_keys_grow() -> None:
    found = mend(
        [
            *rows((-3, None, said()), (1, None, said()), (2, 1, b"\0"), (3, 2, b"[" * 100_000), (4, 3, said())),
            *rows((4, 3, said("again")), (2, 1, said())),
            (None, 1, "user", 7, b"{}"),
            (9, 4, "user", "no time", encode_payload(said())),
            (2**60, 9, "user", 7, encode_payload(said())),
        ]
    )
    assert [(e.key, e.parent, e.time_ms) for e in found.entries] == [(1, None, 7), (4, 1, 7), (9, 4, 7)]
    assert found.is_damaged and {2, 3, -3, 2**60} <= found.garbage


def test_a_mark_stands_where_a_reply_would_answer_nothing_and_only_there() -> None:
    def marks(*found: tuple[int, object, Payload | bytes]) -> list[int]:
        return [e.key for e in mend(rows(*found)).entries if LOST_MESSAGE in str(e.payload)]

    assert marks((2, 1, reply())) == [1]
    assert tree_of((2, 1, reply())) == [(1, None), (2, 1)]
    gap = mend(rows((1, None, said()), (2, 1, reply()), (4, 3, Setting(mode="ask")), (5, 4, reply()), (6, 5, said())))
    assert [(e.key, e.parent) for e in gap.entries] == [(1, None), (2, 1), (3, 2), (4, 3), (5, 4), (6, 5)]
    assert gap.changed == {3, 4} and gap.missing == {3} and gap.entries[2].time_ms == 7
    assert marks((1, None, said()), (2, 1, reply()), (4, 3, reply())) == [3]
    assert marks((1, None, said()), (2, 1, reply("a")), (4, 3, reply())) == []  # a result was lost
    assert marks((1, None, said()), (2, 1, reply("a", "b")), (4, 3, Result("b", "bash", ())), (5, 4, reply())) == []
    assert marks((1, None, said()), (2, 1, reply()), (3, 2, reply())) == []  # nothing is lost there
    orphan = Result("gone", "bash", ())
    assert marks((3, 2, orphan), (4, 3, orphan), (5, 4, reply())) == [2]  # its call is lost, and with it what was asked
    assert marks((1, None, said()), (2, 1, reply()), (5, 4, orphan), (6, 5, reply())) == [4]
    assert marks((1, None, said()), (4, 3, orphan), (5, 4, reply())) == []
    start: list[tuple[int, object, Payload | bytes]] = [(1, None, said()), (2, 1, reply()), (3, 2, said())]
    assert marks(*start, (4, None, Rewind()), (6, 5, reply())) == [5]
    assert marks(*start, (4, 2, Rewind()), (6, 5, reply())) == [5]
    assert marks(*start, (4, 1, Rewind()), (6, 5, reply())) == []
    assert not mend(rows((1, None, said()), (2, 1, reply()), (3, 2, reply()))).is_damaged


def test_a_huge_row_is_not_believed(originals: list[Original], tmp_path: Path) -> None:
    path = copied(originals[0], tmp_path)
    chance = random.Random(4)
    KINDS["huge row"](path, chance)
    with path.open("r+b") as file:
        file.truncate(1 << 30)  # as long as the row says it is; nothing of that takes room
    loaded = sessions.load(path)
    assert len(loaded.entries) > len(originals[0].entries) / 2


def test_many_waiting_messages_are_kept_and_delivered_ones_stay_away(tmp_path: Path) -> None:
    store = sessions.new_session(tmp_path, Path("/p"), no_failure)
    store.append([Entry(1, None, 0, said())])
    for number in range(1, 60):
        store.enqueue(QueuedMessage(number, f"later {number} " * 100))
    store.dequeue(range(1, 50))
    store.close()
    spoil(store.path, 0, 100)
    reopened, loaded = sessions.open_session(store.path, no_failure)
    reopened.close()
    assert [message.id for message in loaded.queue] == list(range(50, 60))


def test_a_blob_that_is_not_what_its_name_says_is_lost(originals: list[Original], tmp_path: Path) -> None:
    path = copied(originals[0], tmp_path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE blob SET data = zeroblob(9) WHERE rowid = 1")
        (name,) = connection.execute("SELECT sha256 FROM blob WHERE rowid = 1").fetchone()
        connection.commit()
    store, _ = sessions.open_session(path, no_failure)
    with pytest.raises(KeyError):
        store.blob(name)
    assert all(store.blob(other) for other in originals[0].blobs - {name})
    store.close()

"""Deleting by age: never what is open or was just gone on with, and never by a clock that jumped."""

import contextlib
import os
import shutil
import time
from pathlib import Path

import pytest

from agent.permissions.grants import StateError, read_state
from agent.store import sessions
from agent.store.index import SessionIndex
from agent.store.lock import SessionBusyError, ViewingLock
from agent.store.removal import Removal
from agent.store.retention import clock_is_steady
from tests.agent.store.test_lock import ignore, writer
from tests.fakes.store_writer import entry, written

DAY = 86_400
NOW = int(time.time())


def removal(folder: Path) -> Removal:
    return Removal(folder, folder / "spills", SessionIndex(folder, None))


def session(folder: Path, age_days: float, name: str = "x") -> Path:
    path = written(folder / f"{name}.db", 1)
    os.utime(path, (NOW - age_days * DAY,) * 2)
    spill = folder / "spills" / name / "entry-1.txt"
    spill.parent.mkdir(parents=True)
    spill.write_text("spill")
    return path


def test_T99_a_session_that_another_process_has_open_stays_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    path = session(tmp_path, 100)
    with writer(path, 0) as process:
        while not path.with_suffix(".lock").read_text():
            assert process.poll() is None
        os.utime(path, (NOW - 100 * DAY,) * 2)
        assert removal(tmp_path).remove_older(30, NOW).sessions == 0
        with pytest.raises(SessionBusyError):
            removal(tmp_path).remove([path])
        assert path.exists() and (tmp_path / "spills" / "x" / "entry-1.txt").exists()
    assert removal(tmp_path).remove_older(30, NOW).sessions == 1
    assert {p.name for p in tmp_path.iterdir()} == {"spills"} and not list((tmp_path / "spills").iterdir())


def test_T99_a_session_that_is_only_read_stays(tmp_path: Path) -> None:
    path = session(tmp_path, 100)
    viewing = ViewingLock(path)
    assert removal(tmp_path).remove_older(30, NOW).sessions == 0 and path.exists()
    viewing.release()
    assert removal(tmp_path).remove_older(30, NOW).sessions == 1
    assert {p.name for p in tmp_path.iterdir()} == {"spills"}


def test_T99_a_session_that_was_gone_on_with_after_the_look_at_its_age_stays(tmp_path: Path) -> None:
    path = session(tmp_path, 100)
    limit = NOW - 30 * DAY
    store, _ = sessions.open_session(path, ignore)  # as another claw would, between the look and the lock
    store.append([entry(2)])
    store.close()
    assert path.stat().st_mtime > limit
    assert removal(tmp_path).remove([path], unless_since=limit).sessions == 0 and path.exists()
    os.utime(path, (limit - 1,) * 2)
    assert removal(tmp_path).remove([path], unless_since=limit).sessions == 1


def test_what_was_written_at_the_limit_itself_stays(tmp_path: Path) -> None:
    path = session(tmp_path, 30)
    assert removal(tmp_path).are_old(30, NOW) == 0 and removal(tmp_path).are_old(29, NOW) == 1
    assert removal(tmp_path).remove([path], unless_since=NOW - 30 * DAY).sessions == 0
    path.unlink()
    assert removal(tmp_path).remove([path], unless_since=NOW).sessions == 0, "it is gone already"


def test_ages_are_counted_from_now(tmp_path: Path) -> None:
    old, young = session(tmp_path, 40, "old"), session(tmp_path, 1, "young")
    (tmp_path / "empty.db").touch()
    assert removal(tmp_path).are_old(30) == 1
    size = removal(tmp_path).size_bytes(old)
    assert size >= old.stat().st_size + len("spill") and removal(tmp_path).size_bytes(tmp_path / "none.db") == 0
    done = removal(tmp_path).remove_older(30)
    assert (done.sessions, done.freed_bytes) == (1, size) and not old.exists() and young.exists()


def test_a_session_goes_with_what_a_killed_migration_left_of_it(tmp_path: Path) -> None:
    path = session(tmp_path, 100)
    shutil.copy(path, tmp_path / "x.db.migrating")
    removal(tmp_path).remove([path])
    assert {p.name for p in tmp_path.iterdir()} == {"spills"}


def test_T90_a_clock_that_jumped_a_year_ahead_makes_nothing_old(tmp_path: Path) -> None:
    state = tmp_path / "state" / "state.toml"
    newest = NOW - DAY

    def steady(now: float) -> bool:
        return clock_is_steady(state, now, newest)

    assert steady(NOW), "claw wrote yesterday, so the clock is believed at once"
    assert all(steady(NOW + hours * 3_600) for hours in (1, 20, 100))
    jumped = NOW + 365 * DAY
    assert not any(steady(jumped + hours * 3_600) for hours in (0, 1, 23)), "for a day it may be a mistake"
    assert not steady(NOW + 5 * DAY), "back again is a jump too"
    assert steady(NOW + 6 * DAY)
    assert not steady(NOW + 60 * DAY), "after a long pause"
    assert steady(NOW + 61 * DAY)


@pytest.mark.parametrize(
    "known", ["retention = 3", "[retention]\nseen_s = 'x'\nsince_s = 1", "[retention]\nseen_s = 1.5"]
)
def test_T90_a_note_that_makes_no_sense_is_made_anew(tmp_path: Path, known: str) -> None:
    state = tmp_path / "state.toml"
    state.write_text(known)
    state.chmod(0o600)
    assert not clock_is_steady(state, NOW, NOW - 400 * DAY)
    assert read_state(state)["retention"] == {"seen_s": NOW, "since_s": NOW}


def test_T90_where_the_clock_cannot_be_noted_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(StateError):
        clock_is_steady(tmp_path / "state" / "state.toml", NOW, NOW)


def test_what_cannot_be_deleted_is_told_and_all_the_rest_of_the_session_goes(tmp_path: Path) -> None:
    path, kept = session(tmp_path, 1), tmp_path / "damaged" / "x-20260101-000000.db"
    kept.parent.mkdir()
    kept.write_text("kept")
    path.with_name("x.db-wal").mkdir()
    with contextlib.closing(SessionIndex(tmp_path, None)) as index:
        index.complete()
        with pytest.raises(OSError, match=r"x\.db-wal"):
            Removal(tmp_path, tmp_path / "spills", index).remove([path])
        assert index.projects() == {}
    assert {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*")} == {"spills", "damaged", "x.db-wal"}


def test_where_the_session_file_stays_all_of_it_does(tmp_path: Path) -> None:
    path = session(tmp_path, 1)
    path.unlink()
    path.mkdir()
    before = set(tmp_path.rglob("*"))
    with pytest.raises(OSError, match=r"x\.db"):
        removal(tmp_path).remove([path])
    assert set(tmp_path.rglob("*")) == {*before, path.with_suffix(".lock")}


def test_what_was_kept_of_a_session_with_a_longer_name_stays(tmp_path: Path) -> None:
    path, folder = session(tmp_path, 1), tmp_path / "damaged"
    folder.mkdir()
    others = {"x-copy-20260101-000000.db", "x-copy-20260101-000000.db-wal", "x-notes.txt", "xy-20260101-000000.db"}
    for name in {*others, "x-20260101-000000.db", "x-20260101-000000-2.db", "x-20260101-000000-2.db-wal"}:
        (folder / name).touch()
    removal(tmp_path).remove([path])
    assert {file.name for file in folder.iterdir()} == others

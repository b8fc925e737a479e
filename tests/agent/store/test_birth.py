"""A session's file comes to be with its first entries, or not at all."""

import sqlite3
from pathlib import Path

import pytest

from agent.store.birth import make_file, sweep
from agent.store.lock import SessionLock
from agent.store.scan import scan


def one_row(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO meta VALUES ('id', 'x')")


def test_a_file_that_could_not_be_filled_is_not_there(tmp_path: Path) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        one_row(connection)
        raise sqlite3.OperationalError("disk full")

    with pytest.raises(sqlite3.OperationalError):
        make_file(tmp_path / "a.db", fail)
    assert list(tmp_path.iterdir()) == []


def test_another_session_of_its_name_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_text("another")
    with pytest.raises(FileExistsError):
        make_file(tmp_path / "a.db", one_row)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.db", "another")]


def test_T91_what_a_killed_start_left_is_no_session_and_goes_with_the_next_one(tmp_path: Path) -> None:
    dead, alive = tmp_path / "dead.new", tmp_path / "alive.new"
    for path in (dead, dead.with_name("dead.new-wal"), dead.with_suffix(".lock"), alive):
        path.touch()
    lock = SessionLock(alive.with_suffix(".lock"))
    assert scan(tmp_path).files == ()
    make_file(tmp_path / "next.db", one_row)
    sweep(tmp_path)
    lock.release()
    assert {path.name for path in tmp_path.iterdir()} == {"alive.new", "alive.lock", "next.db"}
    assert (tmp_path / "next.db").stat().st_mode & 0o777 == 0o600
    dead.touch()
    make_file(dead.with_suffix(".db"), one_row)
    assert not dead.exists()


def test_what_is_left_of_a_session_that_came_to_be_all_the_same_goes_and_its_lock_stays_free(tmp_path: Path) -> None:
    for name in ("x.db", "x.new", "x.new-journal", "x.lock"):
        (tmp_path / name).touch()
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"x.db", "x.lock"}
    SessionLock(tmp_path / "x.lock").release()
    sweep(tmp_path / "nowhere")

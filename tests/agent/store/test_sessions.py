"""The folder of sessions: what is said of one, and which one is meant."""

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from agent.store import sessions
from agent.store.base import SessionMeta
from agent.store.index import SessionIndex
from agent.store.session_file import SessionFile
from agent.transcript import Entry, User
from providers.types import TextBlock
from tests.agent.store.test_lock import ignore
from tests.fakes.store_writer import entry, written

META = SessionMeta("x", "/p", 0)


def loaded(damaged: int = 0, layout: int = 2, unknown: int = 0, told: str = "") -> sessions.LoadedSession:
    return sessions.LoadedSession(META, (), (), {}, damaged, layout, unknown, told)


@pytest.mark.parametrize(
    ("session", "damage", "newer"),
    [
        (loaded(), "", ""),
        (loaded(1), "1 entry of the session could not be read and is left out.", ""),
        (loaded(2), "2 entries of the session could not be read and are left out.", ""),
        (loaded(2, told="It is damaged."), "It is damaged.", ""),
        (loaded(told="It was damaged."), "It was damaged.", ""),
        (loaded(layout=1), "", ""),
        (loaded(layout=3, unknown=1), "", "It was written by a newer claw (layout 3, this one knows 2)."),
        (loaded(unknown=1), "", "1 entry of it holds what only a newer claw knows."),
        (loaded(unknown=2), "", "2 entries of it hold what only a newer claw knows."),
    ],
)
def test_what_is_missing_and_what_is_newer_is_said_in_one_line(
    session: sessions.LoadedSession, damage: str, newer: str
) -> None:
    assert (session.damage, session.newer) == (damage, newer)


def test_a_session_is_found_by_its_whole_name_or_the_only_one_that_begins_so(tmp_path: Path) -> None:
    only = written(tmp_path / "ab.db", 1)
    with pytest.raises(sessions.SessionNotFoundError, match="No session begins with ''"):
        sessions.find(tmp_path, "")
    assert sessions.find(tmp_path, "a") == sessions.find(tmp_path, "ab") == only
    longer = written(tmp_path / "abc.db", 1)
    assert sessions.find(tmp_path, "ab") == only and sessions.find(tmp_path, "abc") == longer
    with pytest.raises(sessions.SessionNotFoundError, match="2 sessions begin with 'a'"):
        sessions.find(tmp_path, "a")


def test_files_that_others_may_read_become_private_and_others_stay_as_they_are(tmp_path: Path) -> None:
    path, locked = written(tmp_path / "x.db", 1), written(tmp_path / "y.db", 1)
    path.chmod(0o640)
    locked.chmod(0o400)
    tmp_path.chmod(0o755)
    for file in (path, locked):
        sessions.open_session(file, ignore)[0].close()
    assert [stat.S_IMODE(file.stat().st_mode) for file in (path, locked, tmp_path)] == [0o600, 0o400, 0o700]


def test_the_index_is_believed_where_a_file_has_not_changed_since(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    for number in range(12):
        project = "/mine" if number == 1 else "/other"
        store = SessionFile(folder / f"{number:02}.db", SessionMeta(f"{number:02}", project, 0))
        store.append([entry(1)])
        store.close()
        os.utime(store.path, (number + 1, number + 1))
    index = SessionIndex(folder, tmp_path / "index.db")
    index.complete()
    old = folder / "01.db"
    status = old.stat()
    old.write_bytes(b"x" * status.st_size)
    os.utime(old, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert sessions.newest(folder, Path("/mine"), index) == old
    assert sessions.newest(folder, Path("/mine")) is None, "without an index it is looked into"
    os.utime(old, (2.5, 2.5))
    assert sessions.newest(folder, Path("/mine"), index) is None
    index.close()


def test_of_a_project_all_can_be_read_but_the_one_that_asks(tmp_path: Path) -> None:
    for name, project in (("a", "/p"), ("b", "/p"), ("c", "/other"), ("d", "/p")):
        store = SessionFile(tmp_path / f"{name}.db", SessionMeta(name, project, 0))
        store.append([Entry(1, None, 0, User((TextBlock(name),)))])
        store.close()
        os.utime(store.path, (ord(name), ord(name)))
    (tmp_path / "d.db").write_bytes(b"")
    (tmp_path / "e.db").write_bytes(b"no session")
    found = [(id_, [e.key for e in entries]) for id_, entries in sessions.of_project(tmp_path, Path("/p"), "b")]
    assert found == [("a", [1])]


def test_counts_that_make_no_sense_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "x.db", 1)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO count VALUES (1, 't', 5), ('x', 't', 6), (2, 't', 'y')")
    assert sessions.load(path).counts == {"t": {1: 5}}

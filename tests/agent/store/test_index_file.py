"""The file of the index: private, its own, and never in anybody's way."""

import fcntl
import os
import re
import sqlite3
import stat
import threading
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.store.index_file import IndexFile, has_trigrams
from tests.agent.processes.running import linux_only

ADDED = "INSERT INTO session (id, stamp, size_bytes, project, facts) VALUES ('a', '', 0, '', x'')"


def tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def number_of(connection: sqlite3.Connection) -> int:
    (number,) = connection.execute("SELECT COUNT(*) FROM session").fetchone()
    return int(number)


def add(connection: sqlite3.Connection) -> None:
    connection.execute(ADDED)


def test_an_index_without_search_is_made_anew_where_there_is_search_and_the_other_way_round(tmp_path: Path) -> None:
    if not has_trigrams():
        pytest.skip("this SQLite has no trigrams")
    file = tmp_path / "index.db"
    for full_text in (False, None, False, True):
        index = IndexFile(file, full_text)
        assert index.run(number_of) == 0, "nothing of the other kind is taken over"
        index.run(add)
        assert ("words" in index.run(tables)) == index.full_text == (full_text is not False)
        assert IndexFile(file, full_text).run(number_of) == 1
        index.close()


@pytest.mark.parametrize("target", ["nothing", "a file", "an index"])
def test_a_link_is_not_followed(tmp_path: Path, target: str) -> None:
    file, aim = tmp_path / "index.db", tmp_path / "aim"
    if target == "a file":
        aim.write_bytes(b"")
    elif target == "an index":
        IndexFile(aim).run(add)
    before = aim.read_bytes() if aim.exists() else None
    file.symlink_to(aim)
    index = IndexFile(file)
    index.run(add)
    assert index.run(number_of) == 1, "it lives in memory"
    index.close()
    assert (aim.read_bytes() if aim.exists() else None) == before and file.is_symlink()


def test_file_and_folder_become_private(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "index.db"
    file.parent.mkdir()
    file.touch()
    file.parent.chmod(0o755)
    file.chmod(0o644)
    IndexFile(file).run(add)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_who_finds_it_held_by_another_is_told_and_the_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "index.db"
    for begun in (False, True):
        with closing(sqlite3.connect(file, isolation_level=None)) as holder:
            if begun:
                holder.execute("PRAGMA journal_mode = DELETE")
            holder.execute("BEGIN EXCLUSIVE")
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                IndexFile(file).run(add, 0.05)
            holder.execute("ROLLBACK")
        index = IndexFile(file)
        assert index.run(number_of) == begun
        if not begun:
            index.run(add)


def test_work_that_fails_is_not_the_file_s_fault(tmp_path: Path) -> None:
    index = IndexFile(tmp_path / "index.db")
    index.run(add)

    def interrupted(connection: sqlite3.Connection) -> None:
        connection.set_progress_handler(lambda: True, 1)
        connection.execute("SELECT * FROM session, session AS other").fetchall()

    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        index.run(interrupted)
    assert index.run(number_of) == 1


def test_two_files_in_a_row_that_are_none_are_replaced_and_a_third_not(tmp_path: Path) -> None:
    file, tries = tmp_path / "index.db", 0

    def spoiling(connection: sqlite3.Connection) -> bool:
        """Finds a damaged file each time but in memory."""
        nonlocal tries
        tries += 1
        if connection.execute("PRAGMA database_list").fetchone()[2]:
            connection.execute("SELECT * FROM none_of_ours")
        return True

    index = IndexFile(file)
    assert index.run(spoiling) and tries == 4
    index.run(add)
    assert index.run(number_of) == 1 and IndexFile(file).run(number_of) == 0, "from then on it lives in memory"
    index.close()


def test_nothing_of_another_program_s_is_taken_over(tmp_path: Path) -> None:
    file = tmp_path / "index.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE hello (x)")
    index = IndexFile(file)
    index.run(add)
    assert "hello" not in index.run(tables) and IndexFile(file).run(number_of) == 1


def test_what_another_process_has_made_anew_meanwhile_is_not_taken_away(tmp_path: Path) -> None:
    file, other, tries = tmp_path / "index.db", tmp_path / "other.db", 0
    IndexFile(file).run(number_of)
    IndexFile(other).run(add)

    def replaced_under_it(connection: sqlite3.Connection) -> int:
        nonlocal tries
        tries += 1
        if tries == 1:
            other.replace(file)
            connection.execute("SELECT * FROM none_of_ours")
        return number_of(connection)

    assert IndexFile(file).run(replaced_under_it) == 1 and tries == 2


def test_who_was_overtaken_while_it_lays_out_the_tables_takes_the_other_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, overtaken = tmp_path / "index.db", list[str]()
    file.touch()

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if sql.startswith("BEGIN") and not overtaken:
                overtaken.append(sql)
                IndexFile(file).run(add)
            return super().execute(sql, *values)

    def add_another(connection: sqlite3.Connection) -> None:
        connection.execute(ADDED.replace("'a'", "'b'"))

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Connection))
    IndexFile(file).run(add_another)
    assert overtaken and IndexFile(file).run(number_of) == 2


@linux_only
def test_a_file_that_is_none_is_taken_away_by_one_at_a_time(tmp_path: Path) -> None:
    file, found = tmp_path / "index.db", list[int]()
    file.write_bytes(b"no index")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        waiting = threading.Thread(target=lambda: found.append(IndexFile(file).run(number_of)))
        waiting.start()
        blocked = re.compile(rf"-> FLOCK .*:{os.fstat(folder).st_ino} ")
        while waiting.is_alive() and not blocked.search(Path("/proc/locks").read_text()):
            waiting.join(0.01)
        assert file.read_bytes() == b"no index"
        IndexFile(tmp_path / "other.db").run(add)
        (tmp_path / "other.db").replace(file)
    finally:
        os.close(folder)
    waiting.join()
    assert found == [1], "what the other has made meanwhile stays"

"""One writer a session, whatever becomes of the writer."""

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.store import sessions
from agent.store.lock import Holder, NoLockError, SessionBusyError, SessionLock, ViewingLock, held, is_locked, unviewed
from tests.agent.processes.running import linux_only
from tests.fakes.store_writer import written

REPOSITORY = Path(__file__).parents[3]


def ignore(text: str) -> None:
    raise AssertionError(text)


@contextmanager
def writer(path: Path, entries: int, *before: str) -> "Iterator[subprocess.Popen[str]]":
    process = subprocess.Popen(
        [*before, sys.executable, "-m", "tests.fakes.store_writer", str(path), str(entries)],
        cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_T94_who_holds_a_session_is_told_and_after_kill_9_it_opens_at_once(tmp_path: Path) -> None:
    path = tmp_path / "20260101-000000-abcd.db"
    with writer(path, 1) as process:
        assert line(process) == "written 1"
        with pytest.raises(SessionBusyError, match=rf"open in another claw \(process {process.pid}, since \d\d:\d\d\)"):
            sessions.open_session(path, ignore)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert path.with_suffix(".lock").read_text().startswith(f"{process.pid} ")
    store, loaded = sessions.open_session(path, ignore)
    assert [e.key for e in loaded.entries] == [1]
    store.close()


def test_T94_a_process_id_that_is_used_again_locks_nobody_out(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    path.write_text(f"{os.getppid()} 1767225600\n")
    SessionLock(path).release()


@pytest.mark.parametrize(
    "said", [b"", b"\xff\xff", b"1 2 3\n", b"0 0\n", b"-5 1\n", b"4 1e400\n", b"9" * 60, b"nobody now"]
)
def test_nonsense_in_a_lock_file_costs_the_name_of_the_holder_alone(tmp_path: Path, said: bytes) -> None:
    lock = SessionLock(tmp_path / "x.lock")
    (tmp_path / "x.lock").write_bytes(said)
    with pytest.raises(SessionBusyError, match=r"^Session x is open in another claw\.$") as caught:
        SessionLock(tmp_path / "x.lock")
    assert caught.value.holder is None
    lock.release()


def test_who_only_looks_whether_it_is_locked_never_makes_another_fail(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    SessionLock(path).release()
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            is_locked(path)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(300):
            SessionLock(path).release()
    finally:
        ended.set()
        thread.join()


def test_a_lock_whose_file_was_deleted_with_its_session_is_none(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    path = tmp_path / "x.lock"
    first = SessionLock(path)
    script = (
        "import os, sys; from pathlib import Path; from agent.store.lock import SessionLock; print(os.getpid(), flush=True);"
        "lock = SessionLock(Path(sys.argv[1])); print('locked', flush=True); sys.stdin.read()"
    )
    slow = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=flock", "-e", "inject=flock:delay_enter=1000000:when=1"]
    with subprocess.Popen(
        [*slow, sys.executable, "-c", script, str(path)],
        cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        pid = line(process)
        while not _has_open(pid, path):
            assert process.poll() is None
        path.unlink()  # it has opened the file, and not locked it yet
        first.release()
        assert line(process) == "locked"
        assert is_locked(path), "it holds the file that has the name"
        with pytest.raises(SessionBusyError):
            SessionLock(path)


def _has_open(pid: str, path: Path) -> bool:
    with contextlib.suppress(OSError):
        return any(path.samefile(file) for file in Path(f"/proc/{pid}/fd").iterdir() if file.exists())
    return False


def test_what_is_read_is_not_deleted_and_many_may_read(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    readers = [ViewingLock(path), ViewingLock(path)]
    with held(path):  # reading keeps nobody from writing
        pass
    for reader in readers:
        with pytest.raises(SessionBusyError, match="being read"), unviewed(path):
            raise AssertionError
        reader.release()
    with unviewed(path):
        pass
    assert {file.name for file in tmp_path.iterdir()} == {"x.lock"}, "the last reader leaves nothing"


@pytest.mark.parametrize("fault", ["ENOLCK", pytest.param("ENOSYS", marks=pytest.mark.slow)])
def test_T94_where_locking_fails_nothing_is_written_and_it_is_said(tmp_path: Path, fault: str) -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    new, old = tmp_path / "new.db", tmp_path / "old.db"
    written(old, 1)
    before = old.read_bytes()
    strace = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=flock", "-e", f"inject=flock:error={fault}")
    with writer(new, 2, *strace) as process:
        told = line(process)
        assert told.startswith("failed") and "cannot be locked" in told
        assert [line(process), line(process)] == ["kept 1", "kept 2"]
        out, _ = process.communicate("")
        assert out == "unwritten 2\n"
    assert not new.exists()
    with writer(old, 1, *strace) as process:
        assert process.wait() != 0, "a session that exists cannot be opened for writing"
    assert old.read_bytes() == before and not old.with_suffix(".db-wal").exists()


def test_a_lock_that_cannot_be_made_is_told_from_one_that_is_held(tmp_path: Path) -> None:
    with pytest.raises(NoLockError, match="cannot be opened"):
        SessionLock(tmp_path / "nowhere" / "x.lock")
    (tmp_path / "link.lock").symlink_to(tmp_path / "target")
    with pytest.raises(NoLockError):
        SessionLock(tmp_path / "link.lock")
    assert not (tmp_path / "target").exists()


def test_who_holds_it_is_named_while_such_a_process_runs() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert re.fullmatch(rf"process {os.getpid()}, since \d\d:\d\d", Holder(os.getpid(), time.time()).words)
    assert re.fullmatch(r"since 1970-01-0\d \d\d:\d\d", Holder(ended.pid, 86_400.0).words)
    assert Holder(1, 86_400.0).words.startswith("process 1, since"), "whoever it belongs to"
    assert Holder(2**70, 86_400.0).words.startswith("since")


def test_a_lock_file_is_private_and_says_nothing_but_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    path.write_text("x" * 200)
    path.chmod(0o644)
    lock = SessionLock(path)
    assert re.fullmatch(rf"{os.getpid()} \d+\n", path.read_text()) and stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(SessionBusyError) as caught:
        SessionLock(path)
    assert caught.value.holder is not None and caught.value.holder.pid == os.getpid()
    lock.release()
    lock.release()
    assert path.read_text() == ""


@linux_only
def test_no_lock_leaves_a_file_open(tmp_path: Path) -> None:
    path = tmp_path / "x.db"

    def descriptors() -> list[str]:
        return [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink() and link.exists()]

    lock, reader = SessionLock(path.with_suffix(".lock")), ViewingLock(path)
    before = sorted(descriptors())
    with pytest.raises(SessionBusyError):
        SessionLock(path.with_suffix(".lock"))
    with pytest.raises(SessionBusyError, match="Session x is being read"), unviewed(path):
        raise AssertionError
    assert is_locked(path.with_suffix(".lock")) and not is_locked(path.with_suffix(".none"))
    assert sorted(descriptors()) == before
    lock.release()
    reader.release()
    reader.release()
    assert not [name for name in descriptors() if name.startswith(str(tmp_path))]


def test_reading_where_nothing_can_be_made_says_nothing(tmp_path: Path) -> None:
    reader = ViewingLock(tmp_path / "nowhere" / "x.db")
    reader.release()
    (tmp_path / "x.viewing").mkdir()
    with pytest.raises(NoLockError), unviewed(tmp_path / "x.db"):
        raise AssertionError

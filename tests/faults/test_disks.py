"""Disks that are full, broken, read-only or missing: the work goes on, it is said, and what was kept is written later."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent.store import sessions
from agent.transcript import Assistant, Transcript
from tests.fakes.claw_process import environment, run
from tests.fakes.small_disk import SmallDisk, why_not, with_disk
from tests.faults.test_kill import desk_in
from tests.tui.program import Program

REPOSITORY = Path(__file__).parents[2]

KIT = """
import asyncio, contextlib, os, subprocess, sys, threading
from pathlib import Path
from agent.store import sessions
from agent.store.base import Blob, QueuedMessage, SessionMeta
from agent.store.session_file import SessionFile
from tests.fakes.store_writer import entry

disk = Path(sys.argv[1])
told, recovered = [], threading.Event()
def failed(text):
    recovered.clear()
    told.append(text)
store = SessionFile(disk / "x.db", SessionMeta("x", "/p", 0), None, failed, on_recovery=recovered.set, retry_s=0.02)

async def add(first, last, chars=10):
    for key in range(first, last + 1):
        store.append([entry(key, "w" * chars)], [Blob.of(b"b%d" % key * chars)])
        store.enqueue(QueuedMessage(key, "q"))
        store.append([], delivered=[key])
        await store.durable(key)

def fill():
    with open(disk / "filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (4096, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size) == size:
                    pass

def check(last):
    assert store.unwritten == 0 and recovered.wait(20)
    loaded = sessions.load(store.path)
    assert [e.key for e in loaded.entries] == list(range(1, last + 1)), [e.key for e in loaded.entries]
    assert not loaded.damage and not loaded.queue
    return loaded
"""


def run_with_disk(folder: Path, size: str, script: str, *before: str) -> None:
    """Run a script, after the kit above, on a small disk."""
    if reason := why_not():
        pytest.skip(reason)
    argv = [*before, sys.executable, "-c", KIT + script, str(folder)]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(with_disk(folder, size, argv), capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr


def test_T97_what_a_full_disk_does_not_take_is_kept_and_written_when_there_is_room(tmp_path: Path) -> None:
    script = """
async def main():
    await add(1, 2)
    assert not told
    fill()
    await add(3, 12, 9_000)
    assert len(told) == 1 and "full" in told[0] and "goes on in memory" in told[0], told
    assert 9 <= store.unwritten <= 10 and [e.key for e in sessions.load(store.path).entries][:2] == [1, 2]
    assert store.blob(Blob.of(b"b12" * 9_000).sha256), "what is only in memory can be read"
    (disk / "filler").unlink()
    assert await asyncio.to_thread(recovered.wait, 20), "without another entry"
    check(12)
    fill()
    await add(13, 14, 60_000)
    assert len(told) == 2 and store.unwritten == 2
    (disk / "filler").unlink()
    await add(15, 15)
    check(15)
    assert store.blob(Blob.of(b"b12" * 9_000).sha256) and store.blob(Blob.of(b"b1" * 10).sha256)
    fill()
    await add(16, 17, 60_000)
    store.close()
    assert store.unwritten == 2
asyncio.run(main())
"""
    run_with_disk(tmp_path / "disk", "2m", script)


def test_T97_a_session_that_begins_on_a_full_disk_is_written_whole_later(tmp_path: Path) -> None:
    script = """
async def main():
    fill()
    await add(1, 5)
    assert len(told) == 1 and store.unwritten == 5
    assert not [name for name in os.listdir(disk) if ".db" in name], "no half file"
    (disk / "filler").unlink()
    assert await asyncio.to_thread(recovered.wait, 20)
    check(5)
    store.close()
asyncio.run(main())
"""
    run_with_disk(tmp_path / "disk", "600k", script)


def test_T97_a_disk_that_becomes_read_only_and_writable_again(tmp_path: Path) -> None:
    script = """
def mount(how):
    subprocess.run(["mount", "-o", f"remount,bind,{how}", str(disk)], check=True)
async def main():
    mount("ro")
    await add(1, 2)
    assert len(told) == 1 and "Read-only" in told[0], told
    mount("rw")
    assert await asyncio.to_thread(recovered.wait, 20)
    await add(3, 3)
    check(3)
    store.close()
    again, _ = sessions.open_session(store.path, failed)
    again.close()
    mount("ro")
    try:
        sessions.open_session(store.path, failed)
        raise AssertionError("it cannot be locked")
    except sessions.SessionBusyError as error:
        assert "Read-only" in str(error), error
    view, loaded = sessions.view(store.path, "so")
    assert len(loaded.entries) == 3
    view.close()
asyncio.run(main())
"""
    run_with_disk(tmp_path / "disk", "2m", script.replace("sessions.SessionBusyError", "Exception"))


@pytest.mark.parametrize(
    ("fault", "calls", "firsts"),
    [
        ("EIO", "fdatasync,fsync", (3,)),
        pytest.param("EIO", "fdatasync,fsync", (1, 2, 7), marks=pytest.mark.slow),
        pytest.param("ENOSPC", "pwrite64", (1, 3, 7), marks=pytest.mark.slow),
    ],
)
def test_T97_a_write_that_fails_in_the_middle_loses_and_doubles_nothing(
    tmp_path: Path, fault: str, calls: str, firsts: tuple[int, ...]
) -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    script = """
async def main():
    for key in range(1, 13):
        await add(key, key, 3_000)
    if not told:
        recovered.set()
    assert await asyncio.to_thread(recovered.wait, 20)
    check(12)
    store.close()
    assert not store.unwritten
    check(12)
asyncio.run(main())
print(len(told))
"""
    folder = tmp_path / "disk"
    folder.mkdir()
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    strace = [
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        f"trace={calls}",
        "-P",
        f"{folder}/x.db-wal",
        "-P",
        f"{folder}/x.db",
    ]
    failures = 0
    for first in firsts:
        for file in folder.iterdir():
            file.unlink()
        inject = ["-e", f"inject={calls}:error={fault}:when={first}..{first + 6}"]
        argv = [*strace, *inject, sys.executable, "-c", KIT + script, str(folder)]
        done = subprocess.run(argv, capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        failures += int(done.stdout)
    assert failures, "nothing was injected"


@pytest.mark.slow
def test_T97_an_older_session_that_finds_no_room_for_its_new_layout_stays_whole(tmp_path: Path) -> None:
    script = """
from tests.agent.store.test_migration import layout, old_session
path = old_session(disk / "old.db", 400)
older, _ = sessions.open_session(path, failed, on_recovery=recovered.set)
fill()
older.append([entry(401)])
asyncio.run(older.durable(401))
assert len(told) == 1 and ("full" in told[0] or "No space" in told[0]) and older.unwritten == 1 and layout(path) == 1
assert len(sessions.load(path).entries) == 400 and not [n for n in os.listdir(disk) if "migrating" in n]
(disk / "filler").unlink()
assert recovered.wait(20)
older.close()
assert layout(path) == 2 and len(sessions.load(path).entries) == 401
"""
    run_with_disk(tmp_path / "disk", "8m", script)


def test_T97_spills_and_small_state_are_whole_files_or_as_they_were(tmp_path: Path) -> None:
    script = """
from agent.results import SpillFolder
from agent.permissions.grants import Grants, StateError
spills, state = SpillFolder(disk / "spills"), disk / "state" / "state.toml"
Grants(state).add(disk, "read")
before = state.read_bytes()
spills.write(1, b"a" * 10_000)
fill()
spills.write(2, b"b" * 10_000)
spills.write(1, b"c" * 20_000)
try:
    Grants(state).add(disk, "x" * 5_000)
    raise AssertionError
except StateError as error:
    assert "No space left" in str(error)
assert state.read_bytes() == before and sorted(os.listdir(state.parent)) == ["state.toml", "state.toml.lock"]
assert [name for name in os.listdir(spills.folder)] == ["entry-1.txt"]
assert spills.path(1).read_bytes() == b"a" * 10_000
(disk / "filler").unlink()
spills.write(2, b"b" * 10_000)
assert spills.path(2).read_bytes() == b"b" * 10_000
"""
    run_with_disk(tmp_path / "disk", "200k", script)


# --------------------------------------------------------------------------- the program


async def test_T97_print_mode_answers_without_a_home_and_says_so_in_one_line_each(tmp_path: Path) -> None:
    with desk_in(tmp_path) as desk:
        desk.wire.otherwise(lambda body: "The answer.")
        desk.env = {**desk.wire.env, "HOME": "/proc/nowhere"}  # where nobody, not even root, can make a folder
        done = await run(desk, "-p", "a question", "-m", desk.model)
    assert done.code == 0 and done.out == "The answer.\n", done.err
    said = done.err.splitlines()
    assert len(said) == 2 and "goes on in memory" in said[0], done.err
    assert "entries were not written" in said[1]


@pytest.mark.slow
async def test_T97_print_mode_on_a_read_only_home(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    with desk_in(tmp_path) as desk:
        desk.wire.otherwise(lambda body: "The answer.")
        await run(desk, "-p", "a first question", "-m", desk.model)
        argv = [sys.executable, "-m", "claw", "-p", "a question", "-m", desk.model]
        home = str(desk.home)
        read_only = [
            "unshare",
            "-Urm",
            "/bin/sh",
            "-c",
            'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"',
        ]
        for more, code in (([], 0), (["-c"], 2), (["-c", "--fork"], 0)):
            done = await asyncio.create_subprocess_exec(
                *read_only, home, *argv, *more, cwd=desk.project, env=environment(desk),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            out, err = await done.communicate()
            assert done.returncode == code, err.decode()
            if code == 0:
                assert out == b"The answer.\n" and b"goes on in memory" in err, err.decode()
            else:
                assert b"cannot be opened (Read-only file system)" in err and b"--fork" in err
        assert len(list(desk.folder.glob("*.db"))) == 1


@pytest.mark.slow
def test_T97_on_the_screen_a_banner_stands_until_there_is_room_again(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    with desk_in(tmp_path) as desk:
        for number in (1, 2, 3):
            desk.wire.reply(f"Answer {number}.")
        data = desk.home / "data"
        before = ["unshare", "-Urm", "/bin/sh", "-c", 'mount -t tmpfs -o size=2m none "$0" && exec "$@"', str(data)]
        data.mkdir()
        with Program(desk, "-m", desk.model, before=before) as claw:
            claw.ready().say("first")
            claw.wait_for("Answer 1.")
            disk = SmallDisk(claw.pid, data)
            disk.fill()
            claw.say("second")
            claw.wait_for("goes on in memory")
            claw.wait_for("Answer 2.")
            claw.idle()
            claw.say("third")
            claw.wait_for("Answer 3.")
            assert "goes on in memory" in claw.idle()
            claw.say("/quit")
            claw.wait_for("would be lost")
            disk.free()
            claw.wait_for("is written again")
            claw.wait_for(lambda text: "goes on in memory" not in text)
            seen = shutil.copytree(disk.root / "sessions", tmp_path / "seen")
            (path,) = seen.glob("*.db")
            said = [e for e in Transcript(sessions.load(path).entries).branch if isinstance(e.payload, Assistant)]
            assert len(said) == 3
            claw.quit()


def test_T97_who_leaves_with_unwritten_entries_all_the_same_is_told_on_the_terminal(tmp_path: Path) -> None:
    with desk_in(tmp_path) as desk:
        desk.wire.otherwise(lambda body: "An answer.")
        (desk.home / "data").write_text("a file where the folder should be")
        with Program(desk, "-m", desk.model) as claw:
            claw.ready().say("first")
            claw.wait_for("goes on in memory")
            claw.wait_for("An answer.")
            claw.idle()
            claw.say("/export out.md")
            claw.wait_for("Exported to")
            assert "An answer." in (desk.project / "out.md").read_text()
            claw.say("/quit")
            claw.wait_for("would be lost")
            claw.quit()
            assert b"entries were not written" in claw.raw.rpartition(b"\x1b[?1049l")[2]

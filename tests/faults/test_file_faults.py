"""File tools under faults: system calls that fail or never return, kernels that lack what they rest on, races, huge trees."""

import asyncio
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.leftover import backup_name
from agent.tools.edit import Edit
from agent.tools.glob import Glob
from agent.tools.grep import Grep
from agent.tools.read import Read
from agent.tools.write import Write
from tests.agent.tools.file_calls import Calls
from tests.fakes import denied_calls, swapper
from tests.fakes.claw_process import run
from tests.fakes.model_server import ModelServer
from tests.fakes.session_kit import Desk
from tests.fakes.wires import ResponsesSide
from tests.faults import faulty_writes
from tests.faults.faulty_writes import DYING, FAILURES, NEW, OLD, WRITING, Outcome, Writer, fault_of, warm_writer
from tests.faults.g17_edits import ENCODINGS, edit_once, race

REPOSITORY = Path(__file__).parents[2]
needs_strace = pytest.mark.skipif(bool(faulty_writes.missing()), reason=f"needs {faulty_writes.missing()}")
needs_seccomp = pytest.mark.skipif(bool(denied_calls.missing()), reason=f"needs {denied_calls.missing()}")
needs_swapper = pytest.mark.skipif(bool(swapper.missing()), reason=f"needs {swapper.missing()}")

# --------------------------------------------------------------------------- failing and dying writes


def faults(writer: Writer, injections: list[str]) -> tuple[list[str], list[Outcome]]:
    """What is wrong after any of these, and all that came out."""
    wrong, outcomes = [], []
    for injection in injections:
        for outcome in writer.write(injection):
            outcomes.append(outcome)
            if fault := fault_of(outcome):
                wrong.append(f"{injection}: {fault}")
    return wrong, outcomes


@needs_strace
def test_T52_a_call_that_fails_leaves_the_original_and_nothing_else() -> None:
    injections = [f"{call}:error=ENOSPC:when=1" for call in WRITING]
    injections += ["pwrite64:error=EIO:when=2", "fsync:error=EIO:when=2", "openat:error=EACCES:when=3"]
    injections += ["renameat:error=EROFS:when=1", "linkat:error=EACCES:when=1", "ftruncate:error=EDQUOT:when=1"]
    # For ever: what was overwritten in place cannot even be put back.
    injections += ["ftruncate:error=EIO:when=2+", "fsync:error=EIO:when=1+"]
    with warm_writer() as writer:
        wrong, outcomes = faults(writer, injections)
        assert not wrong, wrong
        said = {outcome.said for outcome in outcomes}
        for words in ("No space is left", "I/O error", "No permission", "read-only file system", "disk quota"):
            assert any(words in text for text in said), (words, said)
        assert any("old content is beside it in .file.txt.claw-backup" in text for text in said), said
        assert [outcome.said for outcome in writer.write("")] == ["done"] * 4


@needs_strace
def test_R31_killed_in_any_step_a_file_is_old_or_new_or_its_backup_is_there() -> None:
    steps = ("pwrite64", "ftruncate", "fsync", "linkat", "unlinkat", "renameat")
    with warm_writer() as writer:
        wrong, outcomes = faults(writer, [f"{call}:signal=KILL:when={when}" for call in steps for when in (1, 2)])
    assert not wrong, wrong
    assert sum(1 for outcome in outcomes if not outcome.said) > 12
    torn = [outcome for outcome in outcomes if outcome.content not in (OLD, NEW, None)]
    assert torn and all(outcome.backup == OLD for outcome in torn)


@pytest.mark.slow
@needs_strace
def test_T52_R31_every_step_fails_or_dies_in_every_way() -> None:
    whens = (*range(1, 7), "1+", "2+")
    injections = [f"{call}:error={code}:when={when}" for call in WRITING for code in FAILURES for when in whens]
    injections += [f"{call}:signal=KILL:when={when}" for call in DYING for when in range(1, 10)]
    with warm_writer() as writer:
        wrong, outcomes = faults(writer, injections)
    assert not wrong, wrong
    assert len(outcomes) > 1_000


async def test_R31_a_write_that_was_cut_off_is_told_when_its_file_is_used_again(tmp_path: Path) -> None:
    calls = Calls(tmp_path)
    (tmp_path / "f").write_text("half of the new cont")
    backup = tmp_path / backup_name("f")
    backup.write_text("the whole old content\n")
    output = await calls.run(Read(), path="f")
    assert "An earlier write of f was cut off" in output.text and ".f.claw-backup" in output.text
    change = [{"old": "half", "new": "all"}]
    for tool, params in ((Edit(), {"edits": change}), (Write(), {"content": "x"})):
        message = await calls.refused(tool, path="f", **params)
        assert "was cut off" in message and ".f.claw-backup" in message and "Nothing was changed" in message
    assert (tmp_path / "f").read_text() == "half of the new cont"
    # Cut off before anything was written, or put back by the user: no reason to stop.
    backup.write_text("half of the new cont")
    assert "cut off" not in (await calls.run(Read(), path="f")).text
    (tmp_path / "link").hardlink_to(tmp_path / "f")
    await calls.run(Edit(), path="f", edits=change)
    assert (tmp_path / "link").read_text() == "all of the new cont"
    assert not backup.exists()


def test_R31_a_backup_has_a_name_that_every_file_system_takes() -> None:
    names = ["a", "n" * 255, "ü" * 127, "caf\udce9", "x" * 240 + "1", "x" * 240 + "2"]
    backups = [backup_name(name) for name in names]
    assert len(set(backups)) == len(names)
    assert all(len(os.fsencode(name)) <= 255 for name in backups)


FULL = """
import asyncio, sys
from pathlib import Path
from agent.tools.edit import Edit
from agent.tools.write import Write
from tests.agent.tools.file_calls import Calls
root = Path(sys.argv[1])
calls = Calls(root)
(root / "f").write_text("old\\n" * 1000)
(root / "hard").hardlink_to(root / "f")
(root / "g").write_text("old\\n")
(root / "filler").write_text("x" * 30_000)

async def main():
    before = {path.name: path.read_bytes() for path in root.iterdir()}
    change = [{"old": "old\\nold", "new": "n" * 100, "replace_all": True}]
    print(await calls.refused(Write(), path="new/file", content="x" * 60_000))
    print(await calls.refused(Edit(), path="g", edits=[{"old": "old", "new": "n" * 60_000}]))
    print(await calls.refused(Edit(), path="hard", edits=[{"old": "old\\n", "new": "n" * 50, "replace_all": True}]))
    print({path.name: path.read_bytes() for path in root.iterdir()} == before)
    (root / "filler").unlink()
    await calls.run(Edit(), path="hard", edits=[{"old": "old\\n", "new": "new\\n", "replace_all": True}])
    print((root / "f").read_text() == "new\\n" * 1000)

asyncio.run(main())
"""


def in_namespace(script: str, folder: Path, size: str) -> list[str]:
    mount = f'mount -t tmpfs -o size={size} none "$1" && exec "$2" -c "$3" "$1"'
    argv = ["unshare", "-Urm", "sh", "-c", mount, "sh", str(folder), sys.executable, script]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=50, check=False)
    if done.returncode != 0 and any(word in done.stderr for word in ("unshare", "mount:", "permission denied")):
        pytest.skip(f"no file system of one's own here: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_T52_on_a_disk_that_is_really_full_nothing_is_lost(tmp_path: Path) -> None:
    *refusals, untouched, works_again = in_namespace(FULL, tmp_path, "64k")
    assert len(refusals) == 3 and all("No space is left" in text for text in refusals), refusals
    assert (untouched, works_again) == ("True", "True")


# --------------------------------------------------------------------------- races, and kernels that lack things


def test_G17_a_sample_of_random_edits_keeps_all_that_they_do_not_name() -> None:
    wrong = [fault for seed in range(2 * len(ENCODINGS)) if (fault := edit_once(seed))]
    assert not wrong, wrong


@needs_swapper
async def test_G17_a_sample_of_races_leads_nowhere() -> None:
    made = refused = 0
    for _ in range(50):  # whoever swaps may be the quicker one for a while
        outcomes = await race(30)
        assert not outcomes.escapes, outcomes.escapes
        made += outcomes.made.total()
        refused += outcomes.refused.total()
        if made > 10 and refused > 10:
            break
    assert made > 10 and refused > 10


@needs_swapper
@pytest.mark.parametrize("without_rg", [False, True])
async def test_R27_of_many_folders_swapped_during_a_search_none_is_left_by_it(tmp_path: Path, without_rg: bool) -> None:
    root, outside = tmp_path / "proj", tmp_path / "outside"
    for name in (f"proj/d{number}" for number in range(60)):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "f").write_text("one inside\n")
        (tmp_path / name.replace("/d", "/l")).symlink_to(outside)
    outside.mkdir()
    (outside / "f").write_text("one SECRET\n")
    (outside / "secret_name").touch()
    (root / "steady").mkdir()  # of the others all may be links for a moment
    (root / "steady" / "f").write_text("one inside\n")
    calls = Calls(root)
    with swapper.swapping(root, *((f"d{number}", f"l{number}") for number in range(60))):
        for _ in range(3):
            found = (await calls.run(Grep(without_rg=without_rg), pattern="^one")).text
            names = (await calls.run(Glob(without_rg=without_rg), pattern="**")).text
            assert "inside" in found and "SECRET" not in found and "secret_name" not in names


WITHOUT = """
import asyncio
from tests.fakes.denied_calls import Denied, deny
deny(Denied("openat2"), Denied("landlock_create_ruleset"), unnamed_files=True)
from agent.landlock import has_landlock
from agent.permissions.opening import has_openat2
from tests.faults.g17_edits import edit_once, race
assert not has_openat2() and not has_landlock()
wrong = [fault for seed in range(100, 116) if (fault := edit_once(seed))]
assert not wrong, wrong
made = refused = 0
for _ in range(50):  # whoever swaps may be the quicker one for a while
    outcomes = asyncio.run(race(20))
    assert not outcomes.escapes, outcomes
    made += outcomes.made.total()
    refused += outcomes.refused.total()
    if made > 5 and refused > 5:
        break
assert made > 5 and refused > 5, (made, refused)
print("held")
"""


@needs_seccomp
@needs_swapper
def test_R28_R31_a_kernel_without_openat2_landlock_and_unnamed_files_is_as_safe() -> None:
    argv = [sys.executable, "-c", WITHOUT]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout) == (0, "held\n"), done.stderr


# --------------------------------------------------------------------------- memory


def kinds_of_large_files(folder: Path) -> None:
    """Files that cost much more memory than their size where they are taken apart as a whole."""
    (folder / "short lines").write_bytes(b"ab\n" * 2_500_000)
    (folder / "returns").write_bytes(b"ab\r" * 2_500_000)
    (folder / "one emoji").write_bytes(b"a" * 7_000_000 + "😀\n".encode())
    (folder / "latin").write_bytes(b"\xe9\n" * 3_500_000)
    (folder / "utf-16").write_bytes(b"\xff\xfe" + "ab\n".encode("utf-16-le") * 5_000_000)
    (folder / "list.ipynb").write_bytes(b'{"cells":[' + b"[]," * 3_000_000 + b"[]]}")


GROWTH = """
import asyncio, resource, sys
from pathlib import Path
from agent.tools.read import Read
from tests.agent.tools.file_calls import Calls

async def main():
    root = Path(sys.argv[1])
    calls = Calls(root)
    (root / "small").write_text("ü\\n")
    await calls.run(Read(), path="small")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for path in sorted(root.iterdir()):
        text = (await calls.run(Read(), path=path.name, offset=1, limit=3)).text
        print(path.name, len(text) < 20_000, text.count("\\n") >= 1)
    print("grown", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)

asyncio.run(main())
"""


def test_T48_no_kind_of_file_takes_much_memory_to_be_read_in_part(tmp_path: Path) -> None:
    kinds_of_large_files(tmp_path)
    argv = [sys.executable, "-c", GROWTH, str(tmp_path)]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=50, check=True)
    *read, grown = done.stdout.splitlines()
    assert len(read) == 7 and all(line.endswith("True True") for line in read if not line.startswith("small")), read
    assert int(grown.split()[1]) * (1 if sys.platform == "darwin" else 1024) < 32 << 20, done.stdout


# --------------------------------------------------------------------------- trees


@pytest.fixture(scope="module")
def huge_tree() -> Iterator[Path]:
    """200,000 names of files, and a loop."""
    # In memory where that can be: on a disk it takes minutes to make, and to remove.
    quick = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=quick) as made:
        root = Path(made)
        for number in range(400):
            folder = root / f"d{number}"
            folder.mkdir()
            first = folder / "f0.txt"
            first.write_text("a" * 40 + "!\nneedle\n")
            for file in range(1, 500):
                os.link(first, folder / f"f{file}.txt")
        (root / "loop").symlink_to(root)
        (root / "d7").chmod(0)
        yield root
        (root / "d7").chmod(0o755)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("without_rg", [False, True])
async def test_T58_two_hundred_thousand_files_take_bounded_time_and_room(huge_tree: Path, without_rg: bool) -> None:
    calls, start = Calls(huge_tree), time.monotonic()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    listed = (await calls.run(Glob(without_rg=without_rg), pattern="**")).text.split("\n")
    assert len(listed) == 201 and listed[-1].startswith("[the newest 200 of ")
    found = (await calls.run(Grep(without_rg=without_rg), pattern="needle", output="files", limit=50)).text
    assert found.count(".txt") == 50
    evil = (await calls.run(Grep(without_rg=without_rg), pattern="^(a+)+$")).text
    assert "No match" in evil or "stopped after" in evil
    # Each of them is stopped after ten seconds.
    assert time.monotonic() - start < 90
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024 < 96 << 20


@pytest.mark.slow
@pytest.mark.parametrize("without_rg", [False, True])
async def test_T58_folders_deeper_than_a_recursion_or_a_path_goes_end(tmp_path: Path, without_rg: bool) -> None:
    depth = 2_100
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(os.open("bottom", os.O_CREAT, dir_fd=folder))
    os.close(folder)
    (tmp_path / "top").touch()
    try:
        text = (await Calls(tmp_path).run(Glob(without_rg=without_rg), pattern="**")).text
        assert "top" in text.split("\n")
    finally:
        await asyncio.to_thread(subprocess.run, ["rm", "-rf", str(tmp_path / "d")], check=True)


# --------------------------------------------------------------------------- programs and temporary files

PROGRAMS = ("git", "rg", "bash", "sh", "env", "python3", "python", "grep", "find", "cat", "less", "setsid", "stty")


async def session_with(tmp_path: Path, tools: list[tuple[str, dict[str, Any]]], env: dict[str, str]) -> Any:
    with ModelServer() as server:
        (tmp_path / "project").mkdir(parents=True, exist_ok=True)
        desk = Desk(ResponsesSide(server), tmp_path / "project", tmp_path / "home")
        desk.wire.reply("I look.", tools=tools)
        desk.wire.reply("Done.")
        return await run(desk, "-p", "go", "-m", desk.model, "--mode", "auto", env=env)


async def test_T109_no_program_of_the_project_is_ever_run(tmp_path: Path) -> None:
    project, marks = tmp_path / "project", tmp_path / "marks"
    for folder in (project, project / "node_modules" / ".bin", project / ".git"):
        folder.mkdir(parents=True, exist_ok=True)
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    for folder in (project, project / "node_modules" / ".bin"):
        for name in PROGRAMS:
            (folder / name).write_text(f'#!/bin/sh\necho "$0 $*" >> {marks}\n')
            (folder / name).chmod(0o755)
    (project / "a.txt").write_text("needle\n")
    tools: list[tuple[str, dict[str, Any]]] = [
        ("grep", {"pattern": "needle"}),
        ("glob", {"pattern": "*"}),
        ("bash", {"command": "test -e a.txt && echo built-in"}),
        ("bash", {"command": "git --version; cat a.txt"}),
        ("edit", {"path": "a.txt", "edits": [{"old": "needle", "new": "thread"}]}),
    ]
    # A relative entry means another folder after each `cd`; nobody allowed what lies there.
    done = await session_with(tmp_path, tools, {"PATH": f".::node_modules/.bin:{os.environ['PATH']}"})
    assert done.code == 0, done.err
    assert (project / "a.txt").read_text() == "thread\n"
    assert not marks.exists(), marks.read_text()


@pytest.mark.slow
@needs_strace
async def test_T57_files_in_a_shared_folder_for_temporary_ones_have_random_names_and_are_private(
    tmp_path: Path,
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    names: list[set[str]] = []
    for number in range(2):
        trace = tmp_path / f"trace{number}"
        wrapper = tmp_path / f"run{number}"
        (wrapper / "project").mkdir(parents=True)
        argv = ["strace", "-f", "-o", str(trace), "-e", "trace=openat,mkdir,mkdirat,open", sys.executable, "-m", "claw"]
        with ModelServer() as server:
            desk = Desk(ResponsesSide(server), wrapper / "project", wrapper / "home")
            desk.wire.reply("I look.", tools=[("bash", {"command": "yes | head -c 300000"})])
            desk.wire.reply("Done.")
            env = {"PATH": os.environ["PATH"], **desk.env, "TMPDIR": str(shared)}
            more = ["-p", "go", "-m", desk.model, "--mode", "auto"]
            process = await asyncio.create_subprocess_exec(*argv, *more, cwd=desk.project, env=env)
            assert await asyncio.wait_for(process.wait(), 50) == 0
        made = [line for line in trace.read_text().splitlines() if str(shared) in line and "= -1" not in line]
        made = [line for line in made if "O_CREAT" in line or "mkdir" in line]
        top = {line.split(f"{shared}/")[1].split('"')[0].split("/")[0] for line in made}
        names.append(top)
        for line in made:
            if line.split(f"{shared}/")[1].split('"')[0].count("/") == 0:
                assert "0700" in line or ("O_EXCL" in line and "0600" in line), line
        assert not list(shared.iterdir())
    assert names[0] and not names[0] & names[1], names

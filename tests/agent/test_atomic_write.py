import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.atomic_write import check_writable, write_file
from agent.leftover import backup_name
from agent.sibling_file import SiblingFile
from agent.tools.base import ToolError

OLD, NEW = b"old content\n", b"new content, longer\n"
REPOSITORY = Path(__file__).parents[2]
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write(path: Path, data: bytes, expected: bytes | None) -> None:
    write_file(path.resolve(), path.name, data, None if expected is None else sha(expected))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "target.txt"
    path.write_bytes(OLD)
    return path


def open_to_all(path: Path) -> None:
    """Let other users reach it: the test's folders are private."""
    for folder in path.parents:
        mode = stat.S_IMODE(folder.stat().st_mode)
        if not mode & 0o001 and folder.is_relative_to(tempfile.gettempdir()):
            folder.chmod(mode | 0o011)


def only(folder: Path, *names: str) -> None:
    assert sorted(entry.name for entry in folder.iterdir()) == sorted(names)


def test_R31_a_file_is_replaced_and_nothing_is_left_beside_it(target: Path) -> None:
    before = target.stat().st_ino
    write(target, NEW, OLD)
    assert target.read_bytes() == NEW
    assert target.stat().st_ino != before
    only(target.parent, target.name)


def test_a_new_file_gets_the_mode_that_the_umask_leaves_and_its_folders(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b" / "new.txt", NEW, None)
    (tmp_path / "plain").touch()
    made = tmp_path / "a" / "b" / "new.txt"
    assert made.read_bytes() == NEW
    assert made.stat().st_mode == (tmp_path / "plain").stat().st_mode
    only(made.parent, "new.txt")


@pytest.mark.parametrize("mode", [0o755, 0o640, 0o600, 0o666, 0o6755])
def test_T50_the_mode_is_kept(target: Path, mode: int) -> None:
    target.chmod(mode)
    write(target, NEW, OLD)
    assert stat.S_IMODE(target.stat().st_mode) == mode


def test_T50_hard_links_stay_links(target: Path) -> None:
    other = target.parent / "other"
    other.hardlink_to(target)
    target.chmod(0o750)
    write(target, NEW, OLD)
    assert other.read_bytes() == target.read_bytes() == NEW
    assert other.samefile(target)
    assert stat.S_IMODE(other.stat().st_mode) == 0o750
    write(target, b"short", NEW)
    assert other.read_bytes() == b"short"
    only(target.parent, "other", target.name)


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="no extended attributes in this Python")
def test_T50_extended_attributes_are_kept(target: Path) -> None:
    try:
        os.setxattr(target, "user.claw", b"kept")
    except OSError:
        pytest.skip("no extended attributes on this file system")
    write(target, NEW, OLD)
    assert os.getxattr(target, "user.claw") == b"kept"


@as_root
def test_T50_the_owner_is_kept(target: Path) -> None:
    os.chown(target, NOBODY, NOBODY)
    write(target, NEW, OLD)
    assert (target.stat().st_uid, target.stat().st_gid) == (NOBODY, NOBODY)


@as_root
def test_T50_an_owner_that_cannot_be_given_is_kept_by_writing_in_place(target: Path) -> None:
    target.chmod(0o666)
    target.parent.chmod(0o777)
    open_to_all(target)
    before = target.stat()
    child(target, user=NOBODY)
    after = target.stat()
    assert target.read_bytes() == NEW
    assert (after.st_ino, after.st_uid, after.st_gid) == (before.st_ino, before.st_uid, before.st_gid)
    only(target.parent, target.name)


def test_T50_a_setgid_folder_gives_its_group_to_new_files(tmp_path: Path) -> None:
    group = NOBODY if os.geteuid() == 0 else os.getegid()
    folder = tmp_path / "shared"
    folder.mkdir()
    os.chown(folder, -1, group)
    folder.chmod(0o2775)
    write(folder / "new", NEW, None)
    assert (folder / "new").stat().st_gid == group


def test_T51_a_change_by_others_is_never_overwritten(target: Path, tmp_path: Path) -> None:
    target.write_bytes(b"theirs")
    with pytest.raises(ToolError, match="changed by someone else"):
        write(target, NEW, OLD)
    assert target.read_bytes() == b"theirs"
    target.unlink()
    with pytest.raises(ToolError, match="changed by someone else"):
        write(target, NEW, OLD)
    target.mkdir()
    with pytest.raises(ToolError, match="changed by someone else"):
        write(target, NEW, OLD)
    only(tmp_path, target.name)


def test_T51_a_file_that_appears_meanwhile_is_never_overwritten(target: Path) -> None:
    with pytest.raises(ToolError, match="changed by someone else"):
        write(target, NEW, None)
    assert target.read_bytes() == OLD
    only(target.parent, target.name)


@pytest.mark.parametrize("linked", [False, True])
def test_T51_a_change_in_the_last_moment_is_seen(target: Path, linked: bool) -> None:
    if linked:
        (target.parent / "other").hardlink_to(target)

    def change_it() -> bool:
        target.write_bytes(b"theirs")
        return False

    with pytest.raises(ToolError, match="changed by someone else"):
        write_file(target.resolve(), "t", NEW, sha(OLD), change_it)
    assert target.read_bytes() == b"theirs"
    only(target.parent, target.name, *(["other"] if linked else []))


@pytest.mark.parametrize("case", ["replace", "overwrite", "create"])
def test_a_cancelled_write_changes_nothing(target: Path, case: str) -> None:
    if case == "overwrite":
        (target.parent / "other").hardlink_to(target)
    real = target.resolve() if case != "create" else target.resolve().parent / "x" / "new"
    with pytest.raises(ToolError, match="cancelled; nothing was changed"):
        write_file(real, "t", NEW, None if case == "create" else sha(OLD), lambda: True)
    assert target.read_bytes() == OLD
    only(target.parent, target.name, *(["other"] if case == "overwrite" else []))


def test_G17_of_many_writers_each_success_follows_the_one_before(target: Path) -> None:
    # A counter in a file: a writer that overwrote another's value would lose a step.
    target.write_bytes(b"0")
    wins = [0] * 4

    def count(who: int) -> None:
        for _ in range(40):
            seen = target.read_bytes()
            try:
                write(target, b"%d" % (int(seen) + 1), seen)
            except ToolError:
                continue
            wins[who] += 1

    threads = [threading.Thread(target=count, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # The check and the renaming are two system calls; a step can only be lost between them.
    assert 0 < int(target.read_bytes()) <= sum(wins)
    only(target.parent, target.name)


def test_R27_a_link_in_the_place_of_the_file_is_not_followed(target: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(OLD)
    target.unlink()
    target.symlink_to(victim)
    real = tmp_path.resolve() / target.name
    for expected in (sha(OLD), None):
        with pytest.raises(ToolError):
            write_file(real, "t", NEW, expected)
    assert victim.read_bytes() == OLD
    (tmp_path / "box").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ToolError):
        write_file(tmp_path.resolve() / "box" / "x", "x", NEW, None)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("linked", [False, True])
def test_T57_what_is_beside_a_file_while_it_is_written_is_private(target: Path, linked: bool) -> None:
    seen: dict[str, int] = {}

    def look() -> bool:
        seen.update((entry.name, stat.S_IMODE(entry.stat().st_mode)) for entry in target.parent.iterdir())
        return False

    if linked:
        (target.parent / "other").hardlink_to(target)
    target.chmod(0o644)
    for content in (b"one", b"two"):
        write_file(target.resolve(), "t", content, sha(target.read_bytes()), look)
    beside = {name: mode for name, mode in seen.items() if name not in ("other", target.name)}
    assert set(beside.values()) <= {0o600}
    assert set(beside) == {".target.txt.claw-backup"} if linked else len(beside) in (0, 2)


@pytest.mark.parametrize("unnamed", [False, True])
def test_T57_a_file_in_the_making_has_no_name_that_could_be_planted(target: Path, unnamed: bool) -> None:
    folder = os.open(target.parent, os.O_RDONLY)
    names: set[str] = set()
    try:
        for _ in range(3):
            with SiblingFile(folder, 0o600, unnamed=unnamed) as made:
                names |= {entry.name for entry in target.parent.iterdir()} - {target.name}
                assert stat.S_IMODE(os.fstat(made.fd).st_mode) == 0o600
                os.write(made.fd, NEW)
                with pytest.raises(FileExistsError):
                    made.publish(target.name)
            only(target.parent, target.name)
        with SiblingFile(folder, 0o600, unnamed=unnamed) as made:
            made.publish("published")
        with SiblingFile(folder, 0o600, unnamed=unnamed) as made:
            made.replace(target.name)
        only(target.parent, target.name, "published")
    finally:
        os.close(folder)
    assert len(names) in (0, 3)


def test_T57_a_planted_backup_is_neither_followed_nor_taken_for_ones_own(target: Path, tmp_path: Path) -> None:
    (target.parent / "other").hardlink_to(target)
    victim = tmp_path / "victim"
    victim.write_bytes(OLD)
    backup = target.parent / backup_name(target.name)
    plants: list[Callable[[], object]] = [
        lambda: backup.symlink_to(victim),
        lambda: backup.write_bytes(b"something else"),
        lambda: os.mkfifo(backup),
        backup.mkdir,
    ]
    for plant in plants:
        plant()
        with pytest.raises(ToolError, match="cut off"):
            write(target, NEW, OLD)
        assert target.read_bytes() == victim.read_bytes() == OLD
        if backup.is_dir():
            backup.rmdir()
        else:
            backup.unlink()


# --------------------------------------------------------------------------- failures of the system

SCRIPT = """
import os, resource, sys
from pathlib import Path
from agent.atomic_write import write_file
from agent.permissions.opening import has_openat2
from agent.tools.base import ToolError
has_openat2()  # imports what it needs
path, expected, size, limit, user = Path(sys.argv[1]), sys.argv[2] or None, *map(int, sys.argv[3:])
if user:  # not before: the interpreter may lie where that user cannot read
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    write_file(path, path.name, b"new content, longer\\n" if not size else b"x" * size, expected)
except ToolError as error:
    print(error.text)
"""


def child(path: Path, *, user: int = 0, size: int = 0, limit: int = 0, new: bool = False, trace: str = "") -> str:
    expected = "" if new else sha(path.read_bytes())
    strace = ["strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={trace.split(':')[0]}", "-e", f"inject={trace}"]
    argv = [sys.executable, "-c", SCRIPT, str(path.resolve()), expected, str(size), str(limit), str(user)]
    done = subprocess.run(
        [*(strace if trace else []), *argv],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("linked", [False, True])
def test_T52_a_write_that_fails_in_its_middle_changes_nothing(target: Path, linked: bool) -> None:
    if linked:
        (target.parent / "other").hardlink_to(target)
    assert "larger than the system allows" in child(target, size=200_000, limit=100_000)
    assert target.read_bytes() == OLD
    only(target.parent, target.name, *(["other"] if linked else []))
    assert "larger" in child(target.parent / "p" / "q" / "new", size=200_000, limit=100_000, new=True)
    assert not (target.parent / "p").exists()


def can_trace() -> bool:
    strace = shutil.which("strace")
    return (
        strace is not None and subprocess.run([strace, "-qq", "true"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not can_trace(), reason="strace injects the failures")
@pytest.mark.parametrize(
    ("trace", "words"),
    [
        ("fsync:error=ENOSPC:when=1", "No space is left"),
        ("fsync:error=EIO:when=1", "I/O error"),
        ("rename,renameat,renameat2:error=EROFS", "read-only file system"),
        ("rename,renameat,renameat2:error=EACCES", "No permission"),
        ("linkat:error=EPERM", ""),  # a file without a name cannot be given one: it is made anew with one
        ("fchown,fchmod:error=EPERM", ""),
    ],
)
def test_T52_failures_of_single_steps(target: Path, trace: str, words: str) -> None:
    output = child(target, trace=trace)
    assert words in output
    assert target.read_bytes() == (OLD if words else NEW)
    only(target.parent, target.name)


@as_root
def test_T52_without_permission_nothing_is_tried(target: Path) -> None:
    target.parent.chmod(0o755)
    open_to_all(target)
    assert "No permission to write" in child(target, user=NOBODY)
    assert target.read_bytes() == OLD


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_T52_a_folder_in_which_nothing_can_be_replaced_is_told_as_that(target: Path) -> None:
    target.parent.chmod(0o555)
    try:
        with pytest.raises(ToolError, match=r"The folder .* is not writable for you \(mode 0555.*without a risk"):
            check_writable(target, "target.txt")
    finally:
        target.parent.chmod(0o755)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_T52_a_read_only_file_is_refused_before_anyone_is_asked(target: Path) -> None:
    target.chmod(0o444)
    with pytest.raises(ToolError, match=r"not writable for you \(mode 0444"):
        check_writable(target, "target.txt")


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import answer
print(answer.VALUE)
"""


@pytest.mark.parametrize("in_place", [False, True])
def test_python_never_runs_the_bytecode_of_an_older_content(tmp_path: Path, in_place: bool) -> None:
    source = tmp_path / "answer.py"
    contents = [b"VALUE = 1\n", b"VALUE = 22\n", b"VALUE = 3\n"]
    write(source, contents[0], None)
    if in_place:
        (tmp_path / "other").hardlink_to(source)
    seen = []
    for old, new in zip(contents, [*contents[1:], b""], strict=True):
        command = [sys.executable, "-I", "-c", PROGRAM, str(tmp_path)]
        seen.append(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        # As within one second: only the writer moves the time on.
        now = int(source.stat().st_mtime)
        write(source, new, old)
        assert int(source.stat().st_mtime) > now
    assert seen == ["1\n", "22\n", "3\n"]


def test_other_files_get_the_time_of_their_change(target: Path) -> None:
    later = time.time() + 100
    os.utime(target, (later, later))
    write(target, NEW, OLD)
    assert target.stat().st_mtime < later

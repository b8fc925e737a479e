import fcntl
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agent.permissions.grants import DamagedStateError, Grants, StateError, edit_state, read_state

PROJECT = Path('/home/me/a "quoted" project.d')


def test_granted_rules_are_kept_in_order_and_once(tmp_path: Path) -> None:
    grants = Grants(tmp_path / "claw" / "state.toml")
    assert grants.rules(PROJECT) == ()
    for rule in ("bash(git log)", "edit(src/*)", "bash(git log)"):
        grants.add(PROJECT, rule)
    grants.add(Path("/other"), "read(/etc/hosts)")
    assert grants.rules(PROJECT) == ("bash(git log)", "edit(src/*)")


def test_the_file_is_private_and_keeps_other_keys(tmp_path: Path) -> None:
    path = tmp_path / "claw" / "state.toml"
    edit_state(path, lambda state: state.update(last={"model": "x/y"}, trust={"/a": {"inode": 7}}))
    Grants(path).add(PROJECT, "bash(ls)")
    state = read_state(path)
    assert state["last"] == {"model": "x/y"} and state["trust"] == {"/a": {"inode": 7}}
    assert state["grants"] == {str(PROJECT): {"allow": ["bash(ls)"]}}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["state.toml", "state.toml.lock"]


WORKER = """
import sys
from pathlib import Path
from agent.permissions.grants import Grants
for number in range(int(sys.argv[3])):
    Grants(Path(sys.argv[1])).add(Path("/project"), f"bash(tool {sys.argv[2]}-{number})")
"""


def test_R42_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.toml"
    count, updates = 4, 15
    root = str(Path(__file__).parents[3])
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(path), str(number), str(updates)], cwd=root)
        for number in range(count)
    ]
    assert [worker.wait(30) for worker in workers] == [0] * count
    expected = {f"bash(tool {worker}-{number})" for worker in range(count) for number in range(updates)}
    assert set(Grants(path).rules(Path("/project"))) == expected


@pytest.mark.parametrize(
    "content",
    [b"\x00\xff", b"[grants", b"a = 1\na = 2\n", b"\xef\xbb\xbfx = 1", b"#" * 5_000_000, b"a = " + b"[" * 9_000],
    ids=range(6),
)
def test_T10_a_damaged_file_grants_nothing_and_is_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.toml"
    path.write_bytes(content)
    path.chmod(0o600)
    grants = Grants(path)
    with pytest.raises(DamagedStateError, match=r"state\.toml"):
        grants.rules(PROJECT)
    grants.add(PROJECT, "bash(ls)")
    assert grants.rules(PROJECT) == ("bash(ls)",)
    assert (tmp_path / "state.toml.damaged-1").read_bytes() == content


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_T10_a_file_that_others_may_write_grants_nothing(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "state.toml"
    Grants(path).add(PROJECT, "bash(ls)")
    path.chmod(mode)
    with pytest.raises(DamagedStateError, match="0600"):
        Grants(path).rules(PROJECT)


def test_reading_makes_the_file_private_and_leaves_nothing_open(tmp_path: Path) -> None:
    path = tmp_path / "state.toml"
    path.write_text("")
    path.chmod(0o644)
    with path.open() as file:
        first = file.fileno()
    assert Grants(path).rules(PROJECT) == ()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with path.open() as file:
        assert file.fileno() == first


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_T10_no_regular_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "state.toml"
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    with pytest.raises(StateError, match=r"state\.toml"):
        Grants(path).rules(PROJECT)


@pytest.mark.parametrize(
    "text", ["grants = 3", '[grants]\n"/p" = 3', '[grants."/p"]\nallow = "bash"', '[grants."/p"]\nallow = [1]']
)
def test_wrong_types_grant_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.toml"
    path.write_text(text)
    path.chmod(0o600)
    for use in (Grants(path).rules, lambda project: Grants(path).add(project, "bash(ls)")):
        with pytest.raises(StateError, match=r"state\.toml.*correct or remove it"):
            use(Path("/p"))
    assert path.read_text() == text


def test_a_folder_whose_name_is_no_text_can_be_granted_for(tmp_path: Path) -> None:
    grants, project = Grants(tmp_path / "state.toml"), Path(os.fsdecode(b"/proj\xff"))
    grants.add(project, "bash(ls)")
    assert grants.rules(project) == ("bash(ls)",)


def test_a_state_that_cannot_be_written_again_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "state.toml"
    path.write_text(".".join("a" * 3_000) + " = 1\n")
    path.chmod(0o600)
    before = path.read_bytes()
    with pytest.raises(StateError, match="too deeply"):
        Grants(path).add(PROJECT, "bash(ls)")
    assert path.read_bytes() == before


def test_a_failed_change_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "state.toml"
    Grants(path).add(PROJECT, "bash(ls)")
    before = path.read_bytes()
    with pytest.raises(TypeError):
        edit_state(path, lambda state: state.update(bad=object()))
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["state.toml", "state.toml.lock"]


def test_a_writer_waits_for_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "state.toml"
    grants = Grants(path)
    grants.add(PROJECT, "bash(ls)")
    with (tmp_path / "state.toml.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        writer = threading.Thread(target=grants.add, args=(PROJECT, "bash(pwd)"))
        writer.start()
        assert grants.rules(PROJECT) == ("bash(ls)",)
        fcntl.flock(lock, fcntl.LOCK_UN)
        writer.join(40)
    assert grants.rules(PROJECT) == ("bash(ls)", "bash(pwd)")


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match=r"cannot be written: not a directory; move it away$"):
        Grants(tmp_path / "file" / "state.toml").add(PROJECT, "bash(ls)")

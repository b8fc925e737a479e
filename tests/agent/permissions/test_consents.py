import subprocess
import sys
from pathlib import Path

import pytest

from agent.permissions.consents import Consents
from agent.permissions.grants import Grants, StateError, edit_state, read_state

PROJECT = Path('/home/me/a "quoted" project.d')
TARGET = Path("/home/me/style.md")


def test_R7_a_decision_is_kept_for_its_target_and_its_project(tmp_path: Path) -> None:
    file = tmp_path / "claw" / "state.toml"
    consents = Consents(file, PROJECT)
    assert consents.decision(TARGET) is None
    consents.decide(TARGET, True)
    consents.decide(Path("/home/me/other.md"), False)
    again = Consents(file, PROJECT)
    assert again.decision(TARGET) is True and again.decision(Path("/home/me/other.md")) is False
    assert Consents(file, Path("/other")).decision(TARGET) is None
    assert again.decision(Path("/home/me")) is None


def test_R7_the_newest_decision_counts_and_is_written_once(tmp_path: Path) -> None:
    consents = Consents(tmp_path / "state.toml", PROJECT)
    for allowed in (True, True, False, True, False):
        consents.decide(TARGET, allowed)
        assert consents.decision(TARGET) is allowed
        lists = read_state(consents.state_file)["includes"][str(PROJECT)]
        assert lists["allowed" if allowed else "refused"] == [str(TARGET)]
    assert read_state(consents.state_file)["includes"] == {str(PROJECT): {"allowed": [], "refused": [str(TARGET)]}}


def test_R7_where_nobody_can_be_asked_the_undecided_is_refused(tmp_path: Path) -> None:
    silent = Consents(tmp_path / "state.toml", PROJECT, can_ask=False)
    assert silent.decision(TARGET) is False
    Consents(tmp_path / "state.toml", PROJECT).decide(TARGET, True)
    assert silent.decision(TARGET) is True


def test_other_keys_of_the_state_file_stay(tmp_path: Path) -> None:
    file = tmp_path / "claw" / "state.toml"
    Grants(file).add(PROJECT, "bash(ls)")
    Consents(file, PROJECT).decide(TARGET, True)
    assert Grants(file).rules(PROJECT) == ("bash(ls)",)


def test_a_name_that_is_no_UTF8_is_kept(tmp_path: Path) -> None:
    consents = Consents(tmp_path / "state.toml", Path("/p\udcff"))
    consents.decide(Path("/t\udcfe.md"), True)
    assert consents.decision(Path("/t\udcfe.md")) is True


@pytest.mark.parametrize(
    "content", ["not toml", "includes = 3", '[includes."/p"]\nallowed = "/t"', "includes.'/p' = 1"]
)
def test_a_damaged_file_allows_nothing(tmp_path: Path, content: str) -> None:
    file = tmp_path / "state.toml"
    file.write_text(content)
    file.chmod(0o600)
    assert Consents(file, Path("/p")).decision(Path("/t")) is None
    assert Consents(file, Path("/p"), can_ask=False).decision(Path("/t")) is False


def test_a_file_that_others_may_write_allows_nothing(tmp_path: Path) -> None:
    consents = Consents(tmp_path / "state.toml", PROJECT)
    consents.decide(TARGET, True)
    consents.state_file.chmod(0o666)
    assert consents.decision(TARGET) is None


def test_a_decision_that_cannot_be_written_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "state.toml"
    edit_state(file, lambda state: state.update(includes=3))
    before = file.read_bytes()
    with pytest.raises(StateError, match="must be a table"):
        Consents(file, PROJECT).decide(TARGET, True)
    assert file.read_bytes() == before


WORKER = """
import sys
from pathlib import Path
from agent.permissions.consents import Consents
consents = Consents(Path(sys.argv[1]), Path("/p"))
for n in range(20):
    consents.decide(Path(f"/{sys.argv[2]}/{n}"), True)
"""


def test_two_processes_lose_no_decision_of_each_other(tmp_path: Path) -> None:
    file = tmp_path / "state.toml"
    command = [sys.executable, "-c", WORKER, str(file)]
    workers = [subprocess.Popen([*command, name]) for name in ("a", "b")]
    assert [worker.wait(timeout=30) for worker in workers] == [0, 0]
    assert len(read_state(file)["includes"]["/p"]["allowed"]) == 40

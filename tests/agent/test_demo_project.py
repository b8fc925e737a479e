import subprocess
import sys
from pathlib import Path

import pytest

from agent.demo import create_demo_project, project_files
from providers.demo_files import EXTRA_TESTS, extra_tests
from providers.demo_script import TEST_COMMAND
from providers.demo_story import FIRST_FIX, HISTORY, ORIGINAL, SECOND_FIX, SOURCE, TESTS


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return create_demo_project(tmp_path / "demo")


def run_tests(project: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, *TEST_COMMAND.split()[1:]]
    return subprocess.run(argv, cwd=project, capture_output=True, text=True, timeout=50)


def change(project: Path, old: str, new: str) -> None:
    path = project / SOURCE
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_the_sum_is_broken_then_half_right_then_right(project: Path) -> None:
    (project / EXTRA_TESTS).write_text(extra_tests())
    shown = subprocess.run(
        [sys.executable, "-c", "import calc; print(calc.sum(2, 3))"], cwd=project, capture_output=True, text=True
    )
    assert shown.stdout == "23\n"
    assert run_tests(project).returncode == 1

    change(project, ORIGINAL, FIRST_FIX)
    half = run_tests(project)
    assert half.returncode == 1
    assert "FAIL: test_negative" in half.stderr
    assert "test_two_and_three" not in half.stderr

    change(project, FIRST_FIX, SECOND_FIX)
    done = run_tests(project)
    assert (done.returncode, "OK" in done.stderr) == (0, True)


def test_the_project_says_that_the_interface_stays(project: Path) -> None:
    assert "Keep the public interface" in (project / "AGENTS.md").read_text()
    assert (project / HISTORY).read_text().count("may carry a sign") == 1
    assert {SOURCE, TESTS, HISTORY} <= set(project_files())


def test_it_is_a_git_project_of_its_own_wherever_it_lies(project: Path) -> None:
    assert (project / ".git/HEAD").read_text() == "ref: refs/heads/main\n"
    try:
        done = subprocess.run(["git", "rev-parse", "--show-toplevel"], cwd=project, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("git is not installed")
    assert done.stdout.strip() == str(project)


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(FileExistsError):
        create_demo_project(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]

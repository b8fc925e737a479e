from pathlib import Path

import pytest

from agent.permissions.path_pattern import PathScope
from agent.permissions.rules import allows_command, parse_rule
from agent.permissions.suggestion import suggest_rule
from agent.permissions.workspace import Workspace
from agent.tools.base import Access


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "project" / "src").mkdir(parents=True)
    return Workspace(tmp_path / "project", tmp_path / "project")


def offered(workspace: Workspace, command: str) -> str | None:
    return suggest_rule("bash", Access("command", command, command=command), workspace, Path("/home/me"))


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("git log -5 --oneline", "bash(git log)"),
        ("git add x.py", "bash(git add)"),
        ("python3 -m unittest -v", "bash(python3 -m unittest)"),
        (".venv/bin/python -m pytest tests", "bash(.venv/bin/python -m pytest)"),
        ("pytest -q tests", "bash(pytest)"),
        ("ls -la src", "bash(ls)"),
        ("cargo test --all", "bash(cargo test)"),
        ("ruff check .", "bash(ruff check)"),
        ("make test", "bash(make test $)"),
        ("make", "bash(make $)"),
        ("npm run test", "bash(npm run test $)"),
        ("git push origin main", "bash(git push origin main $)"),
        ("git -C x log", "bash(git -C x log $)"),
        ("rm build.log", "bash(rm build.log $)"),
        ("curl -s localhost", "bash(curl -s localhost $)"),
        ("./run.sh a", "bash(./run.sh a $)"),
        ("sed -n 3p a.py", "bash(sed -n 3p a.py $)"),
    ],
)
def test_R16_what_is_offered(workspace: Workspace, command: str, rule: str) -> None:
    assert offered(workspace, command) == rule
    assert allows_command(parse_rule(rule, PathScope(workspace.root, Path("/home/me"))), command)


@pytest.mark.parametrize(
    "command",
    [
        "python x.py",
        "python3 -c 'print(1)'",
        "python3.12 x",
        "python -m http.server",
        "/usr/bin/python3 x",
        ".venv/bin/python x",
        "node x.js",
        "perl -e 1",
        "ruby x",
        "bash -lc ls",
        "/bin/sh x",
        "env ls",
        "sudo ls",
        "command ls",
        "timeout 5 ls",
        "nohup ls",
        "xargs ls",
        "find . -name x",
        "awk 1 x",
        "ssh host ls",
        "npx x",
        "git",
        "docker run x",
        "vim x",
        "less x",
        "eval ls",
        "source x",
        "cat <<E\nx\nE",
        "ls; rm x",
        "ls | cat",
        "ls > x",
        "echo $HOME",
        "X=1 ls",
        "ls  " + " " * 3_000 + "x",
        "ls ",
        "ls\tx",
        "ls \u202ex",
        "ls \u200b",
        "ls\r x",
    ],
)
def test_T17_T19_nothing_lasting_is_offered(workspace: Workspace, command: str) -> None:
    assert offered(workspace, command) is None


def test_edits_offer_the_files_folder(workspace: Workspace, tmp_path: Path) -> None:
    def edit(path: Path) -> str | None:
        return suggest_rule("write", Access("edit", "x", paths=(path,)), workspace, tmp_path / "home")

    assert edit(workspace.root / "src" / "a.py") == "edit(src/*)"
    assert edit(workspace.root / "a.py") == "edit(*)"
    assert edit(workspace.root / "we[ird" / "a.py") == "edit(we[[]ird/*)"
    assert edit(workspace.root / "a\nb" / "x") is None


def test_outside_only_that_path_is_offered(workspace: Workspace, tmp_path: Path) -> None:
    home = tmp_path / "home"

    def read(path: Path) -> str | None:
        return suggest_rule("grep", Access("read", "x", paths=(path,)), workspace, home)

    assert read(Path("/usr/include/stdio.h")) == "read(/usr/include/stdio.h)"
    for path in (Path("/"), Path("/etc"), home, home.parent):
        assert read(path) is None

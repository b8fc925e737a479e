from pathlib import Path
from typing import Literal

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


OFFERED = [
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
    ("python -m pytest", "bash(python -m pytest)"),
    ("pypy3.10 -m mypy x", "bash(pypy3.10 -m mypy)"),
    ("ls", "bash(ls)"),
    ("ls Src", "bash(ls)"),
    ("go version", "bash(go version $)"),
    ("mytool sub-command x", "bash(mytool sub-command)"),
    ("7z x a", "bash(7z x)"),
    ("bin/tool sub x", "bash(bin/tool sub x $)"),
    ("a:b x", "bash(a:b x $)"),
    ("/bin/ls x", "bash(/bin/ls x $)"),
    ("pip3.11 install x", "bash(pip3.11 install x $)"),
    ("RM x", "bash(RM x $)"),
    ("grep -n 'a b' c", "bash(grep)"),
    ("make 'a b'", "bash(make 'a b' $)"),
    ("jq x y", "bash(jq x)"),
]


def test_R16_what_is_offered(workspace: Workspace) -> None:
    assert [(command, offered(workspace, command)) for command, _ in OFFERED] == OFFERED
    scope = PathScope(workspace.root, Path("/home/me"))
    assert [command for command, rule in OFFERED if not allows_command(parse_rule(rule, scope), command)] == []


NOTHING_LASTING = [
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
    "ls  x",
    " ls",
    "ls ''",
    "go",
    "python",
    "python -m",
    "python -c pytest",
    "python x pytest",
    "perl -m pytest",
    "node.exe x",
    "Python.EXE x",
    "lua5.4 x",
    "vim9 x",
]


def test_T17_T19_nothing_lasting_is_offered(workspace: Workspace) -> None:
    assert [command for command in NOTHING_LASTING if offered(workspace, command) is not None] == []


NEVER = """
python pypy perl ruby node nodejs deno bun php lua tclsh wish expect osascript R Rscript julia ghci scala groovy jshell irb
gdb awk gawk mawk nawk sqlite3 psql mysql redis-cli mongo mongosh npx pnpx bunx uvx pipx dlx vi vim nvim view emacs nano ed
ex less more man open xdg-open start code find fd fdfind docker podman kubectl nerdctl tmux screen at batch crontab
systemctl launchctl mosh telnet nc ncat netcat socat sh bash dash ash zsh ksh mksh fish csh tcsh rbash . source eval env
sudo doas su runuser pkexec command builtin exec nohup nice timeout time xargs parallel watch entr strace chroot busybox ssh
"""
WORD_FOR_WORD = """
make gmake cmake ninja just task rake gradle gradlew mvn ant bazel npm pnpm yarn uv poetry hatch nox tox invoke pre-commit
rm rmdir mv cp ln dd install truncate shred tee chmod chown chgrp setfacl kill pkill killall mount umount
curl wget scp rsync sftp ftp aws gcloud az gh glab terraform ansible helm
sed tar zip unzip rg sort split xxd git patch sudoedit apt apt-get dnf yum brew pacman snap pip pip3 gem cargo go
"""
PREFIXES = {
    "git": "status log diff show add commit fetch blame rev-parse ls-files describe shortlog",
    "cargo": "build check test clippy fmt doc tree",
    "go": "build test vet fmt list doc",
    "python3 -m": "unittest pytest mypy ruff black flake8 compileall coverage",
}


def test_R16_what_each_program_may_be_offered(workspace: Workspace) -> None:
    assert [name for name in NEVER.split() if offered(workspace, f"{name} x") is not None] == []
    exact = [name for name in WORD_FOR_WORD.split() if offered(workspace, f"{name} x") != f"bash({name} x $)"]
    assert exact == []
    for program, words in PREFIXES.items():
        assert [
            word for word in words.split() if offered(workspace, f"{program} {word} x") != f"bash({program} {word})"
        ] == []


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
    assert read(home / "x") == f"read({home}/x)"
    for path in (Path("/"), Path("/etc"), home, home.parent):
        assert read(path) is None
    assert read(workspace.root / "src" / "[a]") == "read(src/[[]a])"
    assert read(workspace.root) is None


def test_further_folders_are_named_in_full(tmp_path: Path) -> None:
    root, extra, spills = tmp_path / "project", tmp_path / "extra", tmp_path / "spills"
    workspace = Workspace(root, root, extra=(extra,), readable=(spills,))

    def rule(kind: Literal["read", "edit"], *paths: Path) -> str | None:
        return suggest_rule("x", Access(kind, "x", paths=paths), workspace, tmp_path / "home")

    assert rule("read", extra / "a" / "b") == f"read({extra}/a/b)"
    assert rule("edit", extra / "a" / "b") == f"edit({extra}/a/*)"
    assert rule("edit", spills / "a" / "b") == f"edit({spills}/a/b)"
    assert rule("read") is None
    assert rule("read", root / "a", root / "b") is None

"""Which rule "this session" or "always for this folder" would add for a call; None where only this one call may be allowed.

A prefix is offered only for one plain command whose further arguments change little. Programs that run other programs or
scripts are never offered; programs that destroy, copy or talk to other machines only word for word.
"""

import glob
import re
import shlex
from pathlib import Path

from agent.permissions.shell import SHELLS, WRAPPERS, program, simple_command
from agent.permissions.workspace import Workspace
from agent.tools.base import Access

_INTERPRETERS_TEXT = """
python pypy perl ruby node nodejs deno bun php lua tclsh wish expect osascript R Rscript julia ghci scala groovy jshell irb gdb
awk gawk mawk nawk sqlite3 psql mysql redis-cli mongo mongosh npx pnpx bunx uvx pipx dlx vi vim nvim view emacs nano ed ex
less more man open xdg-open start code find fd fdfind docker podman kubectl nerdctl tmux screen at batch crontab systemctl
launchctl mosh telnet nc ncat netcat socat
"""
_NEVER = frozenset(_INTERPRETERS_TEXT.casefold().split()) | SHELLS | WRAPPERS | {".", "source", "eval"}
_EXACT_TEXT = """
make gmake cmake ninja just task rake gradle gradlew mvn ant bazel npm pnpm yarn uv poetry hatch nox tox invoke pre-commit
rm rmdir mv cp ln dd install truncate shred tee chmod chown chgrp setfacl kill pkill killall mount umount
curl wget scp rsync sftp ftp aws gcloud az gh glab terraform ansible helm
sed tar zip unzip rg sort split xxd git patch sudoedit apt apt-get dnf yum brew pacman snap pip pip3 gem cargo go
"""
_EXACT = frozenset(_EXACT_TEXT.split())
_GIT_PREFIXES_TEXT = "status log diff show add commit fetch blame rev-parse ls-files describe shortlog"
_SUBCOMMANDS = {
    "git": frozenset(_GIT_PREFIXES_TEXT.split()),
    "cargo": frozenset(("build", "check", "test", "clippy", "fmt", "doc", "tree")),
    "go": frozenset(("build", "test", "vet", "fmt", "list", "doc")),
}
_CHECK_MODULES = frozenset(("unittest", "pytest", "mypy", "ruff", "black", "flake8", "compileall", "coverage"))
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9-]*")
_PROGRAM = re.compile(r"[A-Za-z0-9_][\w.+-]*")


def suggest_rule(tool: str, access: Access, workspace: Workspace, home: Path) -> str | None:
    if access.kind == "command":
        return _for_command(access.command or "")
    if len(access.paths) != 1:
        return None
    path = access.paths[0]
    if not str(path).isprintable():
        return None
    name = "edit" if access.kind == "edit" else "read"
    if not workspace.contains(path):
        return (
            f"{name}({glob.escape(str(path))})" if len(path.parts) > 2 and path not in (home, *home.parents) else None
        )
    if access.kind == "read":
        return f"{name}({_shown(path, workspace)})" if path != workspace.root else None
    return f"{name}({_shown(path.parent, workspace, '*')})"


def _shown(path: Path, workspace: Workspace, last: str = "") -> str:
    if path.is_relative_to(workspace.root):
        parts = [glob.escape(part) for part in path.relative_to(workspace.root).parts]
        return "/".join([*parts, last] if last else parts)
    return glob.escape(str(path)) + (f"/{last}" if last else "")


def _for_command(command: str) -> str | None:
    words = simple_command(command)
    if words is None or command != command.strip() or "  " in command or "" in words:
        return None
    name = program(words[0]).removesuffix(".exe")
    plain = name.rstrip(".-0123456789")  # `python3.12` is python
    if plain in ("python", "pypy") and words[1:2] == ("-m",) and _CHECK_MODULES.intersection(words[2:3]):
        # `python3 -m unittest` runs the project's tests, as `pytest` does: no wider than what it names.
        return _rule(words[:3])
    if name in _NEVER or plain in _NEVER:
        return None
    if subcommands := _SUBCOMMANDS.get(name):
        if subcommands.intersection(words[1:2]):
            return _rule(words[:2])
        return _rule((*words, "$")) if len(words) > 1 else None
    if name in _EXACT or plain in _EXACT or not _PROGRAM.fullmatch(words[0]):
        return _rule((*words, "$"))
    return _rule(words[: 2 if _SUBCOMMAND.fullmatch("".join(words[1:2])) else 1])


def _rule(words: tuple[str, ...]) -> str:
    exact = words[-1] == "$"
    return f"bash({shlex.join(words[:-1] if exact else words)}{' $' if exact else ''})"

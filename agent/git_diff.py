"""What git says was changed in a repository, for the screen. A repository is foreign: nothing that its configuration or its
attributes name may run, and nothing is fetched or written.

git is called by an absolute path outside the workspace, with an environment of its own and without the user's or system's
configuration. Filters of the repository are switched off by name, since git has no option against them.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

PATIENCE_S = 10.0
MOST_BYTES = 4 * 1024 * 1024
MOST_UNTRACKED = 200
_PLACES = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/local/bin", "/bin")
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_SAFE = (
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat", "-c", "diff.external="),
    *("-c", "log.showSignature=false", "-c", "protocol.allow=never", "-c", "safe.bareRepository=explicit"),
    *("-c", "core.attributesFile=/dev/null", "-c", "core.quotePath=false", "-c", "submodule.recurse=false"),
)
_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all", "--find-renames")


class GitDiff(Struct, frozen=True):
    """Foreign text."""

    diff: str
    """Against the last commit, staged changes among it."""
    untracked: tuple[str, ...] = ()
    is_cut: bool = False


class GitError(Exception):
    """git could not say; the text says why."""


async def git_diff(folder: Path, workspace: Path) -> GitDiff:
    """The changes of the repository that `folder` (real) lies in. git inside `workspace` is never called.

    Raises:
        GitError: no git, no repository, or git refuses.
    """
    git = git_program(workspace)
    if git is None:
        raise GitError("git is not installed.")
    call = _Calls(git, folder)
    await call.text("rev-parse", "--git-dir")
    await call.find_filters()
    head = await call.text("rev-parse", "--verify", "--quiet", "HEAD", may_fail=True)
    base = head[0].strip() or _EMPTY_TREE
    diff, is_cut = await call.text("diff", *_DIFF, base, "--")
    listed, _ = await call.text("ls-files", "--others", "--exclude-standard", "-z")
    names = tuple(name for name in listed.split("\0") if name)[:MOST_UNTRACKED]
    return GitDiff(diff, names, is_cut)


def git_program(workspace: Path, places: Sequence[str] = _PLACES) -> str | None:
    """The absolute path of git, in `places` or by PATH; None where there is none outside the workspace."""
    for folder in (*places, *os.environ.get("PATH", "").split(os.pathsep)):
        candidate = Path(folder) / "git"
        if not candidate.is_absolute() or not os.access(candidate, os.X_OK) or not candidate.is_file():
            continue
        if not candidate.resolve().is_relative_to(workspace) and not candidate.is_relative_to(workspace):
            return str(candidate)
    return None


class _Calls:
    def __init__(self, git: str, folder: Path) -> None:
        self._git = git
        self._folder = folder
        self._more: tuple[str, ...] = ()

    async def find_filters(self) -> None:
        """Switch off every filter that the repository's configuration defines."""
        listed, is_cut = await self.text("config", "--name-only", "-z", "--get-regexp", r"^filter\.", may_fail=True)
        if is_cut:
            raise GitError("The repository defines too many filters to switch them off.")
        more: list[str] = []
        for name in dict.fromkeys(key.rpartition(".")[0] for key in listed.split("\0") if key):
            if "=" in name:  # such a name cannot be overridden on a command line
                raise GitError("The repository defines a filter that cannot be switched off.")
            more += ["-c", f"{name}.clean=", "-c", f"{name}.smudge=", "-c", f"{name}.process="]
            more += ["-c", f"{name}.required=false"]
        self._more = tuple(more)

    async def text(self, *arguments: str, may_fail: bool = False) -> tuple[str, bool]:
        """What a command writes, and whether that was cut.

        Raises:
            GitError: it failed, and may not; or it took too long.
        """
        argv = [self._git, "--no-pager", *_SAFE, *self._more, *arguments]
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=self._folder,
            env=_environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(PATIENCE_S):
                out, complaint, is_cut = await _output(process)
        except TimeoutError:
            raise GitError(f"git took longer than {PATIENCE_S:g} s.") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.communicate()  # what is left of its output, so that the pipes are closed
        if process.returncode and not may_fail and not is_cut:
            raise GitError(_complaint(complaint))
        return out.decode("utf-8", "replace"), is_cut


async def _output(process: asyncio.subprocess.Process) -> tuple[bytes, bytes, bool]:
    """Both outputs, each up to a bound; whether the first was cut."""
    assert process.stdout is not None
    assert process.stderr is not None
    complaining = asyncio.ensure_future(_read(process.stderr))
    try:
        out = await _read(process.stdout)
        if len(out) > MOST_BYTES:  # it waits to write more, and is ended by the caller
            return out[:MOST_BYTES], b"", True
        complaint = await complaining
        await process.wait()
        return out, complaint, False
    finally:
        complaining.cancel()
        await asyncio.wait({complaining})


async def _read(stream: asyncio.StreamReader) -> bytes:
    """Up to one piece more than the bound."""
    pieces: list[bytes] = []
    size = 0
    while size <= MOST_BYTES and (piece := await stream.read(1 << 16)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _environment() -> dict[str, str]:
    return {
        "PATH": os.pathsep.join(_PLACES),
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def _complaint(said: bytes) -> str:
    lines: Sequence[str] = said.decode("utf-8", "replace").strip().split("\n")
    text = lines[0].removeprefix("fatal: ") if lines and lines[0] else "git failed without a word"
    if "dubious ownership" in text:
        return "The repository belongs to somebody else, so git does not read it."
    return "This folder is in no git repository." if "not a git repository" in text else f"git: {text}."

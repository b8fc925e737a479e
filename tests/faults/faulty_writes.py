"""Writes of files in which a system call fails or kills at will: strace holds a warm process while its forks write."""

import contextlib
import functools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from agent.leftover import backup_name

OLD, NEW = b"old content, which is longer\n" * 400, b"new content\n" * 400  # so that a cut is one step more
CASES = ("replace", "in place", "create", "python")
FAILURES = ("ENOSPC", "EIO", "EACCES", "EROFS", "EDQUOT")
WRITING = ("pwrite64", "ftruncate", "fsync", "linkat", "renameat", "openat", "fchmod")
DYING = (*WRITING, "unlinkat", "utimensat")
_NAMES = {"replace": "file.txt", "in place": "file.txt", "create": "made/here/file.txt", "python": "file.py"}
_REPOSITORY = Path(__file__).parents[2]
_PROGRAM = """
import ctypes, hashlib, json, os, sys, time
from pathlib import Path
from agent.atomic_write import write_file
from agent.permissions.opening import has_openat2
from agent.tools.base import ToolError
has_openat2()
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_long(-1), 0, 0, 0)  # whoever may be our tracer, as ordinary user too
print(os.getpid(), flush=True)
for line in sys.stdin:
    answers = []
    for path, old, new in json.loads(line):
        reading, writing = os.pipe()
        if not (child := os.fork()):
            try:
                expected = None if old is None else hashlib.sha256(old.encode()).hexdigest()
                write_file(Path(path), "the file", new.encode(), expected)
                said = b"done"
            except ToolError as error:
                said = error.text.encode()
            except BaseException as error:
                said = f"crash {error!r}".encode()
            os.write(writing, said)
            os._exit(0)
        os.close(writing)
        answers.append(os.read(reading, 65536).decode())
        os.close(reading)
        os.waitpid(child, 0)
    print(json.dumps(answers), flush=True)
"""


class Outcome(NamedTuple):
    case: str
    said: str
    """`done`, the error's text, or nothing where it was killed."""
    content: bytes | None
    beside: tuple[str, ...]
    """Names that were not there before."""
    backup: bytes | None


class Writer:
    """The warm process."""

    def __init__(self, process: "subprocess.Popen[str]", pid: str) -> None:
        self._process = process
        self._pid = pid

    def write(self, inject: str, cases: Sequence[str] = CASES) -> list[Outcome]:
        """Write a file in each way; `inject` as strace takes it, "" for no fault. Each write meets the fault anew."""
        with tempfile.TemporaryDirectory() as made, contextlib.ExitStack() as stack:
            folders = [_prepared(Path(made).resolve() / str(number), case) for number, case in enumerate(cases)]
            if inject:
                stack.enter_context(_injected(inject, self._pid))
            jobs = [
                (str(folder / _NAMES[case]), None if case == "create" else OLD.decode(), NEW.decode())
                for folder, case in zip(folders, cases, strict=True)
            ]
            assert self._process.stdin is not None and self._process.stdout is not None
            print(json.dumps(jobs), file=self._process.stdin, flush=True)
            said = json.loads(self._process.stdout.readline())
            return [_outcome(folder, case, text) for folder, case, text in zip(folders, cases, said, strict=True)]


@contextlib.contextmanager
def warm_writer() -> Iterator[Writer]:
    argv = [sys.executable, "-c", _PROGRAM]
    with subprocess.Popen(argv, cwd=_REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield Writer(process, process.stdout.readline().strip())
        finally:
            process.stdin.close()


def fault_of(outcome: Outcome) -> str:
    """What is wrong with the end of a write: "" if nothing is."""
    case, said, content, beside, backup = outcome
    old = None if case == "create" else OLD
    if said.startswith("crash"):
        return said
    if said == "done":
        return "" if content == NEW and not beside else f"done, with {beside}, new content: {content == NEW}"
    if not said:
        return _fault_after_kill(outcome, old)
    if content == old and not beside:
        return ""
    if backup == OLD and backup_name("file.txt") in said:
        return ""  # the fault did not end, and the error says where the old content is
    return f"{case}: {said!r} leaves {beside}, old content: {content == old}"


def _fault_after_kill(outcome: Outcome, old: bytes | None) -> str:
    if outcome.backup is not None and outcome.backup != OLD:
        return "an incomplete backup"
    if outcome.content not in (old, NEW) and outcome.backup is None:
        return f"{outcome.case}: killed, and neither old nor new nor a backup"
    strays = [name for name in outcome.beside if not name.endswith((".claw-backup", "made", "made/here"))]
    # A file gets its name right before it takes its place: between the two calls a whole copy may stay.
    return "" if len(strays) <= 1 and all(name.startswith(".claw-") for name in strays) else f"killed, left {strays}"


@functools.cache
def missing() -> str:
    """What this machine lacks; "" if nothing."""
    strace = shutil.which("strace")
    if strace is None:
        return "strace"
    works = subprocess.run([strace, "-qq", "true"], capture_output=True, check=False).returncode == 0
    return "" if works else "permission to trace"


def _prepared(folder: Path, case: str) -> Path:
    folder.mkdir()
    if case != "create":
        (folder / _NAMES[case]).write_bytes(OLD)
    if case == "in place":
        (folder / "other name").hardlink_to(folder / _NAMES[case])
    return folder


def _outcome(folder: Path, case: str, said: str) -> Outcome:
    expected = {"create": {"made", "made/here", "made/here/file.txt"} if said == "done" else set()}.get(case)
    expected = {_NAMES[case], *(["other name"] if case == "in place" else [])} if expected is None else expected
    names = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    file, backup = folder / _NAMES[case], folder / backup_name(_NAMES[case])
    content = file.read_bytes() if file.exists() else None
    beside = tuple(sorted(names - expected - {_NAMES[case]}))
    return Outcome(case, said, content, beside, backup.read_bytes() if backup.exists() else None)


@contextlib.contextmanager
def _injected(inject: str, pid: str) -> Iterator[None]:
    call = inject.split(":")[0]
    argv = ["strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={inject}", "-p", pid]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as strace:
        assert strace.stderr is not None
        try:
            _await_attached(strace.stderr)
            yield
        finally:
            strace.terminate()
            strace.stderr.read()


def _await_attached(stderr: IO[str]) -> None:
    line = stderr.readline()
    if "attached" not in line:
        raise AssertionError(line + stderr.read())

"""The `bash` tool: one command in a fresh shell, from the directory claw was started in, and what it said; or a job, which goes
on when the call has returned.

How processes are started and ended is agent/processes.py's business, what may run is the gate's.
"""

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta, Struct
from msgspec.structs import replace

from agent.jobs import Jobs, TooManyJobsError
from agent.processes import CommandNotStartedError, RunOutcome, SpawnerError
from agent.tools.base import Access, ToolContext, ToolError, ToolOutput, load_description
from agent.tools.bash_output import look_at
from agent.tools.details import CommandDetails
from agent.tools.endings import describe_end
from agent.tools.terminal_text import show_output

DEFAULT_TIMEOUT_S = 120
MAX_TIMEOUT_S = 600
MAX_COMMAND_BYTES = 100_000
"""Linux takes 128 KiB for one argument."""
_BASH_PATHS = ("/bin/bash", "/usr/bin/bash")
_SH_PATHS = ("/bin/sh", "/usr/bin/sh")


class Shell(Struct, frozen=True):
    """How to run a command text: the text is put behind `argv`."""

    argv: tuple[str, ...]
    note: str = ""


def find_shell(
    search_path: str, bash_paths: Sequence[str] = _BASH_PATHS, sh_paths: Sequence[str] = _SH_PATHS
) -> Shell | None:
    """bash from its usual places or an absolute entry of `search_path`, else sh with a note, else None."""
    named = [f"{folder}/bash" for folder in search_path.split(os.pathsep) if folder.startswith("/")]
    for path in (*bash_paths, *named):
        if os.access(path, os.X_OK):
            return Shell((path, "--noprofile", "--norc", "-c"))
    for path in sh_paths:
        if os.access(path, os.X_OK):
            return Shell((path, "-c"), f"bash is not installed, so {path} ran this")
    return None


class BashParams(Struct, frozen=True):
    command: str
    timeout_s: Annotated[int, Meta(ge=1, le=MAX_TIMEOUT_S)] = DEFAULT_TIMEOUT_S
    background: bool = False
    """Then there is no time limit."""


class Bash:
    name: ClassVar[str] = "bash"
    params: ClassVar[type[Struct]] = BashParams
    description: ClassVar[str] = load_description(__file__)

    def __init__(self, shell: Shell | None = None) -> None:
        """`shell` is found at the first command if it is not given."""
        self._shell = shell

    def access(self, params: BashParams, context: ToolContext) -> Access:
        command = params.command
        if not command.strip():
            raise ToolError("The command is empty.")
        if "\0" in command:
            raise ToolError("The command has a NUL character in it, which no program can be given.")
        try:
            size = len(command.encode())
        except UnicodeEncodeError:
            raise ToolError("The command has half of a surrogate pair in it, which is no character.") from None
        if size > MAX_COMMAND_BYTES:
            raise ToolError(
                f"The command is {size:,} bytes long and at most {MAX_COMMAND_BYTES:,} can be run. "
                "Write it, or its data, to a file first."
            )
        if params.background:
            _check_room(_jobs(context))
        return Access("command", command.strip().split("\n", 1)[0], command=command)

    async def run(self, params: BashParams, context: ToolContext) -> ToolOutput:
        shell = self._find(context.spawner.environment)
        cwd = context.workspace.cwd
        argv = [*shell.argv, params.command]
        try:
            if params.background:
                return await _begin(_jobs(context), params.command, argv, cwd, shell.note)
            outcome = await context.spawner.run(argv, cwd=cwd, timeout_s=params.timeout_s, on_output=context.progress)
        except CommandNotStartedError as error:
            raise ToolError(_explain(error, cwd)) from error
        except SpawnerError as error:
            raise ToolError(str(error)) from error
        return _output(params, outcome, shell.note)

    def _find(self, environment: Mapping[str, str]) -> Shell:
        if self._shell is None:
            self._shell = find_shell(environment.get("PATH", ""))
        if self._shell is None:
            raise ToolError("There is no bash and no sh on this machine, so no command can run.")
        return self._shell


def _jobs(context: ToolContext) -> Jobs:
    if context.jobs is None:
        raise ToolError("Nothing can run in the background here. Run it without `background`.")
    return context.jobs


def _check_room(jobs: Jobs) -> None:
    try:
        jobs.check_room()
    except TooManyJobsError as error:
        raise ToolError(str(error)) from None


async def _begin(jobs: Jobs, command: str, argv: Sequence[str], cwd: Path, shell_note: str) -> ToolOutput:
    """Start a job and say what it is called; one that ended at once is told of like any command."""
    _check_room(jobs)
    job = await jobs.start(command, argv, cwd)
    notes = [shell_note] if shell_note else []
    if job.is_running:
        notes.append("it ends with the session")
        if path := job.path:
            notes.append(f"all its output goes to {path}")
    output = await look_at(job, notes)
    failed = job.outcome is not None and job.outcome.exit_code != 0
    return replace(output, is_error=failed)


def _explain(error: CommandNotStartedError, cwd: Path) -> str:
    if error.path == str(cwd):
        return (
            f"The directory {cwd}, where the session was started, is gone or cannot be entered ({error}). "
            "No command can run until it is back; tell the user."
        )
    if error.errno == errno.E2BIG:
        return "The command and its environment are too long for the system. Write the data to a file first."
    return f"The command could not be started: {error}{f': {error.path}' if error.path else ''}"


def _output(params: BashParams, outcome: RunOutcome, shell_note: str) -> ToolOutput:
    shown = show_output(outcome.head, outcome.tail, outcome.total_bytes)
    notes = [describe_end(outcome, params.timeout_s)]
    if outcome.left_running:
        notes.append("a process it had left in the background was ended")
    if outcome.survivors:
        notes.append(f"{outcome.survivors} of its processes could not be ended")
    if shell_note:
        notes.append(shell_note)
    note = "; ".join(notes)
    details = CommandDetails(
        params.command,
        shown.text,
        outcome.exit_code if outcome.status == "exited" else None,
        outcome.duration_ms,
        outcome.status,
        note,
    )
    return ToolOutput(
        f"{shown.text or '(no output)'}\n[{note}]",
        details,
        spill_file=outcome.spill_file,
        spill_missing_bytes=outcome.spill_missing_bytes,
        is_error=outcome.status != "exited" or outcome.exit_code != 0,
    )

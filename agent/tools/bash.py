"""The `bash` tool: one command in a fresh shell, from the directory claw was started in, and what it said.

How processes are started and ended is agent/processes.py's business, what may run is the gate's.
"""

import errno
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from agent.processes import CommandNotStartedError, RunOutcome, SpawnerError
from agent.tools.base import Access, ToolContext, ToolError, ToolOutput, load_description
from agent.tools.details import CommandDetails
from agent.tools.terminal_text import show_output

DEFAULT_TIMEOUT_S = 120
MAX_TIMEOUT_S = 600
MAX_COMMAND_BYTES = 100_000
"""Linux takes 128 KiB for one argument."""
_BASH_PATHS = ("/bin/bash", "/usr/bin/bash")
_SH_PATHS = ("/bin/sh", "/usr/bin/sh")
_QUIET_BYTES = 2_000


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
        return Access("command", command.strip().split("\n", 1)[0], command=command)

    async def run(self, params: BashParams, context: ToolContext) -> ToolOutput:
        shell = self._find(context.spawner.environment)
        cwd = context.workspace.cwd
        try:
            outcome = await context.spawner.run(
                [*shell.argv, params.command], cwd=cwd, timeout_s=params.timeout_s, on_output=context.progress
            )
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


def describe_end(outcome: RunOutcome, timeout_s: int) -> str:
    """How a command ended, in a few words."""
    match outcome.status:
        case "timeout":
            hint = ""
            if outcome.total_bytes < _QUIET_BYTES:
                hint = " (if it waited for an answer: nothing can be typed here)"
            return f"timed out after {timeout_s} s and was ended with everything it had started{hint}"
        case "cancelled":
            return "cancelled"
        case "signal":
            return f"ended by {_signal_name(outcome.signal or 0)}"
        case "exited":
            return f"exit code {outcome.exit_code}{_exit_hint(outcome.exit_code or 0)}"


def _exit_hint(code: int) -> str:
    match code:
        case 126:
            return ": found, but it cannot be executed"
        case 127:
            return ": command not found"
        case _ if 128 < code <= 128 + 64:
            return f": ended by {_signal_name(code - 128)}"
        case _:
            return ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

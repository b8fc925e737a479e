"""Commands that the user types with `!`: run as they stand, without gate and sandbox, and told by tool events of the tool `!`.

What becomes of the output is the session's: here it is made the block that stands in the window. Decision: an interrupted
command keeps what it had said, and so does one whose start failed.
"""

import asyncio
import time
from itertools import count
from pathlib import Path

from agent.events import Emit, ToolFinished, ToolProgress, ToolStarted
from agent.processes import CommandNotStartedError, RunOutcome, Spawner, SpawnerError
from agent.tools.bash import Shell, find_shell
from agent.tools.details import CommandDetails
from agent.tools.endings import describe_end
from agent.tools.terminal_text import show_output
from agent.tools.truncate import cap_text
from agent.transcript import ShellBlock

TOOL = "!"
"""Stands where tool events name their tool."""
TIME_LIMIT_S = 24 * 3600
MOST_COMMAND_BYTES = 100_000
"""Linux takes 128 KiB for one argument."""
MOST_OUTPUT_CHARS = 32_000
"""What stands in the window; the middle of a longer output is left out."""
_KEPT_PARTIAL_CHARS = 64_000
_numbers = count(1)


async def run_user_command(command: str, spawner: Spawner, cwd: Path, emit: Emit) -> ShellBlock:
    """Run a command in the user's name; its output streams as events. Cancelled, it is ended and the block says so.

    It never raises for what the command does or is.
    """
    call_id = f"user-{next(_numbers)}"
    emit(ToolStarted(call_id, TOOL, command))
    begun = time.monotonic()
    partial = ""

    def progress(text: str) -> None:
        nonlocal partial
        partial = (partial + text)[-_KEPT_PARTIAL_CHARS:]
        emit(ToolProgress(call_id, text))

    outcome: RunOutcome | None = None
    problem = ""
    try:
        shell = _shell(command, spawner)
        outcome = await spawner.run([*shell.argv, command], cwd=cwd, timeout_s=TIME_LIMIT_S, on_output=progress)
        details = _details(command, outcome)
    except asyncio.CancelledError:
        data = partial.encode("utf-8", "replace")
        ran_ms = round((time.monotonic() - begun) * 1000)
        details = CommandDetails(
            command, show_output(data, b"", len(data)).text, None, ran_ms, "cancelled", note="interrupted"
        )
    except (CommandNotStartedError, SpawnerError, ValueError) as error:
        problem = str(error)
        details = CommandDetails(command, problem, None, 0, "cancelled", note="not run")
    block = ShellBlock(command, _shown(details))
    failed = outcome is None or outcome.status != "exited" or outcome.exit_code != 0
    emit(ToolFinished(call_id, TOOL, 0, failed, details, block.output))
    return block


def _shell(command: str, spawner: Spawner) -> Shell:
    """
    Raises:
        ValueError: it cannot be run; the text says why.
    """
    if "\0" in command:
        raise ValueError("The command has a NUL character in it, which no program can be given.")
    if len(command.encode("utf-8", "surrogatepass")) > MOST_COMMAND_BYTES:
        raise ValueError(f"The command is too long; at most {MOST_COMMAND_BYTES:,} bytes can be run.")
    shell = find_shell(spawner.environment.get("PATH", ""))
    if shell is None:
        raise ValueError("There is no bash and no sh on this machine, so no command can run.")
    return shell


def _details(command: str, outcome: RunOutcome) -> CommandDetails:
    shown = show_output(outcome.head, outcome.tail, outcome.total_bytes)
    exit_code = outcome.exit_code if outcome.status == "exited" else None
    note = describe_end(outcome, TIME_LIMIT_S)
    return CommandDetails(command, shown.text, exit_code, outcome.duration_ms, outcome.status, note)


def _shown(details: CommandDetails) -> str:
    capped = cap_text(details.output, MOST_OUTPUT_CHARS)
    text = capped.text(f"[… {capped.omitted_chars:,} characters left out …]") or "(no output)"
    return text if details.exit_code == 0 else f"{text}\n[{details.note}]"

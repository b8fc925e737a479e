"""Commands that the user types with `!`: run as they stand, without gate and sandbox, and told by tool events of the tool `!`.

The output goes with the next request; it makes nobody answer. Decision: an interrupted command keeps what it had said, and
one that could not start says why.
"""

import asyncio
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.events import Emit, ToolFinished, ToolProgress, ToolStarted
from agent.processes import CommandNotStartedError, RunOutcome, Spawner, SpawnerError
from agent.session_secrets import SessionSecrets
from agent.tools.bash import Shell, find_shell
from agent.tools.details import CommandDetails
from agent.tools.endings import describe_end
from agent.tools.terminal_text import show_output
from agent.tools.truncate import cap_text, newest
from agent.transcript import Payload, ShellBlock, User
from agent.user_input import UserInput

if TYPE_CHECKING:
    from agent.conversation import Conversation

TOOL, QUIET_TOOL = "!", "!!"
"""Stand where tool events name their tool; the second where the model is told nothing."""
TIME_LIMIT_S = 24 * 3600
MOST_COMMAND_BYTES = 100_000
"""Linux takes 128 KiB for one argument."""
MOST_OUTPUT_CHARS = 32_000
"""What stands in the window; the middle of a longer output is left out."""
_KEPT_PARTIAL_CHARS = 64_000
_numbers = count(1)


class UserShell:
    """Runs such commands for one session and takes what they said into its record."""

    def __init__(
        self,
        conversation: "Conversation",
        spawner: Spawner,
        cwd: Path,
        is_running: Callable[[], bool],
        take_opening: Callable[[], list[Payload]],
    ) -> None:
        """`is_running`: whether a turn is; `take_opening`: what stands before the first entry of this process, once."""
        self._talk = conversation
        self._spawner = spawner
        self._cwd = cwd
        self._is_running = is_running
        self._take_opening = take_opening
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, command: str, *, in_window: bool) -> None:
        """Run one to its end. Cancelling this ends the command, and is not raised again."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            tool = TOOL if in_window else QUIET_TOOL
            user = await run_user_command(command, self._spawner, self._cwd, self._talk.emit, self._talk.secrets, tool)
            if in_window:
                self._take_in(UserInput(f"! {command}", user))
        finally:
            self._tasks.discard(task)

    async def stop(self) -> None:
        """End all that run, and wait for it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _take_in(self, given: UserInput) -> None:
        """Append it; while a turn runs, behind its step. The model need not answer it."""
        if self._is_running():
            self._talk.enqueue(given, "quiet")
        else:
            self._talk.recorder.append(*self._take_opening(), given.user)
            self._talk.emit_gauge()


async def run_user_command(
    command: str, spawner: Spawner, cwd: Path, emit: Emit, secrets: SessionSecrets | None = None, tool: str = TOOL
) -> User:
    """Run a command in the user's name; its output streams as events. Cancelled, it is ended and the block says so.

    What it becomes is a message of one block, without secrets, those in the command included: nobody else has to run it.

    It never raises for what the command does or is.
    """
    call_id = f"user-{next(_numbers)}"
    emit(ToolStarted(call_id, tool, command))
    begun = time.monotonic()
    partial = ""

    def progress(text: str) -> None:
        nonlocal partial
        partial = newest(partial + text, _KEPT_PARTIAL_CHARS)
        emit(ToolProgress(call_id, text))

    outcome: RunOutcome | None = None
    problem = ""
    try:
        shell = _shell(command, spawner)
        outcome = await spawner.run([*shell.argv, command], cwd=cwd, timeout_s=TIME_LIMIT_S, on_output=progress)
        details = _details(command, outcome)
        if outcome.spill_file is not None:
            outcome.spill_file.unlink(missing_ok=True)
    except asyncio.CancelledError:
        data = partial.encode("utf-8", "replace")
        ran_ms = round((time.monotonic() - begun) * 1000)
        details = CommandDetails(
            command, show_output(data, b"", len(data)).text, None, ran_ms, "cancelled", note="interrupted"
        )
    except (CommandNotStartedError, SpawnerError, ValueError) as error:
        problem = str(error)
        details = CommandDetails(command, problem, None, 0, "cancelled", note="not run")
    secrets = secrets or SessionSecrets()
    user = secrets.user(User((ShellBlock(command, _shown(details)),)))
    (block,) = user.blocks
    assert isinstance(block, ShellBlock)
    failed = outcome is None or outcome.status != "exited" or outcome.exit_code != 0
    emit(ToolFinished(call_id, tool, 0, failed, secrets.details(details), block.output, len(user.redacted)))
    return user


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

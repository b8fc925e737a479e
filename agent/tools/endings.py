"""How a command ended, in words for the model."""

import signal

from agent.command_channel import RunOutcome
from agent.spawner.limits import FILE_BYTES

_QUIET_BYTES = 2_000


def describe_end(outcome: RunOutcome, timeout_s: int = 0) -> str:
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
            return f"ended by {_signal_text(outcome.signal or 0)}"
        case "exited":
            return f"exit code {outcome.exit_code}{_exit_hint(outcome.exit_code or 0)}"


def _exit_hint(code: int) -> str:
    match code:
        case 126:
            return ": found, but it cannot be executed"
        case 127:
            return ": command not found"
        case _ if 128 < code <= 128 + 64:
            return f": ended by {_signal_text(code - 128)}"
        case _:
            return ""


def _signal_text(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    if number == signal.SIGXFSZ:
        return (
            f"{name}, since a file would grow over {FILE_BYTES >> 30} GiB (`ulimit -Sf unlimited` in front allows it)"
        )
    return name

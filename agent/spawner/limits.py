"""How far a command may go by accident: how many processes it starts, how large a file it writes, and who goes first when
memory runs out.

Soft limits, which a command may raise itself (`ulimit -Sf unlimited`): they stop a mistake, not an attack. A lower limit
of the user's stands. Memory has none, since sanitizers, Java and Node reserve terabytes that they never use; instead the
kernel is told to end a command sooner than claw. Linux does not hold root to the number of processes.
"""

import contextlib
import resource

TYPE_CHECKING = False  # as in typing, whose import would be a tenth of the spawner's start-up time
if TYPE_CHECKING:
    from collections.abc import Iterator

MORE_PROCESSES = 4_096
"""Processes and threads of all commands of this user, beyond what the machine runs when the command starts."""
FILE_BYTES = 64 * 1024**3
_EXPENDABLE = 500
"""Counts as if the command used half of the memory besides what it uses."""
_SCORE = "/proc/self/oom_score_adj"


def limit_commands() -> None:
    """Limit this process and what it starts from now on. Where the system refuses, things stay as they are."""
    _lower(resource.RLIMIT_FSIZE, FILE_BYTES)
    if (running := _running()) is not None:
        _lower(resource.RLIMIT_NPROC, running + MORE_PROCESSES)


@contextlib.contextmanager
def expendable() -> "Iterator[None]":
    """What is started within is ended first when memory runs out."""
    before = _score()
    if before is not None and before < _EXPENDABLE:
        _set_score(_EXPENDABLE)
    try:
        yield
    finally:
        if before is not None:
            _set_score(before)


def _lower(kind: int, most: int) -> None:
    soft, hard = resource.getrlimit(kind)
    for bound in (soft, hard):
        if bound != resource.RLIM_INFINITY:
            most = min(most, bound)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(kind, (most, hard))


def _running() -> int | None:
    """Processes and threads on the whole machine, of whatever user; None where that cannot be seen."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return int(file.read().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return None


def _score() -> int | None:
    try:
        with open(_SCORE, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _set_score(value: int) -> None:
    with contextlib.suppress(OSError), open(_SCORE, "w", encoding="ascii") as file:
        file.write(str(value))

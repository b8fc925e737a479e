"""Whether the clock can be trusted with deleting: a clock that jumps a year ahead must not make every session old.

Decision: claw notes in the user's state file when it ran. Where it ran within the last week, and has done so for a day since
the clock last jumped, ages are believed. After a longer pause, which cannot be told from a jump, nothing is deleted for a day.
"""

from pathlib import Path

from agent.permissions.grants import State, edit_state

_DAY_S = 86_400
_LONGEST_PAUSE_S = 7 * _DAY_S
_TABLE = "retention"


def clock_is_steady(state_file: Path, now_s: float, newest_write_s: float) -> bool:
    """Note that claw runs now; says whether ages by this clock can be believed. Blocks.

    `newest_write_s`: of all sessions; it stands for a first note where there is none.

    Raises:
        StateError: it cannot be noted, so nothing is known.
    """
    steady = False

    def note(state: State) -> None:
        nonlocal steady
        table = state.get(_TABLE)
        known = table if isinstance(table, dict) else {}
        seen_s, since_s = known.get("seen_s"), known.get("since_s")
        if not (isinstance(seen_s, int) and isinstance(since_s, int)):
            seen_s, since_s = int(newest_write_s), 0
        if not (0 <= now_s - seen_s <= _LONGEST_PAUSE_S and since_s <= now_s):
            since_s = int(now_s)
        steady = now_s - since_s >= _DAY_S
        state[_TABLE] = {"seen_s": int(now_s), "since_s": since_s}

    edit_state(state_file, note)
    return steady

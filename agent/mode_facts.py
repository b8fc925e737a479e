"""What the model is told of the mode in force: when a mode that it must know of begins, again after some turns, and its end.

Pure. What was told is found in the window, so that after a compaction it is told again.
"""

from collections.abc import Sequence

from agent.prompt import load_prompt
from agent.transcript import Entry, Reminder, User

KIND = "mode"
TURNS_BETWEEN = 5
_TOLD_MODES = ("plan",)
"""Modes that the model behaves differently in. Each has a text for it and one for its end in prompts/."""


def mode_facts(mode: str, standing: Sequence[tuple[int, Reminder]], branch: Sequence[Entry]) -> list[Reminder]:
    """The reminder that goes with the next user message, if one is due; that message is not on the branch yet.

    `standing` are the reminders in the window with their keys, oldest first.
    """
    told = next(((key, reminder.text) for key, reminder in reversed(standing) if reminder.kind == KIND), None)
    if mode in _TOLD_MODES:
        text = load_prompt(f"mode_{mode}")
        if told is None or told[1] != text or _turns_since(told[0], branch) >= TURNS_BETWEEN:
            return [Reminder(KIND, text)]
        return []
    ended = {load_prompt(f"mode_{one}"): load_prompt(f"mode_{one}_over") for one in _TOLD_MODES}
    return [Reminder(KIND, ended[told[1]])] if told is not None and told[1] in ended else []


def _turns_since(key: int, branch: Sequence[Entry]) -> int:
    """How many turns began since the one that an entry was told in, the coming one included."""
    turns = 1
    for entry in reversed(branch):
        if entry.key < key:
            return turns
        if isinstance(entry.payload, User) and not entry.payload.synthetic:
            turns += 1
            if turns > TURNS_BETWEEN:
                return turns
    return turns

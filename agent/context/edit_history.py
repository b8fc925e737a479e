"""Which of the user's edits counts and is the newest, by the record: what an undo of the window takes back.

Decisions: what was undone is passed over, and so is an undo that only took something back; a restore and an unpin are edits
of their own. The record tells these apart only where a restore put something anew in front of its undo, so that whoever
asks says which undo entries it knows to be edits.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from msgspec import Struct

from agent.transcript import Clearing, Compaction, Drop, Entry, Pin, Undo, undone_keys

EditName = Literal["pin", "drop", "shortening", "restoring", "unpinning"]


class PastEdit(Struct, frozen=True):
    """An edit that can be taken back."""

    keys: tuple[int, ...]
    """The entries that it appended, as far as their undo takes it back."""
    name: EditName


def newest_edit(branch: Sequence[Entry], is_edit: Callable[[int], bool]) -> PastEdit | None:
    """The newest edit of the user that counts; `is_edit` says of an undo entry, by its key, whether it was one."""
    undone = undone_keys(branch)
    by_key = {entry.key: entry for entry in branch}
    for place in range(len(branch) - 1, -1, -1):
        entry = branch[place]
        if entry.key in undone:
            continue
        match entry.payload:
            case Pin():
                return PastEdit((entry.key,), "pin")
            case Drop():
                return PastEdit((entry.key,), "drop")
            case Clearing(reason="user"):
                return PastEdit((entry.key,), "shortening")
            case Undo(keys=keys):
                payloads = [by_key[key].payload for key in keys if key in by_key]
                rest = rest_before(branch, place)
                if not rest and (not is_edit(entry.key) or any(isinstance(p, Compaction) for p in payloads)):
                    continue
                is_pin = all(isinstance(payload, Pin) for payload in payloads)
                return PastEdit((entry.key, *rest), "unpinning" if is_pin else "restoring")
    return None


def rest_before(branch: Sequence[Entry], place: int) -> tuple[int, ...]:
    """Keys of the entries that a restore put in front of its undo, which stands at `place`; empty if it put none.

    Nothing else can stand there: what is dropped or shortened already is not dropped or shortened again.
    """
    undo = branch[place].payload
    assert isinstance(undo, Undo)
    undone = {entry.key: entry for entry in branch[:place] if entry.key in undo.keys}
    rest = []
    for entry in reversed(branch[:place]):
        if (
            not isinstance(entry.payload, Drop | Clearing)
            or entry.key in undone
            or not _repeats(entry, undone.values())
        ):
            break
        rest.append(entry.key)
    return tuple(reversed(rest))


def _repeats(entry: Entry, undone: Iterable[Entry]) -> bool:
    """Whether an edit does a part of what one of the undone did."""
    for other in undone:
        match entry.payload, other.payload:
            case Drop(keys=keys), Drop(keys=all_keys):
                if set(keys) < set(all_keys):
                    return True
            case Clearing(items=items), Clearing(items=all_items):
                if entry.payload.reason == other.payload.reason and set(items) < set(all_items):
                    return True
    return False

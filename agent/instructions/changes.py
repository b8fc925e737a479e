"""Which instruction files are different now from what a session was given at its start, and how the model is told.

A file counts with everything it includes. Texts of config.toml hold for a session as they were when it started.
"""

from collections.abc import Iterable, Sequence

from agent.config.reading import printable
from agent.instructions.item import CONFIG_PATH, InstructionItem, digest
from agent.instructions.loader import INCLUDED, tagged
from agent.transcript import InstructionFile, Reminder


def changed_paths(recorded: Sequence[InstructionFile], items: Sequence[InstructionItem]) -> tuple[str, ...]:
    """The files that differ from a prefix's, came or went since; in the order of the prefix, new ones last.

    One file may stand in several sections; the order of these does not count.
    """
    before: dict[str, set[str]] = {}
    for file in recorded:
        if file.reason != INCLUDED:  # it counts with the file that includes it
            before.setdefault(file.path, set()).add(file.sha256)
    now: dict[str, set[str]] = {}
    for item in items:
        if item.is_loaded:
            now.setdefault(item.path, set()).add(digest(item))
    paths = dict.fromkeys((*before, *now))
    return tuple(path for path in paths if path != CONFIG_PATH and before.get(path) != now.get(path))


def instruction_changes(
    recorded: Sequence[InstructionFile], items: Sequence[InstructionItem], previous: Iterable[Reminder]
) -> list[Reminder]:
    """A reminder for each instruction file that differs from the prefix, with its whole new text, unless it was told already.

    `recorded` are the files of the prefix in force, `items` what is found now, `previous` the reminders still in the window.
    """
    told = {r.text.split("\n", 1)[0]: r.text for r in previous if r.kind == "instructions"}
    now: dict[str, list[str]] = {}
    for item in items:
        if item.is_loaded and item.path != CONFIG_PATH:
            now.setdefault(item.path, []).append(item.text)
    changed = set(changed_paths(recorded, items))
    changes: list[Reminder] = []
    before = [file.path for file in recorded if file.path != CONFIG_PATH and file.reason != INCLUDED]
    for path in dict.fromkeys((*before, *now)):
        head = f"The instruction file {printable(path)} is not as it was when this session started."
        if path not in changed and head not in told:
            continue
        if path not in now:
            text = f"{head}\nIt is gone: what it said does not hold any more."
        else:
            whole = tagged(printable(path), "\n\n".join(now[path]))
            text = f"{head}\nThis replaces what it said before:\n{whole}"
        if told.get(head) != text:
            changes.append(Reminder("instructions", text))
    return changes

"""The instructions of one open session at work: told when their place is touched, told again when they changed, reported,
and read anew when the user asks for it. It appends to the record; what is told and how is decided in `surfaced.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agent.events import Notice
from agent.instructions import surfaced
from agent.instructions.changes import changed_paths
from agent.instructions.item import InstructionItem
from agent.instructions.nested import folders_of
from agent.instructions.on_disk import InstructionsOnDisk
from agent.instructions.report import InstructionsReport, as_conditional
from agent.instructions.rules import matches
from agent.permissions.path_text import path_key
from agent.transcript import Prefix, Reminder

if TYPE_CHECKING:  # imported when a report is asked for
    from agent.conversation import Conversation
    from agent.instructions.project_files import Survey


_MOST_ENTRIES, _MOST_S = 5_000, 0.3
"""A screen waits for the report."""


class InstructionsInForce:
    """Belongs to one conversation; all methods are called in its event loop."""

    def __init__(self, disk: InstructionsOnDisk, conversation: "Conversation") -> None:
        self.disk = disk
        self._talk = conversation
        self._standing = surfaced.Standing()
        self._touched: dict[Path, None] = {}
        """Folders that were touched since the session was opened, for the report."""
        self._left = surfaced.MAX_A_TURN
        self._left_bytes = surfaced.turn_bytes(None)
        self._told_waiting = False

    # ------------------------------------------------------------------ telling

    def new_turn(self) -> list[Reminder]:
        """Begin a turn; what stands in the window and is different on disk now is told with the user's message."""
        self._left = surfaced.MAX_A_TURN
        self._left_bytes = surfaced.turn_bytes(self.disk.effective_window_tokens)
        self._told_waiting = False
        self.disk.recheck()
        told = self._look()
        reminders: list[Reminder] = []
        for first, text in told.items():
            if not (path := surfaced.path_of(first)):
                continue
            item = self._current(first, Path(path))
            if item is None and "\\" in path:
                continue  # its name cannot be told from how it is written, so nothing is claimed of it
            if not surfaced.is_as_told(text, item):
                reminders.append(surfaced.gone(first) if item is None else surfaced.changed(item))
        return reminders

    def _current(self, first_line: str, path: Path) -> InstructionItem | None:
        """The item as it is now; it may have come into the prefix since, when a session went on in another folder."""
        nested = (item for folder in folders_of(path, self.disk.place) for item in self.disk.nested(folder))
        for item in (*self.disk.items(), *nested):
            if item.status != "skipped" and surfaced.head(item) == first_line:
                return item
        return None

    def surface(self, touched: Iterable[Path]) -> None:
        """Tell what holds for the touched paths and does not stand in the window: append it behind the newest results."""
        paths = tuple(dict.fromkeys(touched))
        if not paths or not self._left:
            return
        candidates = self._candidates(paths)
        if not candidates:
            return
        told = self._look()
        known = {item.text for item in self.disk.items() if item.is_loaded}
        selection = surfaced.select(
            [item for item in candidates if item.text not in known], told, self._is_read, self._left, self._left_bytes
        )
        if selection.reminders:
            self._left -= len(selection.reminders)
            self._left_bytes -= sum(len(reminder.text.encode("utf-8", "replace")) for reminder in selection.reminders)
            self._talk.recorder.append(*selection.reminders)
        if selection.waiting and not self._told_waiting:
            self._told_waiting = True
            names = ", ".join(dict.fromkeys(selection.waiting))
            text = f"More instructions hold here than are told in one turn: {names}."
            self._talk.emit(Notice("info", text, "They are told when their place is touched in a later turn."))

    def _candidates(self, paths: Iterable[Path]) -> list[InstructionItem]:
        found: dict[str, InstructionItem] = {}
        rules = [item for item in self.disk.items() if item.status == "conditional"]
        for path in paths:
            folders = folders_of(path, self.disk.place)
            here = [item for folder in folders for item in self.disk.nested(folder) if item.status != "skipped"]
            self._touched.update(dict.fromkeys(folders))
            found.update((surfaced.head(item), item) for item in (*rules, *here) if matches(item, path))
        return list(found.values())

    def _look(self) -> Mapping[str, str]:
        recorder = self._talk.recorder
        self._standing.look(recorder.window, recorder.transcript.get)
        return self._standing.told

    def _is_read(self, item: InstructionItem) -> bool:
        """Whether the model has read the file itself, all of it, and still sees it. What it includes stands elsewhere."""
        return not item.includes and self._standing.read.get(path_key(item.path)) == item.sha256

    # ------------------------------------------------------------------ for the user

    def report(self) -> InstructionsReport:
        """What is loaded, skipped, conditional and active now, what is wrong with it, and what changed on disk."""
        from agent.instructions.lint import lint

        self.disk.recheck()
        items = self.disk.items()
        told = self._look()
        places = [Path(path) for first in told if (path := surfaced.path_of(first))]
        folders = dict.fromkeys((*(f for path in places for f in folders_of(path, self.disk.place)), *self._touched))
        nested = [(item, folder) for folder in folders for item in self.disk.nested(folder)]
        sources = self.disk.system_files().sources
        everything = (*sources, *items, *(as_conditional(item, folder) for item, folder in nested))
        heads = [surfaced.head(item) for item in (*sources, *items, *(item for item, _ in nested))]
        recorder = self._talk.recorder
        recorded = recorder.window.prefix.instruction_files
        return InstructionsReport(
            everything,
            tuple(recorder.meter.count(item.text) for item in everything),
            lint(
                everything[len(sources) :],
                self.disk.place,
                self.disk.config,
                self._survey(everything),
                matching_s=_MOST_S,
            ),
            changed_paths(recorded, items) if recorder.window.prefix.sections else (),
            tuple(place for place, first in enumerate(heads) if first in told),
        )

    def _survey(self, items: Sequence[InstructionItem]) -> "Survey":
        """A short look at the project's files, which the screen waits for, where a rule has a condition."""
        from agent.instructions.project_files import Survey, survey

        if not any(item.patterns for item in items):
            return Survey()
        return survey(self.disk.place.project, most=_MOST_ENTRIES, seconds=_MOST_S)

    def reload(self) -> str:
        """Read the instruction files anew and put them in force; one line of what happened and what it costs.

        Before the first message nothing was sent, so that it is free; after it the prompt cache is lost.
        """
        talk = self._talk
        self.disk.forget()
        window = talk.recorder.window
        if not window.prefix.sections:
            talk.look_again()
            talk.emit_gauge()
            return (
                f"The instructions are read anew: {_count(self.disk.items())}. Nothing was sent yet, so this is free."
            )
        changed = changed_paths(window.prefix.instruction_files, self.disk.items())
        prefix = talk.make_prefix()
        if _without_counts(prefix) == _without_counts(window.prefix):
            return "Nothing of the instructions has changed, so nothing is sent anew and the prompt cache is kept."
        talk.recorder.append(prefix)
        talk.emit_gauge()
        used = talk.recorder.meter.used().tokens
        names = f" Changed: {', '.join(changed)}." if changed else ""
        return (
            f"The instructions are read anew: {_count(self.disk.items())}.{names} "
            f"The prompt cache is lost: the next request sends about {used:,} tokens anew."
        )


def _without_counts(prefix: Prefix) -> Prefix:
    """Tokens are estimated until the tokenizer is there, so a later count says nothing of a change."""
    return replace(prefix, instruction_files=tuple(replace(file, tokens=0) for file in prefix.instruction_files))


def _count(items: tuple[InstructionItem, ...]) -> str:
    loaded = sum(item.is_loaded for item in items)
    return f"{loaded:,} file{'' if loaded == 1 else 's'} in force"

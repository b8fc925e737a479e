"""Instructions that are told in the middle of a session: how they look, which are chosen, and which stand in the window.

Pure but for the incremental index. What was told is not remembered but found in the window, so that a compaction, drop or
rewind that removed it resets it by itself, and it is told again when its place is touched the next time.

Decisions: the limits (K16) bind the whole text of a reminder. Together the reminders of a turn take at most half a byte for
each token of the effective window, an eighth of it, so that a small window is not filled by them; where there are too many,
the most specific ones are told and the others wait for the next turn.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from agent.config.reading import printable
from agent.instructions.item import InstructionItem
from agent.instructions.loader import tagged
from agent.transcript import Entry, Reminder, Result
from agent.window import Window
from providers.types import TextBlock, ToolResultMessage

KIND = "instructions"
MAX_LINES = 200
MAX_BYTES = 4_096
MAX_A_TURN = 5
LEAST_BYTES = 512
"""With less room than that nothing useful can be said."""
_BEGIN = "Instructions of "
_CHANGED = "It has changed on disk. This replaces what it said before:"
_UNCHANGED = "[Unchanged since"
_GONE = "It is gone: what it said does not hold any more."


def turn_bytes(effective_window_tokens: int | None) -> int:
    """How much may be told in one turn, in bytes of UTF-8."""
    most = MAX_A_TURN * MAX_BYTES
    return most if effective_window_tokens is None else min(most, effective_window_tokens // 2)


def head(item: InstructionItem) -> str:
    """The first line of an item's reminder: what tells one item from all others."""
    line = f", from line {item.line}," if item.line > 1 else ""
    scope = f"they hold for {printable(item.condition)}" if item.condition else "they hold for the files of its folder"
    return f"{_BEGIN}{printable(item.path)}{line} ({scope}):"


def render(item: InstructionItem, max_bytes: int = MAX_BYTES, *, is_new: bool = True) -> str:
    """The text of an item's reminder within the limits; a text that was cut names the file and says to read it."""
    first = head(item) if is_new else f"{head(item)}\n{_CHANGED}"
    path = printable(item.path)
    whole = f"{first}\n{tagged(path, item.text)}"
    if _fits(whole, max_bytes):
        return whole
    note = _note(item)
    lines = item.text.split("\n")[: MAX_LINES - first.count("\n") - 4]
    room = max_bytes - len(f"{first}\n{tagged(path, '')}\n{note}".encode())
    kept = _cut("\n".join(lines), room)
    while kept and not _fits(text := f"{first}\n{tagged(path, kept + chr(10) + note)}", max_bytes):
        kept = _cut(kept, len(kept.encode()) - (len(text.encode()) - max_bytes))  # the tag was escaped in it
    return f"{first}\n{tagged(path, f'{kept}{chr(10)}{note}' if kept else note)}"


def changed(item: InstructionItem) -> Reminder:
    """What is told of an item that stands in the window with another text."""
    return Reminder(KIND, render(item, is_new=False))


def gone(first_line: str) -> Reminder:
    """What is told of an item that stands in the window and does not hold any more."""
    return Reminder(KIND, f"{first_line}\n{_GONE}")


def path_of(first_line: str) -> str:
    """The path, as `head` wrote it, in the first line of a reminder; empty if it is none of this kind."""
    if not first_line.startswith(_BEGIN):
        return ""
    path = first_line.removeprefix(_BEGIN).rpartition(" (they hold for ")[0]
    before, comma, line = path.removesuffix(",").rpartition(", from line ")
    return before if comma and line.isdecimal() else path


def is_as_told(text: str, item: InstructionItem | None) -> bool:
    """Whether a reminder's text says what the item says now, as far as it was told; None: the item does not hold any more."""
    at = text.find("\n<project_instructions ")
    if item is None or at < 0:
        return item is None and at < 0
    told, whole = text[at + 1 :], tagged(printable(item.path), item.text)
    return told == whole or whole.startswith(told.partition(f"\n{_note(item)}")[0])


def _note(item: InstructionItem) -> str:
    return f"[Cut here. Read {printable(item.path)} for the rest before you work on what it holds for.]"


class Selection(Struct, frozen=True):
    reminders: tuple[Reminder, ...]
    waiting: tuple[str, ...] = ()
    """Paths of what would have been told too, had there been room in this turn."""


def select(
    candidates: Sequence[InstructionItem],
    standing: Mapping[str, str],
    is_read: Callable[[InstructionItem], bool],
    most: int = MAX_A_TURN,
    max_bytes: int = MAX_A_TURN * MAX_BYTES,
) -> Selection:
    """The reminders for `candidates`, which are given from the most general to the most specific one, in that order.

    Left out is what stands in the window (`standing`, by first line) and what the model has read itself (`is_read`).
    At most `most` are told, with `max_bytes` together; the most specific ones go first.
    """
    by_head = {head(item): item for item in candidates}
    new = [item for first, item in by_head.items() if first not in standing and not is_read(item)]
    chosen: list[Reminder] = []
    waiting: list[str] = []
    for item in reversed(new):
        room = min(MAX_BYTES, max_bytes)
        if len(chosen) == most or room < LEAST_BYTES:
            waiting.append(item.path)
            continue
        text = render(item, room)
        max_bytes -= len(text.encode("utf-8", "replace"))
        chosen.append(Reminder(KIND, text))
    return Selection(tuple(reversed(chosen)), tuple(reversed(waiting)))


class Standing:
    """What of instructions stands in the window: those that were told, and instruction files that the model has read.

    Looking again costs what is new, and the whole window only after something broke the prefix.
    """

    def __init__(self) -> None:
        self.told: dict[str, str] = {}
        """First line → whole text of the newest reminder with it, oldest first line first."""
        self.read: dict[str, str] = {}
        """Path, as file facts write it → sha256 of the newest content that stands there whole."""
        self._generation = -1
        self._messages = 0

    def look(self, window: Window, entry_of: Callable[[int], Entry | None]) -> None:
        """Bring it up to date with the window."""
        if window.generation != self._generation:
            self.told, self.read = {}, {}
            self._generation, self._messages = window.generation, 0
        for index in range(self._messages, len(window.messages)):
            for place, key in enumerate(window.keys[index]):
                if (entry := entry_of(key)) is not None:
                    self._note(entry, window, index, is_own=place == 0)
        self._messages = min(window.stable, len(window.messages))

    def _note(self, entry: Entry, window: Window, index: int, *, is_own: bool) -> None:
        payload = entry.payload
        if isinstance(payload, Reminder) and payload.kind == KIND:
            self.told[payload.text.split("\n", 1)[0]] = payload.text
        elif is_own and isinstance(payload, Result) and payload.files:
            message, own = window.messages[index], payload.blocks[0]
            # A result that was cleared has another block in its place; an answer that nothing changed shows nothing.
            is_shown = isinstance(message, ToolResultMessage) and message.blocks[0] is own
            if is_shown and not (isinstance(own, TextBlock) and own.text.startswith(_UNCHANGED)):
                self.read.update({fact.path: fact.sha256 for fact in payload.files if fact.whole})


def _fits(text: str, max_bytes: int) -> bool:
    return len(text.encode("utf-8", "replace")) <= max_bytes and text.count("\n") < MAX_LINES


def _cut(text: str, max_bytes: int) -> str:
    """The first lines of `text` within `max_bytes`; part of a line only if not even one fits."""
    kept = text.encode("utf-8", "replace")[: max(0, max_bytes)]
    if len(kept) == len(text.encode("utf-8", "replace")):
        return text
    end = kept.rfind(b"\n")
    return kept[: end if end > 0 else len(kept)].decode("utf-8", "ignore").rstrip()

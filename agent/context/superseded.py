"""What of the window's results still shows a file as it is, and which copies a later call has made old.

Pure functions of entries, and one look-up that follows a live window. What a read shows is taken from its own text, since
a fact says what the model knows of a file altogether. Decisions: a read is superseded by a later one of the same file that
shows at least its lines, and by an edit or write that follows it; a copy that was cut where it was recorded shows nothing whole.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from agent.transcript import Entry, FileFact, Result, Transcript
from agent.window import Window
from agent.window_blocks import visible
from providers.types import TextBlock, ToolResultMessage

_NUMBERED = re.compile(r"(\d+)\t")
_LINES_NOTE = re.compile(r"\[(?:.*; )?(?:lines [\d,]+-[\d,]+ of|cut at )")
_LINES_OF = re.compile(r" \((?:lines \d+-\d+|from line \d+)\)$")
_EMPTY = re.compile(r"\[.* is empty\]")


class Shown(Struct, frozen=True):
    """The lines of a file that one result shows, 1-based, both included; an empty file has (1, 0)."""

    path: str
    sha256: str
    first: int
    last: int
    whole: bool
    """All of the file, every line uncut."""


class Superseded(Struct, frozen=True):
    """A read whose file a later result shows anew, or has changed."""

    key: int
    newer: int
    """Key of that result."""
    name: str
    """The file as the model named it, relative to the workspace where it lies in it."""
    changed: bool
    """The later result changed the file; else it shows it."""


def shown_by(result: Result) -> Shown | None:
    """What of a file a `read` shows; None for any other result, and for one that was cut where it was recorded."""
    if result.tool != "read" or result.is_error or result.spill is not None or len(result.files) != 1:
        return None
    texts = [block.text for block in result.blocks if isinstance(block, TextBlock)]
    if len(texts) != 1 or len(result.blocks) != 1 or result.files[0].change != "read":
        return None
    return _shown(result.files[0], texts[0])


def _shown(fact: FileFact, text: str) -> Shown | None:
    start = _NUMBERED.match(text)
    if start is None:
        return Shown(fact.path, fact.sha256, 1, 0, True) if _EMPTY.fullmatch(text) else None
    lines_end, _, note = text.rpartition("\n")
    cut = _LINES_NOTE.match(note) is not None
    last_line = note
    if note.startswith("[") and lines_end:
        last_line = lines_end.rpartition("\n")[2]
    end = _NUMBERED.match(last_line)
    if end is None:
        return None
    return Shown(fact.path, fact.sha256, int(start[1]), int(end[1]), int(start[1]) == 1 and not cut)


def superseded(entries: Sequence[Entry]) -> list[Superseded]:
    """The reads among these entries, oldest first, that a later one of them has superseded, oldest first."""
    found: list[Superseded] = []
    changed: dict[str, int] = {}
    newer: dict[str, list[tuple[Shown, int]]] = {}
    for entry in reversed(entries):
        result = entry.payload
        if not isinstance(result, Result) or result.is_error:
            continue
        if (shown := shown_by(result)) is not None:
            covering = next((key for later, key in newer.get(shown.path, ()) if _covers(later, shown)), None)
            if covering is not None:
                found.append(Superseded(entry.key, covering, _name(result, shown), False))
            elif shown.path in changed:
                found.append(Superseded(entry.key, changed[shown.path], _name(result, shown), True))
            else:
                newer.setdefault(shown.path, []).append((shown, entry.key))
        for fact in result.files:
            if fact.change != "read":
                changed.setdefault(fact.path, entry.key)
    found.reverse()
    return found


def _name(result: Result, shown: Shown) -> str:
    return _LINES_OF.sub("", result.title) or shown.path


def _covers(later: Shown, earlier: Shown) -> bool:
    return later.whole or (later.first <= earlier.first and earlier.last <= later.last)


def results_in(
    window: Window, entry_of: Callable[[int], Entry | None], start: int = 0
) -> Iterator[tuple[int, Entry, Result]]:
    """(place, entry, its payload) of each result from message `start` on that stands in the window with all its content."""
    for index in range(start, len(window.messages)):
        message, keys = window.messages[index], window.keys[index]
        if not isinstance(message, ToolResultMessage) or not keys:
            continue
        entry = entry_of(keys[0])
        if entry is not None and isinstance(entry.payload, Result) and stands_whole(message, entry.payload):
            yield index, entry, entry.payload


class ByKey:
    """Looks up entries of a branch by their keys; costs nothing to make, however long the branch is."""

    def __init__(self, branch: Sequence[Entry]) -> None:
        self._branch = branch

    def get(self, key: int) -> Entry | None:
        place = bisect_left(self._branch, key, key=lambda entry: entry.key)
        found = self._branch[place] if place < len(self._branch) else None
        return found if found is not None and found.key == key else None

    def __getitem__(self, key: int) -> Entry:
        if (entry := self.get(key)) is None:
            raise KeyError(key)
        return entry


def superseded_text(copy: Superseded) -> str:
    """What stands instead of a copy that a later result has made old."""
    if copy.changed:
        return f"[Superseded: {copy.name} was changed later, by entry {copy.newer}]"
    return f"[Superseded: entry {copy.newer} has a newer copy of {copy.name}]"


def stands_whole(message: ToolResultMessage, result: Result) -> bool:
    """Whether the message holds the result's own content, and not a text that stands instead."""
    own = visible(result.blocks)
    return message.blocks[: len(own)] == own


class ShownFiles:
    """Finds the result in a live window that shows the whole of a file. Each look costs what came since the last one."""

    def __init__(self, transcript: Transcript, window: Window) -> None:
        self._transcript = transcript
        self._window = window
        self._generation = -1
        self._place = 0
        self._whole: dict[tuple[str, str], int] = {}

    def whole(self, path: str, sha256: str) -> int | None:
        """Key of the newest result that shows all of the file `path` (real) with this content; None if none stands there."""
        self._follow()
        found = self._whole.get((path, sha256))
        for _, entry, result in results_in(self._window, self._transcript.get, self._place):
            shown = shown_by(result)
            if shown is not None and shown.whole and (shown.path, shown.sha256) == (path, sha256):
                found = entry.key
        return found

    def _follow(self) -> None:
        window = self._window
        if window.generation != self._generation:
            self._generation, self._place, self._whole = window.generation, 0, {}
        for index, entry, result in results_in(window, self._transcript.get, self._place):
            if index >= window.stable:
                break
            shown = shown_by(result)
            if shown is not None and shown.whole:
                self._whole[shown.path, shown.sha256] = entry.key
        self._place = window.stable

"""One instruction file, or one text from config.toml, as it was found: the value that discovery makes and others read."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from agent.config.reading import printable

ItemLayer = Literal["managed", "user", "project", "local", "config"]
CONFIG_PATH = "config"
"""The `path` of text that stands in config.toml."""


class Include(Struct, frozen=True):
    """One `@path` in an instruction file, and what became of it."""

    written: str
    """As it stands in the file."""
    line: int
    """In the file as it is on disk, 1-based."""
    path: str = ""
    """Absolute; empty where it names no path."""
    status: Literal["followed", "refused", "asks"] = "followed"
    """`asks`: it leaves the workspace and the user has not decided yet."""
    reason: str = ""
    """Why it was refused, in words that say what to do; of a followed one, why its text does not stand here again."""
    sha256: str = ""
    """Of the included file's bytes; empty where it was not read for this place."""
    chars: int = 0
    hidden: dict[str, int] = msgspec.field(default_factory=dict)
    """Characters removed from it because they cannot be seen, by kind."""
    includes: tuple["Include", ...] = ()


class Flaw(Struct, frozen=True):
    """Something in a file that its author should correct; the file is used all the same."""

    line: int
    message: str


class InstructionItem(Struct, frozen=True):
    path: str
    """Absolute, or "config"."""
    layer: ItemLayer
    reason: str
    """Why it was looked at, for instance "in the project"."""
    status: Literal["loaded", "skipped", "conditional"] = "loaded"
    """`conditional`: its text is sent when a tool first touches a path that the condition names."""
    skipped_because: str = ""
    is_trouble: bool = False
    """Skipped for a reason that its author will not expect."""
    text: str = ""
    """What the model gets: decoded, cleaned and cut; empty where it was skipped."""
    sha256: str = ""
    """Of the bytes read, of the first MiB in a larger file; it tells whether the file changed."""
    chars: int = 0
    """Of the cleaned text before it was cut."""
    cut_chars: int = 0
    """Left out because of a cap; of a file beyond 1 MiB its unread bytes are counted too."""
    hidden: dict[str, int] = msgspec.field(default_factory=dict)
    """Characters removed because they cannot be seen, by kind."""
    duplicates: tuple[str, ...] = ()
    """Other files found with the same content."""
    includes: tuple[Include, ...] = ()
    """In the order of their lines; what was followed stands in `text`."""
    line: int = 1
    """Where the text begins in its file: one file may hold several sections, each with a condition of its own."""
    condition: str = ""
    """As it is written, for people; empty: it always holds."""
    patterns: tuple[str, ...] = ()
    """Of the condition: gitignore patterns relative to `base`."""
    base: str = ""
    flaws: tuple[Flaw, ...] = ()

    @property
    def is_loaded(self) -> bool:
        return self.status == "loaded"


def skipped(item: InstructionItem, why: str, *, is_trouble: bool = False) -> InstructionItem:
    """The item as one that is not loaded."""
    return msgspec.structs.replace(
        item, status="skipped", skipped_because=why, text="", cut_chars=0, is_trouble=is_trouble
    )


def digest(item: InstructionItem) -> str:
    """The hash of a file's bytes; where it includes others, one over all of them and what became of them."""
    included = [f"{include.path}\0{include.status}\0{include.sha256}" for _, include in all_includes(item)]
    if not included:
        return item.sha256
    return hashlib.sha256("\n".join((item.sha256, *included)).encode("utf-8", "backslashreplace")).hexdigest()


MOST_LINES = 8
"""Warnings about the includes of one file; more are counted."""


def warnings(items: Sequence[InstructionItem]) -> tuple[str, ...]:
    """What a user should know: files that could not be used, cuts, hidden characters, refused includes, flaws.

    One line each, safe to draw.
    """
    lines: list[str] = []
    for item in items:
        if item.is_trouble:
            lines.append(f"{item.path} was not loaded: {item.skipped_because}")
        if item.cut_chars:
            lines.append(f"{item.path}: {item.cut_chars:,} characters were cut off")
        lines += [f"{item.path}:{flaw.line}: {flaw.message}" for flaw in item.flaws]
        refused = []
        for file, include in all_includes(item):
            if include.status != "followed":
                refused.append(f"{file}:{include.line}: {include.written} was not included: {include.reason}")
            lines += _hidden(include.path, include.hidden)
        lines += refused[:MOST_LINES]
        if len(refused) > MOST_LINES:
            lines.append(f"{item.path}: {len(refused) - MOST_LINES} more were not included")
        lines += _hidden(item.path, item.hidden)
    return tuple(printable(line) for line in dict.fromkeys(lines))


def all_includes(item: InstructionItem) -> Iterator[tuple[str, Include]]:
    """Every include of an item and of what it includes, each with the file it stands in; in the order of the text."""
    yield from _walk(item.path, item.includes)


def _walk(file: str, includes: Sequence[Include]) -> Iterator[tuple[str, Include]]:
    for include in includes:
        yield file, include
        yield from _walk(include.path, include.includes)


def _hidden(path: str, hidden: dict[str, int]) -> list[str]:
    if not hidden:
        return []
    counts = ", ".join(f"{count} {kind}" for kind, count in hidden.items())
    return [f"{path}: hidden characters were removed ({counts}); look at where the file comes from"]

"""One instruction file, or one text from config.toml, as it was found: the value that discovery makes and others read."""

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
    """Why it was refused, in words that say what to do."""
    sha256: str = ""
    """Of the included file's bytes."""
    chars: int = 0
    includes: tuple["Include", ...] = ()


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

    @property
    def is_loaded(self) -> bool:
        return self.status == "loaded"


def warnings(items: tuple[InstructionItem, ...]) -> tuple[str, ...]:
    """What a user should know: files that could not be used, cuts, and hidden characters. One line each, safe to draw."""
    lines: list[str] = []
    for item in items:
        if item.is_trouble:
            lines.append(f"{item.path} was not loaded: {item.skipped_because}")
        if item.cut_chars:
            lines.append(f"{item.path}: {item.cut_chars:,} characters were cut off")
        if item.hidden:
            counts = ", ".join(f"{count} {kind}" for kind, count in item.hidden.items())
            lines.append(f"{item.path}: hidden characters were removed ({counts}); look at where the file comes from")
    return tuple(map(printable, lines))

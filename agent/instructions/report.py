"""What is known of the instructions of a session at one moment, as plain values for the screen and the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from agent.instructions.item import InstructionItem

FindingKind = Literal[
    "dead_include",
    "include_refused",
    "include_asks",
    "cycle",
    "unknown_variable",
    "bad_frontmatter",
    "never_matches",
    "cannot_tell",
    "contradiction",
    "too_long",
    "unusable",
    "hidden",
]
Severity = Literal["error", "warning", "info"]


class Finding(Struct, frozen=True):
    """Something about an instruction file that its author should know."""

    path: str
    line: int
    """1-based, in the file as it is on disk; 0: the whole file."""
    kind: FindingKind
    severity: Severity
    message: str
    """What is wrong and what would help, in one line. Foreign text in it is not cleaned."""


class InstructionsReport(Struct, frozen=True):
    items: tuple[InstructionItem, ...]
    """In the order in which the model gets them, then those of folders that were touched."""
    tokens: tuple[int, ...]
    """Of each item's text."""
    findings: tuple[Finding, ...] = ()
    changed: tuple[str, ...] = ()
    """Paths of files that differ on disk from what the session was given at its start."""
    told: tuple[int, ...] = ()
    """Places of the conditional items that stand in the window now."""

    def is_active(self, place: int) -> bool:
        """Whether the item's text is in force now."""
        return self.items[place].is_loaded or place in self.told


def as_conditional(item: InstructionItem, folder: Path) -> InstructionItem:
    """An item of a folder that is not read at the start: it waits for a path in that folder to be touched."""
    if not item.is_loaded:
        return item
    return replace(item, status="conditional", condition=item.condition or f"paths in {folder}")


def has_errors(findings: Sequence[Finding]) -> bool:
    return any(finding.severity == "error" for finding in findings)

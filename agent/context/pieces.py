"""The parts of a window one by one, as they are shown and edited, and what an edit would do: values alone."""

from typing import Literal

from msgspec import Struct

from agent.context.breakdown import PartKind
from agent.transcript import Payload

Action = Literal["pin", "unpin", "drop", "shorten", "restore"]


class Piece(Struct, frozen=True):
    """One part: a prompt section, a tool, an instruction file, or what one entry has in the window."""

    kind: PartKind
    name: str
    """The section, the tool (of a result with its file), or the instruction file's path; else empty."""
    detail: str
    """One line of foreign text: a path, a command, the first words."""
    tokens: int
    """0 for what was dropped."""
    keys: tuple[int, ...] = ()
    """Entries it was made of; empty for what stands before the messages."""
    time_ms: int | None = None
    """Wall clock of its entry."""
    origin: str = ""
    """Where it came from, in a few words."""
    state: Literal["whole", "shortened", "dropped"] = "whole"
    is_pinned: bool = False
    actions: tuple[Action, ...] = ()


class Edit(Struct, frozen=True):
    """What an action would append, and what that means. Nothing is done yet."""

    action: Action
    payloads: tuple[Payload, ...]
    keys: tuple[int, ...]
    """All entries that move together: a call with its result."""
    head: int
    """The transcript's head that this was worked out for; if it moved on, work it out anew."""
    freed_tokens: int = 0
    """Negative where the window grows."""
    cache_lost_tokens: int = 0
    """Tokens behind the first change, which the provider's cache no longer covers."""
    cost_usd: float | None = None
    """Of sending these anew; None while no price is known."""
    note: str = ""
    """For instance that it takes effect at the next compaction."""


class Refused(Struct, frozen=True):
    reason: str


class ChartPoint(Struct, frozen=True):
    """The gauge at one moment of the session."""

    key: int
    used_tokens: int
    event: Literal["step", "compaction", "clearing", "edit", "undo"] = "step"

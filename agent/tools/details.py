"""What a tool result shows on the screen. It is kept in the transcript and never sent to a model."""

from typing import Literal

from msgspec import Struct


class TextDetails(Struct, frozen=True, tag="text"):
    """A short line for the card's title, and optionally text to unfold."""

    summary: str
    text: str = ""


class DiffDetails(Struct, frozen=True, tag="diff"):
    path: str
    """As shown: relative to the workspace where it lies in it."""
    diff: str
    """Unified diff without file headers."""
    added: int
    removed: int
    note: str = ""
    """For instance that a match was tolerant of white space."""


class CommandDetails(Struct, frozen=True, tag="command"):
    command: str
    output: str
    """Head and tail as the model saw them."""
    exit_code: int | None
    """None: ended by a signal, a time-out or a cancellation; `status` says which."""
    duration_ms: int
    status: Literal["exited", "signal", "timeout", "cancelled"] = "exited"
    note: str = ""


JobState = Literal["running", "exited", "signal", "cancelled", "lost"]
"""`cancelled`: the user or the model ended it; `lost`: how it ended cannot be known."""


class JobDetails(Struct, frozen=True, tag="job"):
    """A command in the background when it was begun, looked at or ended."""

    job: int
    command: str
    state: JobState
    output: str
    """What was new, as the model saw it."""
    note: str


class RefusedDetails(Struct, frozen=True, tag="refused"):
    """The call did not run: a rule, a mode or the user refused it."""

    reason: str


ResultDetails = TextDetails | DiffDetails | CommandDetails | JobDetails | RefusedDetails

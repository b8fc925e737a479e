"""The question that goes up to a person, and the answer that comes down."""

from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

Scope = Literal["once", "session", "folder"]


class ApprovalRequest(Struct, frozen=True):
    """Exactly what would happen. What is shown is what runs."""

    call_id: str
    tool: str
    title: str
    """For instance the path or, for a command, its first line."""
    command: str | None = None
    """The exact command text of a `bash` call."""
    diff: str | None = None
    """The unified diff of an `edit` or `write`, without file headers."""
    reason: str = ""
    """Why it asks: the mode, a rule, or a path outside the workspace."""
    rule: str | None = None
    """The rule that "this session" or "always for this folder" would add; None if only "once" may be offered."""
    paths: tuple[str, ...] = ()
    """Real paths that it touches."""


class Allow(Struct, frozen=True, tag="allow"):
    scope: Scope = "once"


class Deny(Struct, frozen=True, tag="deny"):
    reason: str = ""
    """In the user's words, for the model."""


Answer = Allow | Deny
Approver = Callable[[ApprovalRequest], Awaitable[Answer]]

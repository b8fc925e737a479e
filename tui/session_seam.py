"""The seam between the list of sessions and the sessions on disk: what can be asked and done. Knows no widget and no file."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from tui.bridge import SessionSummary


READ_ONLY_REMEDY = "/fork goes on in a copy, /resume opens another session."


class SessionTakenError(Exception):
    """The session cannot be written here; a person may choose to go on in a copy of it, or to read it."""

    def __init__(self, session_id: str, reason: str) -> None:
        super().__init__(reason)
        self.session_id = session_id
        self.reason = reason
        """Who has it, or what is in the way."""


def lost_text(session_id: str, entries: int) -> str:
    """What is said of a session that ended before the disk took all of it."""
    what = "1 entry was" if entries == 1 else f"{entries:,} entries were"
    return f"{what} not written: the disk did not take the end of session {session_id}."


class SessionHit(Struct, frozen=True):
    """A session whose text holds what was looked for. Foreign text."""

    id: str
    excerpt: str


class SessionPreview(Struct, frozen=True):
    """The end of a session; foreign text."""

    messages: tuple[tuple[str, str], ...] = ()
    """Who said it, "user" or "assistant", and what; the oldest first."""
    is_open: bool = False
    """Whether a claw has it open, this one included."""
    fault: str = ""
    """Why nothing, or not everything, can be shown."""


class StoredSessions(Protocol):
    """Every method blocks and is called in a thread. An exception's text is shown."""

    def refresh(self) -> "Iterator[Sequence[SessionSummary]]":
        """Read what the list did not know yet, and give those sessions as they are, some at a time."""
        ...

    def search(self, words: str) -> Sequence[SessionHit]:
        """Sessions that hold the words, the newest first, each once."""
        ...

    def preview(self, session_id: str) -> SessionPreview: ...

    def rename(self, session_id: str, title: str) -> None:
        """Give a session that is not open another title; an empty one is that of its first message."""
        ...

    def delete(self, session_id: str) -> None: ...

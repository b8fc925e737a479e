"""What the composer needs of the application around it, as it sees it."""

from collections.abc import Sequence
from typing import Protocol

from tui.widgets.completion import Choice


class Surroundings(Protocol):
    """What the field leaves to others. Everything returns at once."""

    def complete(self, text: str) -> Sequence[Choice]:
        """What a text that begins with a slash may become."""
        ...

    def find_files(self, query: str) -> Sequence[str]:
        """Paths that fit what of one is written."""
        ...

    def send(self, text: str, mentions: Sequence[str], *, after_turn: bool) -> None:
        """What was sent, and the files it names. Called at once and not by a message, so that the emptied field and what
        becomes of the text are painted together."""
        ...

    def send_waiting(self) -> None:
        """Enter on an empty field: send what waits for delivery, if nothing else will."""
        ...

    def take_back(self) -> str | None:
        """The newest message that waits for delivery, which then waits no longer."""
        ...

    def text_changed(self) -> None: ...
    def edit_outside(self) -> None: ...
    def search_history(self) -> None: ...
    def paste_clipboard(self) -> None: ...

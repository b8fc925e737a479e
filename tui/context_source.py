"""What the screen and the commands of the window look at and edit: a session's editor, and the session with it as one
source.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from agent.context.pieces import Action, ChartPoint, Edit, Piece, Refused
from agent.events import GaugeChanged
from tui.bridge import SessionControls


class Editor(Protocol):
    """Edits the window of one session: planned first, then applied."""

    def pieces(self) -> Sequence[Piece]:
        """All parts, in the order of the request."""
        ...

    def chart(self) -> Sequence[ChartPoint]: ...

    def show(self, piece: Piece) -> str:
        """All its text."""
        ...

    def plan(self, action: Action, keys: Iterable[int] = ()) -> Edit | Refused:
        """What an action would do. Without keys, `pin` takes the newest message of the user."""
        ...

    def plan_pin_text(self, text: str) -> Edit | Refused: ...

    def plan_pin_file(self, path: Path, first: int | None = None, last: int | None = None) -> Edit | Refused:
        """Lines are 1-based, both included; None: from the beginning, to the end."""
        ...

    def apply(self, edit: Edit) -> str:
        """What happened, in one line.

        Raises:
            RuntimeError: the session has moved on since, or is at work.
        """
        ...

    def undo(self) -> str:
        """Take back the newest edit; what happened, in one line."""
        ...

    def newest(self) -> str:
        """What `undo` would take back, in a word; empty: nothing."""
        ...


class SessionWindow:
    """The window of an open session; see `tui.screens.context.ContextSource`."""

    def __init__(self, session: SessionControls) -> None:
        self._session = session

    def gauge(self) -> GaugeChanged:
        return self._session.gauge()

    def pieces(self) -> Sequence[Piece]:
        return self._session.editor.pieces()

    def chart(self) -> Sequence[ChartPoint]:
        return self._session.editor.chart()

    def plan(self, action: Action, keys: Sequence[int]) -> Edit | Refused:
        return self._session.editor.plan(action, keys)

    def apply(self, edit: Edit) -> str:
        return self._session.editor.apply(edit)

    def undo(self) -> str:
        return self._session.editor.undo()

    def newest(self) -> str:
        return self._session.editor.newest()

    def show(self, piece: Piece) -> str:
        return self._session.editor.show(piece)

"""An edit of the window, asked before it is done: what it would free and cost, Enter, and what came of it.

What has changed between the question and the answer is asked anew. It knows no widget: the screen shows what it is told.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, Protocol

from msgspec import Struct

from agent.context.pieces import Action, ChartPoint, Edit, Piece, Refused
from agent.events import GaugeChanged
from tui.current import said
from tui.screens.context_texts import question

_NOT_HERE = "What stands before the messages cannot be edited: it is the same in every request."
_NOTHING = "There is no edit of the window to undo."


class ContextSource(Protocol):
    """The window of a session, to look at and to edit."""

    def gauge(self) -> GaugeChanged: ...
    def pieces(self) -> Sequence[Piece]:
        """All parts, in the order of the request, dropped ones where they stood."""
        ...

    def chart(self) -> Sequence[ChartPoint]: ...
    def plan(self, action: Action, keys: Sequence[int]) -> Edit | Refused:
        """What the action would do; changes nothing."""
        ...

    def apply(self, edit: Edit) -> str:
        """What happened, in one line."""
        ...

    def undo(self) -> str:
        """Take back the newest edit; what happened, in one line."""
        ...

    def newest(self) -> str:
        """What `undo` would take back, in a word; empty: nothing."""
        ...

    def show(self, piece: Piece) -> str:
        """All its text."""
        ...


class Told(Struct, frozen=True):
    """What the screen shows; `text` may be foreign."""

    text: str
    asks: bool = False
    """Enter does it, Esc does not."""
    keys: tuple[int, ...] = ()
    """Entries that would move."""
    is_done: bool = False
    """The window may be another one now."""


class Edits:
    """At most one edit waits for its answer."""

    def __init__(self, source: ContextSource) -> None:
        self._source = source
        self._waiting: Edit | Literal["undo"] | None = None
        self._asked_keys: tuple[int, ...] = ()
        """Those that the waiting edit was planned with."""

    @property
    def waits(self) -> bool:
        return self._waiting is not None

    def forget(self) -> None:
        self._waiting = None

    def ask(self, action: Action, piece: Piece) -> Told:
        """Plan an edit of a piece; pinning what is pinned unpins it."""
        self.forget()
        if not piece.keys:
            return Told(_NOT_HERE)
        planned = self._plan("unpin" if action == "pin" and piece.is_pinned else action, piece.keys)
        if isinstance(planned, Told):
            return planned
        self._asked_keys = piece.keys
        return self._ask(planned)

    def ask_undo(self) -> Told:
        self.forget()
        newest = self._source.newest()
        if not newest:
            return Told(_NOTHING)
        self._waiting = "undo"
        return Told(f"Undo takes back the newest edit: {newest}.", asks=True)

    def confirm(self) -> Told:
        """Do what waits, unless it has become something else by now: then that is asked."""
        waiting, self._waiting = self._waiting, None
        act: Callable[[], str] = self._source.undo
        if isinstance(waiting, Edit):
            fresh = self._plan(waiting.action, self._asked_keys)
            if isinstance(fresh, Told):
                return fresh
            if question(fresh) != question(waiting):
                return self._ask(fresh, "The window changed meanwhile. ")
            act = partial(self._source.apply, fresh)
        try:
            return Told(act(), is_done=True)
        except Exception as error:
            return Told(f"Nothing was changed: {said(error)}", is_done=True)

    def _ask(self, edit: Edit, before: str = "") -> Told:
        self._waiting = edit
        return Told(before + question(edit), True, edit.keys)

    def _plan(self, action: Action, keys: tuple[int, ...]) -> Edit | Told:
        try:
            planned = self._source.plan(action, keys)
        except Exception as error:
            return Told(said(error))
        return Told(planned.reason) if isinstance(planned, Refused) else planned

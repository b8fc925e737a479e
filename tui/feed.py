"""The events of one session on their way to the screen: one pending Textual message however many arrive, deltas merged.

It knows what may be merged and nothing else: neither widgets nor sessions.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.message import Message

from agent.events import Event, TextStreamed, ThinkingStreamed, ToolCallStreamed, ToolProgress

if TYPE_CHECKING:
    from tui.bridge import SessionControls, Target

BITE_CHARS = 32_768
"""How much streamed text is handed to the widgets before keys get their turn again."""


class EventsArrived(Message, bubble=False):
    """A feed has events to take. At most one per feed is pending."""

    def __init__(self, feed: "EventFeed") -> None:
        super().__init__()
        self.feed = feed


class SessionOpened(Message, bubble=False):
    """A session is open. `past` is what it held then; its feed carries everything from there on."""

    def __init__(self, session: "SessionControls", target: "Target", past: list[Event]) -> None:
        super().__init__()
        self.session = session
        self.target = target
        self.past = past


class _Run:
    """Deltas of one kind in a row. Their pieces are joined once, when they are taken."""

    def __init__(self, first: TextStreamed | ThinkingStreamed | ToolProgress) -> None:
        self.first = first
        self.pieces = [first.text]
        self.chars = len(first.text)

    def takes(self, event: Event) -> bool:
        if self.chars >= BITE_CHARS:
            return False
        match self.first, event:
            case (ToolProgress(call_id=mine), ToolProgress(call_id=other)):
                return mine == other
            case (TextStreamed(), TextStreamed(opens_block=opens)):
                return not opens
            case (ThinkingStreamed(), ThinkingStreamed(opens_block=opens)):
                return not opens
        return False

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.chars += len(text)

    def event(self) -> Event:
        text = "".join(self.pieces)
        match self.first:
            case ToolProgress(call_id=call_id):
                return ToolProgress(call_id, text)
            case ThinkingStreamed(opens_block=opens):
                return ThinkingStreamed(text, opens)
            case TextStreamed(opens_block=opens):
                return TextStreamed(text, opens)


class EventFeed:
    """The events of one session on their way to the screen. `emit` may be called from any thread and never waits.

    Text, thinking and output that arrive faster than they are drawn are merged; nothing else is. After `close`, events
    are dropped: the session they belong to is no longer shown.
    """

    def __init__(self, post: Callable[[Message], object]) -> None:
        self._post = post
        self._waiting: deque[Event | _Run] = deque()
        self._lock = threading.Lock()
        self._posted = False
        self._closed = False

    def emit(self, event: Event) -> None:
        with self._lock:
            if self._closed:
                return
            self._append(event)
            if self._posted:
                return
            self._posted = True
        self._post(EventsArrived(self))

    def take(self) -> list[Event]:
        """The next events, about `BITE_CHARS` of text at most. If some are left, another message is posted."""
        taken: list[Event] = []
        chars = 0
        with self._lock:
            while self._waiting and chars < BITE_CHARS:
                item = self._waiting.popleft()
                if isinstance(item, _Run):
                    chars += item.chars
                    taken.append(item.event())
                else:
                    taken.append(item)
            self._posted = left = bool(self._waiting)
        if left:
            self._post(EventsArrived(self))
        return taken

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._waiting.clear()

    def _append(self, event: Event) -> None:
        last = self._waiting[-1] if self._waiting else None
        match event:
            case TextStreamed() | ThinkingStreamed() | ToolProgress():
                if isinstance(last, _Run) and last.takes(event):
                    last.add(event.text)
                else:
                    self._waiting.append(_Run(event))
            case ToolCallStreamed(call_id=call_id):
                if isinstance(last, ToolCallStreamed) and last.call_id == call_id:
                    self._waiting.pop()
                self._waiting.append(event)
            case _:
                self._waiting.append(event)

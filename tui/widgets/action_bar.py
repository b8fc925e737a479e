"""The row of keys at the foot of a screen: those that can do something now stand out, the others are dimmed. A click on one
is as good as the key.
"""

from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

Piece = tuple[str, str]


class Key(Struct, frozen=True):
    key: str
    """As Textual calls it."""
    cap: str
    """As it is written."""
    label: str
    importance: int
    """Those with the lowest go first where there is no room; labels go before keys."""
    is_possible: bool = True


def bar_layout(actions: Sequence[Key], width: int) -> list[tuple[int, Key, str]]:
    """Where each key begins, and its text; together at most `width` cells."""
    texts = {action.key: f"{action.cap} {action.label}" for action in actions}
    shown = list(actions)
    lengthy = sorted(actions, key=lambda action: action.importance)
    while shown and sum(cell_len(texts[a.key]) + 2 for a in shown) - 2 > width:
        if lengthy:
            shortened = lengthy.pop(0)
            texts[shortened.key] = shortened.cap
        else:
            shown.remove(min(shown, key=lambda action: action.importance))
    placed, at = [], 0
    for action in shown:
        placed.append((at, action, texts[action.key]))
        at += cell_len(texts[action.key]) + 2
    return placed


class ActionBar(Widget):
    """Set `actions`."""

    DEFAULT_CSS = "ActionBar { height: 1; width: 1fr; }"
    ALLOW_SELECT = False
    actions: reactive[tuple[Key, ...]] = reactive(())

    class Pressed(Message):
        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def render(self) -> Content:
        pieces: list[Piece] = []
        end = 0
        for at, action, text in bar_layout(self.actions, self.size.width):
            cap, label = text[: len(action.cap)], text[len(action.cap) :]
            off = "$claw-dim dim"
            pieces += [
                (" " * (at - end), ""),
                (cap, "bold $primary" if action.is_possible else off),
                (label, "$foreground" if action.is_possible else off),
            ]
            end = at + cell_len(text)
        return Content.assemble(*pieces)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.stop()
        for at, action, text in bar_layout(self.actions, self.size.width):
            if at <= event.x < at + cell_len(text):
                self.post_message(self.Pressed(action.key))

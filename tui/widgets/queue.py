"""The messages that wait for delivery, one row each above the composer; no rows while none wait."""

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from tui.sanitize import one_line

MAX_ROWS = 3


def queue_rows(texts: tuple[str, ...], width: int, after_turn: int = 0) -> list[str]:
    """One line for each message, the last saying how many more there are. The last `after_turn` of them wait for the end
    of the turn, and are marked so."""
    shown = texts if len(texts) <= MAX_ROWS else texts[: MAX_ROWS - 1]
    soon = len(texts) - after_turn
    marks = ["↳" if place < soon else "⇥" for place in range(len(shown))]
    rows = [f" {mark} {one_line(text, max(1, width - 4))}" for mark, text in zip(marks, shown, strict=True)]
    if hidden := len(texts) - len(shown):
        rows.append(f"   and {hidden} more")
    return rows


class QueueView(Widget):
    """What is waiting. Set `texts`, and before it `after_turn`."""

    texts: reactive[tuple[str, ...]] = reactive((), layout=True)
    after_turn: reactive[int] = reactive(0)

    def watch_texts(self, texts: tuple[str, ...]) -> None:
        self.set_class(bool(texts), "-waiting")

    def render(self) -> Content:
        return Content("\n".join(queue_rows(self.texts, self.size.width, self.after_turn)))

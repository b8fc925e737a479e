"""The messages that wait for delivery, one row each above the composer; no rows while none wait."""

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from tui.sanitize import one_line

MAX_ROWS = 3


def queue_rows(texts: tuple[str, ...], width: int) -> list[str]:
    """One line for each message, the last saying how many more there are."""
    shown = texts if len(texts) <= MAX_ROWS else texts[: MAX_ROWS - 1]
    rows = [f" ↳ {one_line(text, max(1, width - 4))}" for text in shown]
    if hidden := len(texts) - len(shown):
        rows.append(f"   and {hidden} more")
    return rows


class QueueView(Widget):
    """What is waiting. Set `texts`."""

    texts: reactive[tuple[str, ...]] = reactive((), layout=True)

    def watch_texts(self, texts: tuple[str, ...]) -> None:
        self.set_class(bool(texts), "-waiting")

    def render(self) -> Content:
        return Content("\n".join(queue_rows(self.texts, self.size.width)))

"""What is wrong and stays so, above the composer: no rows while nothing is. It does not know what it speaks of."""

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from tui.sanitize import clean


class Banner(Widget):
    """Set `text`; foreign text, in at most three rows."""

    text: reactive[str] = reactive("", layout=True)

    def watch_text(self, text: str) -> None:
        self.set_class(bool(text), "-shown")

    def render(self) -> Content:
        return Content(f"! {clean(' '.join(self.text.split()))}")

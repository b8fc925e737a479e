"""One line to write a session's title in."""

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input

from tui.sanitize import clean
from tui.screens.dialog import Dialog
from tui.widgets.text_field import TextField


class RenameScreen(Dialog[str]):
    """Dismissed with the title; an empty one takes the given one away."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = " ".join(clean(title).split())

    def compose(self) -> ComposeResult:
        with Vertical(id="box", classes="picker"):
            yield TextField(clean(self._title), placeholder="Empty: the first line of its first message", id="filter")

    def on_mount(self) -> None:
        box = self.query_one("#box")
        box.border_title, box.border_subtitle = Content("Title"), Content("Enter keeps it · Esc")
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.finish(" ".join(event.value.split()))

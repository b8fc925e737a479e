"""A field for a key: nothing of it is shown, and what is pasted is taken whole, so that a key copied with a line break or
with its neighbours is noticed instead of cut.
"""

from textual import events

from tui.widgets.text_field import TextField


class SecretField(TextField):
    """Each character is a dot; the line breaks of a paste become blanks, but for those at its ends."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(password=True, select_on_focus=False, id=id, placeholder="paste it here")

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()  # Textual's own would take the first line alone
        text = " ".join(event.text.strip().splitlines())
        self.insert_text_at_cursor(text)

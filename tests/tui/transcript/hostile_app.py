"""A program for a pseudo-terminal: the view, with hostile text in every kind of block, a few sequences a key press."""

from tests.fakes.hostile import HOSTILE
from tests.tui.transcript.drawing import Screen
from tests.tui.transcript.test_view import everything, stream

GROUP = 6


class Hostile(Screen):
    BINDINGS = [("n", "next", "next"), ("q", "quit", "quit")]  # noqa: RUF012 # Textual wants a list

    def on_mount(self) -> None:
        self._left = list(HOSTILE)
        self.view.add_notice("info", "READY")

    def action_next(self) -> None:
        text = " ".join(f"x{sequence}y" for sequence in self._left[:GROUP])
        del self._left[:GROUP]
        self.view.load(everything(text))
        self.view.toggle_all_cards()
        self.view.start_tool("live", "bash", text)
        self.view.tool_progress("live", text)
        stream(self.view, text, split=True)
        self.view.toggle_all_cards()
        self.view.end_message()
        self.view.add_notice("info", f"LEFT {len(self._left)} END")


if __name__ == "__main__":
    Hostile().run()

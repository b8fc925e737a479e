"""The answer to a side question, while it is written and afterwards, drawn as replies are. Closing the dialog ends the call.

It shows what it is told and asks nobody; nothing of it stays on the screen when it is closed. Decision: the view stays where
it is while the answer grows, since it is read from its beginning.
"""

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from agent.side_question import SideAnswer
from tui.money import money
from tui.sanitize import one_line
from tui.screens.dialog import Dialog
from tui.widgets.blocks import Level
from tui.widgets.transcript import TranscriptPane


class SideQuestionScreen(Dialog[None]):
    """Closed by Esc; by q and Enter too once the answer is there."""

    def __init__(self, question: str) -> None:
        super().__init__()
        self._pane = TranscriptPane(id="text")
        self._view = self._pane.view
        self._view.begin_user(one_line(question, 300))
        self._view.viewport.pin()
        self._view.on_frame = self._fit
        self._foot = "asking… · Esc stops"
        self._pieces: list[str] = []
        self._is_over = False

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield self._pane

    def on_mount(self) -> None:
        self._pane.styles.height = 1
        self.query_one("#box").border_title = Content("By the way")
        self._say(self._foot)

    def take(self, text: str) -> None:
        """A further piece of the answer (Markdown); foreign text."""
        self._pieces.append(text)
        self._view.feed(text)

    def start_over(self, reason: str) -> None:
        """What was shown is void: it is tried again."""
        self._pieces.clear()
        self._view.discard_stream()
        self._say(f"{one_line(reason, 60)}; trying again · Esc stops")

    def answer(self, answer: SideAnswer) -> None:
        if "".join(self._pieces).strip() == answer.text.strip():
            self._view.end_message()  # and what was scrolled to stays in sight
        else:
            self._view.discard_stream()
            self._view.add_assistant(answer.text)
        if answer.wanted_tool:
            self._note("info", f"It wanted to use {answer.wanted_tool}; in a side question no tool runs.")
        if answer.is_cut:
            self._note("warning", "The answer was cut off.")
        if not (answer.text.strip() or answer.wanted_tool or answer.is_cut):
            self._note("info", "The model said nothing.")
        cost = f" · {money(answer.cost_usd)}" if answer.cost_usd is not None else ""
        self._end(f"kept nowhere{cost} · Esc")

    def fail(self, text: str) -> None:
        """There is no answer; foreign text."""
        self._view.discard_stream()
        self._note("warning", text)
        self._end("Esc")

    def _note(self, level: Level, text: str) -> None:
        self._view.add_notice(level, text)

    def _end(self, foot: str) -> None:
        self._is_over = True
        self._say(foot)

    def _say(self, foot: str) -> None:
        self._foot = foot
        if self._pane.is_attached:  # an answer may be quicker than the dialog
            self.query_one("#box").border_subtitle = Content(one_line(foot, 200))

    def _fit(self) -> None:
        """After each frame: as high as what is shown, as far as the screen allows; and no following of the end."""
        self._view.viewport.pin()
        most = max(1, self.app.size.height - (0 if self.is_small else 2))
        column, rows, at = self._view.column, 0, 0
        while at < len(column) and rows < most:  # what is below the screen is not drawn
            rows += len(column.rows(at).strips)
            at += 1
        height = max(1, min(rows, most))
        if self._pane.styles.height is None or self._pane.styles.height.value != height:
            self._pane.styles.height = height

    def on_resize(self, event: events.Resize) -> None:
        self._fit()

    def on_key(self, event: events.Key) -> None:
        view = self._view
        page = max(1, view.size.height - 1)
        steps = {"up": -1, "down": 1, "pageup": -page, "pagedown": page, "space": page}
        if event.key in ("q", "enter") and self._is_over:
            self.finish(None)
        elif event.key in steps:
            view.scroll_rows(steps[event.key])
        elif event.key in ("home", "end"):
            view.jump(event.key == "end")
        else:
            return
        event.stop()

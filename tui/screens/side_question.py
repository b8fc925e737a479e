"""The answer to a side question, while it is written and afterwards. Closing the dialog ends the call.

It shows what it is told and asks nobody; nothing of it stays on the screen when it is closed.
"""

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from agent.side_question import SideAnswer
from tui.exact import Row
from tui.money import money
from tui.sanitize import clean, one_line
from tui.screens.dialog import Dialog
from tui.widgets.pager import Pager

DRAW_S = 0.1
"""What was streamed is drawn this often."""


class SideQuestionScreen(Dialog[None]):
    """Closed by Esc; by q and Enter too once the answer is there."""

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question
        self._pieces: list[str] = []
        self._text, self._kind = "", "text"
        self._foot = "asking… · Esc stops"
        self._dirty = False
        self._is_over = False
        self._is_there = False
        """Whether there is something to draw on; an answer may be quicker."""

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Pager([Row(one_line(self._question, 300), "dim"), Row("")], id="text")

    def on_mount(self) -> None:
        self.query_one("#box").border_title = Content("By the way")
        self._is_there = True
        self._draw()
        self.set_interval(DRAW_S, self._draw_streamed)

    def take(self, text: str) -> None:
        """A further piece of the answer; foreign text."""
        self._pieces.append(text)
        self._dirty = True

    def start_over(self, reason: str) -> None:
        """What was shown is void: it is tried again."""
        self._pieces.clear()
        self._foot = f"{one_line(reason, 60)}; trying again · Esc stops"
        self._draw()

    def answer(self, answer: SideAnswer) -> None:
        text = answer.text
        if answer.wanted_tool:
            text += f"\n\n(It wanted to use {answer.wanted_tool}; in a side question no tool runs.)"
        if answer.is_cut:
            text += "\n\n(The answer was cut off.)"
        cost = f" · {money(answer.cost_usd)}" if answer.cost_usd is not None else ""
        self._end(text.strip() or "The model said nothing.", "text", f"kept nowhere{cost} · Esc")

    def fail(self, text: str) -> None:
        """There is no answer; foreign text."""
        self._end(text, "warning", "Esc")

    def _end(self, text: str, kind: str, foot: str) -> None:
        self._is_over = True
        self._text, self._kind, self._foot = text, kind, foot
        self._draw()

    def _draw_streamed(self) -> None:
        if self._dirty and not self._is_over:
            self._dirty = False
            self._text = "".join(self._pieces)
            self._draw()

    def _draw(self) -> None:
        if not self._is_there:
            return
        pager = self.query_one(Pager)
        place = pager.scroll_offset.y
        lines = clean(self._text.expandtabs(4)).split("\n")
        pager.show([Row(one_line(self._question, 300), "dim"), Row(""), *(Row(line, self._kind) for line in lines)])
        pager.scroll_to(y=place, animate=False)
        self.query_one("#box").border_subtitle = Content(one_line(self._foot, 200))

    def on_key(self, event: events.Key) -> None:
        pager = self.query_one(Pager)
        page = max(1, pager.scrollable_content_region.height - 1)
        steps = {"up": -1, "down": 1, "pageup": -page, "pagedown": page, "space": page}
        if event.key in ("q", "enter") and self._is_over:
            self.finish(None)
        elif event.key in steps:
            pager.scroll_to(y=pager.scroll_offset.y + steps[event.key], animate=False)
        elif event.key == "home":
            pager.scroll_home(animate=False, x_axis=False)
        elif event.key == "end":
            pager.scroll_end(animate=False, x_axis=False)
        else:
            return
        event.stop()

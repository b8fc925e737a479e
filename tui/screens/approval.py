"""The question whether a call may run. What is shown is what runs, no answer is taken that could be a slip, and what
reaches further than the call itself is offered only when every row has been seen.
"""

from collections.abc import Iterable, Sequence

from textual import events
from textual.widget import Widget
from textual.widgets import Input

from agent.permissions.approval import Allow, Answer, ApprovalRequest, Deny
from tui.exact import request_rows
from tui.sanitize import one_line
from tui.screens.question import Question
from tui.widgets.choices import Answerable, Choices
from tui.widgets.text_field import TextField


class ApprovalScreen(Question[Answer]):
    """Dismissed with the answer, or with None when the question was taken back."""

    def __init__(self, request: ApprovalRequest) -> None:
        super().__init__(request_rows(request))
        self._rule = request.rule
        self.answer_rows = 3 if request.rule is None else 5

    def extras(self) -> Iterable[Widget]:
        yield TextField(placeholder="Why not? Enter sends it, Esc goes back", select_on_focus=False, id="reason")

    def answers(self, near: str | None, far: str | None) -> Sequence[Answerable]:
        answers = [Answerable("y", "Yes, once", "yes", near)]
        if self._rule is not None:
            named = one_line(self._rule, 60)
            answers.append(Answerable("s", f"Yes, for this session: {named}", "session", far))
            answers.append(Answerable("a", f"Always in this folder: {named}", "always", far))
        return [*answers, Answerable("n", "No", "no"), Answerable("r", "No, and say why", "why")]

    def give(self, answer: Answerable) -> None:
        match answer.key:
            case "y":
                self.finish(Allow("once"))
            case "s":
                self.finish(Allow("session"))
            case "a":
                self.finish(Allow("folder"))
            case "n":
                self.finish(Deny())
            case _:
                self._show_reason(True)

    def takes_key_elsewhere(self, event: events.Key) -> bool:
        if not self.query_one("#reason").display:
            return False
        if event.key == "escape":
            event.stop()
            event.prevent_default()
            self._show_reason(False)
        return True

    def _show_reason(self, shown: bool) -> None:
        reason = self.query_one("#reason", Input)
        reason.display = shown
        self.query_one(Choices).display = not shown
        if shown:
            reason.focus()
        else:
            self.set_focus(None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.finish(Deny(event.value.strip()))

"""The question whether a call may run. What is shown is what runs, and no answer is taken that could be a slip: keys are
ignored until the dialog has been on the screen and quiet for a moment, clicks never answer, and what reaches further than
the call itself is offered only when every row has been seen.
"""

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input

from agent.permissions.approval import Allow, Answer, ApprovalRequest, Deny
from tui.bridge import StrayKeys
from tui.exact import request_rows
from tui.sanitize import one_line
from tui.screens.dialog import GUARD_S, Dialog
from tui.widgets.choices import Answerable, Choices
from tui.widgets.pager import Pager

FULL_ROWS = 16
"""From this height on each answer has a row of its own."""


class ApprovalScreen(Dialog[Answer]):
    """Dismissed with the answer, or with None when the question was taken back."""

    def __init__(self, request: ApprovalRequest) -> None:
        super().__init__()
        self._request = request
        self._withdrawn = False

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Pager(request_rows(self._request), id="exact")
            yield Choices(id="choices")
            yield Input(placeholder="Why not? Enter sends it, Esc goes back", select_on_focus=False, id="reason")

    def on_mount(self) -> None:
        self._refresh_answers()
        self.watch(self.app, "app_focus", self._focus_changed, init=False)

    def on_resize(self, event: events.Resize) -> None:
        self.query_one(Choices).single_row = self._single_row

    @property
    def _single_row(self) -> bool:
        return self.app.size.height < FULL_ROWS or self.is_small

    @property
    def rows_beside_text(self) -> int:
        answers = 1 if self._single_row else (5 if self._request.rule is not None else 3)
        return answers + (0 if self.is_small else 1)

    def on_screen_resume(self) -> None:
        if self._withdrawn:
            self.finish(None)

    def withdraw(self) -> None:
        """The question is void: close as soon as the dialog is on top."""
        self._withdrawn = True
        self.finish(None)

    # ------------------------------------------------------------------ what is offered

    def on_pager_moved(self) -> None:
        self._refresh_answers()

    def _refresh_answers(self) -> None:
        pager, choices = self.query_one(Pager), self.query_one(Choices)
        far = None if pager.all_seen else "PageDown first" if pager.looked_at else ""
        near = None if pager.end_seen else "End first" if pager.looked_at else ""
        answers = [Answerable("y", "Yes, once", "yes", near)]
        if (rule := self._request.rule) is not None:
            named = one_line(rule, 60)
            answers.append(Answerable("s", f"Yes, for this session: {named}", "session", far))
            answers.append(Answerable("a", f"Always in this folder: {named}", "always", far))
        answers += [Answerable("n", "No", "no"), Answerable("r", "No, and say why", "why")]
        choices.answers = tuple(answers)
        below = pager.rows_below
        self.query_one("#box").border_subtitle = f"{below:,} more rows: PageDown, End" if below else ""

    # ------------------------------------------------------------------ keys

    def _focus_changed(self, focused: bool) -> None:
        if focused and self.is_drawn:
            self.guard()

    def on_key(self, event: events.Key) -> None:
        """Moving is free at once; everything that answers has to pass the guard."""
        if self.query_one("#reason").display:
            self._key_while_reasoning(event)
            return
        event.stop()
        event.prevent_default()
        too_early = event.time < self.opens_at_s
        if event.is_printable and event.character and (too_early or not self._means_something(event.key)):
            # Somebody is writing: it goes to the composer, and the rest of the word must not answer.
            self._wait_for_quiet(event.time)
            self.post_message(StrayKeys(event.character))
        elif not self._move(event.key):
            if too_early:
                self._wait_for_quiet(event.time)
            else:
                self._answer(event.key)

    def _means_something(self, key: str) -> bool:
        return key == "space" or any(answer.key == key.lower() for answer in self.query_one(Choices).answers)

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self.post_message(StrayKeys(event.text))

    def _wait_for_quiet(self, time_s: float) -> None:
        if self.is_drawn:
            self.opens_at_s = max(self.opens_at_s, time_s + GUARD_S)

    def _key_while_reasoning(self, event: events.Key) -> None:
        if event.key == "escape":
            event.stop()
            event.prevent_default()
            self._show_reason(False)

    def _move(self, key: str) -> bool:
        pager, choices = self.query_one(Pager), self.query_one(Choices)
        page = max(1, pager.scrollable_content_region.height - 1)
        rows = {"pagedown": page, "space": page, "pageup": -page, "ctrl+down": 1, "ctrl+up": -1}
        if key in rows:
            pager.scroll_to(y=pager.scroll_offset.y + rows[key], animate=False)
        elif key == "end":
            pager.scroll_end(animate=False, x_axis=False)
        elif key == "home":
            pager.scroll_home(animate=False, x_axis=False)
        elif key in ("up", "left"):
            choices.move(-1)
        elif key in ("down", "right", "tab"):
            choices.move(1)
        else:
            return False
        return True

    def _answer(self, key: str) -> None:
        choices = self.query_one(Choices)
        if key == "escape":
            key = "n"
        index = choices.marked if key == "enter" else None
        for place, answer in enumerate(choices.answers):
            if place == index or (index is None and answer.key == key.lower()):
                self._give(answer)
                return

    def _give(self, answer: Answerable) -> None:
        if answer.withheld is not None:
            pager = self.query_one(Pager)
            # The first press shows what was not seen; the guard runs anew, so a double press is no answer.
            if answer.key == "y":
                pager.scroll_end(animate=False, x_axis=False)
            else:
                self._move("pagedown")
            self.guard()
            return
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

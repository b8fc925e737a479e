"""A compaction step by step: what would go, the summary while it is written, and what came of it with everything exact that
would stand nowhere any more. Nothing is changed here: the dialog is closed with what the user accepted.

Decisions: Enter is guarded after each step, so that one pressed too often accepts nothing; a summary that was not edited
is accepted as the model wrote it, not as it is drawn; a loss that an edited summary contains is no loss.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static, TextArea

from agent.context.compaction_values import NotCompacted
from tui.current import said
from tui.exact import Row
from tui.money import money
from tui.sanitize import clean, one_line
from tui.screens.compact_texts import KEYS, LOST, NOTHING_LOST, Phase, failed_rows, loss_line, plan_rows
from tui.screens.dialog import Dialog
from tui.screens.message import MessageScreen
from tui.widgets.keys_row import KeysRow
from tui.widgets.pager import Pager
from tui.widgets.status import short_tokens
from tui.widgets.text_field import TextBox
from tui.widgets.ticks import Ticks

if TYPE_CHECKING:
    from agent.compacting import CompactionDraft, CompactionPreview
    from agent.context.losses import Loss


class Accepted(Struct, frozen=True):
    """What is to be done."""

    draft: "CompactionDraft"
    summary: str | None
    """None: as the model wrote it."""
    keep: "tuple[Loss, ...]"
    """Word for word."""


class CompactPreviewScreen(Dialog[Accepted]):
    """Dismissed with what was accepted, or with None. `begin` starts the work of the summary, which ends with the dialog."""

    def __init__(
        self,
        preview: "CompactionPreview",
        begin: "Callable[[], asyncio.Task[CompactionDraft | NotCompacted]]",
        *,
        editing: bool = False,
    ) -> None:
        super().__init__()
        self._preview = preview
        self._begin = begin
        self._edits_at_once = editing
        self._phase: Phase = "plan"
        self._drafting: asyncio.Task[CompactionDraft | NotCompacted] | None = None
        self._draft: CompactionDraft | None = None
        self._summary: str | None = None
        self._losses: Sequence[Loss] = ()

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Static(id="head", markup=False)
            yield Pager(plan_rows(self._preview), id="text")
            yield TextBox(id="summary", soft_wrap=True, tab_behavior="focus", highlight_cursor_line=False)
            yield Static(id="lost", markup=False)
            yield Ticks(id="losses")
            yield KeysRow(id="keys")

    def on_mount(self) -> None:
        self.query_one("#box").border_title = Content("Compaction")
        self.query_one(TextArea).cursor_blink = False
        self._enter("plan")

    def on_unmount(self) -> None:
        if self._drafting is not None:
            self._drafting.cancel()

    # ------------------------------------------------------------------ steps

    def _enter(self, phase: Phase, head: str = "") -> None:
        """Go to a step; no key chooses anything before it was drawn and quiet for a moment."""
        self._phase = phase
        is_result, has_losses = phase == "result", bool(self._losses)
        for name, shown in (
            ("#head", phase != "plan"),
            ("#text", phase != "editing"),
            ("#summary", phase == "editing"),
            ("#lost", is_result),
            ("#losses", is_result and has_losses),
        ):
            self.query_one(name).display = shown
        if head:
            self.query_one("#head", Static).update(Content(clean(head)))
        lost = self.query_one("#lost", Static)
        lost.set_class(has_losses, "-some")
        lost.update(Content(LOST if has_losses else NOTHING_LOST))
        self.query_one(KeysRow).keys = KEYS["bare" if is_result and not has_losses else phase]
        self._fit()
        self.opens_at_s = float("inf")
        self.call_after_refresh(self.guard)

    def _write(self) -> None:
        self._enter("writing", "The summary is being written…")
        self._drafting = self._begin()
        self._drafting.add_done_callback(self._written)

    def tell(self, news: str) -> None:
        """How the summary gets on; foreign text."""
        if self._phase == "writing":
            self.query_one("#head", Static).update(Content(one_line(f"{news[:1].upper()}{news[1:]}…", 200)))

    def _written(self, task: "asyncio.Task[CompactionDraft | NotCompacted]") -> None:
        if task.cancelled() or not self.is_attached:
            return None
        if (error := task.exception()) is not None:
            return self._fail(said(error), "", None)
        outcome = task.result()
        if isinstance(outcome, NotCompacted):
            return self._fail(outcome.reason, outcome.remedy, outcome.cost_usd)
        self._draft = outcome
        return self._show_draft()

    def _fail(self, reason: str, remedy: str, cost_usd: float | None) -> None:
        self.query_one(Pager).show(failed_rows(reason, remedy, cost_usd))
        self._enter("failed", "Not compacted; nothing was changed.")

    def _show_draft(self) -> None:
        draft = self._draft
        assert draft is not None
        self._show_summary()
        before, after = short_tokens(draft.tokens_before), short_tokens(draft.tokens_after)
        self._enter("result", f"{before} → {after} tokens · {money(draft.cost_usd)}")
        if self._edits_at_once:
            self._edits_at_once = False
            self._edit()

    def _show_summary(self) -> None:
        """The summary as it is now, and what is lost with it."""
        draft = self._draft
        assert draft is not None
        text = draft.summary if self._summary is None else self._summary
        self.query_one(Pager).show([Row(line) for line in clean(text.expandtabs(4)).split("\n")])
        ticks = self.query_one(Ticks)
        wanted = {self._losses[index] for index in ticks.ticked}
        self._losses = [loss for loss in draft.losses if self._summary is None or loss.text not in self._summary]
        ticks.show([loss_line(loss) for loss in self._losses], [i for i, x in enumerate(self._losses) if x in wanted])

    # ------------------------------------------------------------------ editing

    def _edit(self) -> None:
        draft, area = self._draft, self.query_one(TextArea)
        assert draft is not None
        area.load_text(clean(draft.summary) if self._summary is None else self._summary)
        self._enter("editing")
        area.focus()

    def _end_edit(self) -> None:
        draft, text = self._draft, self.query_one(TextArea).text
        assert draft is not None
        self.set_focus(None)
        self._summary = None if not text.strip() or text == clean(draft.summary) else text
        self._show_summary()
        self._enter("result")

    # ------------------------------------------------------------------ keys

    def on_key(self, event: events.Key) -> None:
        if self._phase == "editing":
            if event.key == "escape":
                event.stop()
                event.prevent_default()
                self._end_edit()
            return
        if self._scroll(event.key) or self._choose(event.key, event.time >= self.opens_at_s):
            event.stop()
            event.prevent_default()

    def _choose(self, key: str, is_meant: bool) -> bool:
        match self._phase, key:
            case "plan", "enter":
                if is_meant:
                    self._write()
            case "failed", "enter" | "q":
                if is_meant:
                    self.finish(None)
            case "result", "enter" | "e":
                if is_meant:
                    self._edit() if key == "e" else self._accept()
            case "result", "up" | "down":
                self.query_one(Ticks).move(1 if key == "down" else -1)
            case "result", "space":
                self.query_one(Ticks).tick()
            case "result", "a":
                self.query_one(Ticks).tick_all()
            case "result", "v":
                self._view()
            case _:
                return False
        return True

    def _accept(self) -> None:
        if self._draft is not None:
            keep = tuple(self._losses[index] for index in self.query_one(Ticks).ticked)
            self.finish(Accepted(self._draft, self._summary, keep))

    def _view(self) -> None:
        marked = self.query_one(Ticks).marked
        if marked is not None:
            loss = self._losses[marked]
            self.app.push_screen(MessageScreen.from_text(f"{loss.kind} of entry {loss.key}", loss.text))

    def _scroll(self, key: str) -> bool:
        pager = self.query_one(Pager)
        page = max(1, pager.scrollable_content_region.height - 1)
        steps = {"pagedown": page, "pageup": -page, "ctrl+down": 1, "ctrl+up": -1}
        if self._phase != "result" or not self._losses:
            steps |= {"down": 1, "up": -1}
        if key in steps:
            pager.scroll_to(y=pager.scroll_offset.y + steps[key], animate=False)
        elif key in ("home", "end"):
            (pager.scroll_home if key == "home" else pager.scroll_end)(animate=False, x_axis=False)
        else:
            return False
        return True

    # ------------------------------------------------------------------ room

    def on_resize(self, event: events.Resize) -> None:
        self._fit()

    def _fit(self) -> None:
        """Losses take at most half of the height, the text what is left."""
        losses = self._loss_rows
        self.query_one(Ticks).styles.max_height = max(1, losses)
        self.query_one(TextArea).styles.height = self._room
        self.query_one(Pager).styles.max_height = max(1, self._room - losses)

    @property
    def _room(self) -> int:
        """Rows for text and losses together."""
        return max(1, self.app.size.height - (0 if self.is_small else 2) - self._fixed_rows)

    @property
    def _fixed_rows(self) -> int:
        return sum(1 for name in ("#head", "#lost", "#keys") if self.query_one(name).display)

    @property
    def _loss_rows(self) -> int:
        shown = self.query_one("#losses").display
        return max(1, min(len(self._losses), self._room // 2)) if shown else 0

    @property
    def rows_beside_text(self) -> int:
        return self._fixed_rows + self._loss_rows

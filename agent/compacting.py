"""The compactions of one session: when they are due, asking for the summary, and appending what came of it.

What a compaction is made of is worked out in `context/`; here is what needs a model, a clock, a person or the record.
Nothing is appended before all of it is known, and then in one transaction: the compaction, what is attached again, and a
fresh prefix. Decisions: a hook's refusal counts as a failed attempt, so that the hook does not run before every step; a
compaction that nobody agreed to pay is not asked for again before the window is full or it is compacted by hand.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agent.compact_background import Background, Base, moved_on
from agent.compaction_work import CompactionDraft, CompactionPreview, Work, fault_of, reason
from agent.context.compaction import CompactionGuard, estimate, finish, prepare, summarise
from agent.context.compaction_values import (
    Compacted,
    NotCompacted,
    Span,
    Trigger,
)
from agent.context.pipeline import Facts, plan
from agent.events import CompactionFinished, CompactionProgress, CompactionStarted, Notice
from agent.fitting import CompactionCost, Confirm, compaction_cost, fit_notice, is_agreed, unpaid_text
from agent.gauge import change_text
from agent.hooks import HookFacts, HookRefused
from agent.summary_writer import CompactionSetup, SummaryCalls, SummaryWriter
from agent.transcript import Compaction, Entry, Undo, undone_keys

if TYPE_CHECKING:
    from agent.conversation import Conversation

__all__ = [
    "CANCELLED",
    "CompactionCost",
    "CompactionDraft",
    "CompactionPreview",
    "CompactionSetup",
    "Compactor",
    "Confirm",
    "Work",
]

CANCELLED = "It was cancelled; nothing was changed."


class Compactor:
    """Compacts the window of one conversation."""

    def __init__(self, conversation: "Conversation") -> None:
        self.guard = CompactionGuard()
        self.ended: CompactionFinished | None = None
        """What was told at the end of the newest compaction, also of one that was cancelled."""
        self._talk = conversation
        self.writer = SummaryWriter(conversation)
        self.background = Background(conversation, self.writer, lambda: self.guard.failed("auto"))
        self._unpaid: CompactionCost | None = None
        """What nobody agreed to, until the window is compacted or another model is in force."""
        self._told = ""
        self._nothing_at = (0, 0)
        self._telling: asyncio.Task[None] | None = None
        """Hooks that are told of an accepted draft."""

    # ------------------------------------------------------------------ by itself

    async def make_room(self) -> None:
        """Let the pipeline append what it plans, and compact where it says so. A failure warns and changes nothing."""
        recorder, limits = self._talk.recorder, self._talk.limits
        stopped = self.guard.stopped()
        unpaid = self._unpaid is not None and recorder.meter.used().tokens < limits.blocking
        may_compact = stopped is None and not unpaid
        facts = Facts(recorder.now_ms(), limits, may_compact, self._talk.settings, self._nothing_at)
        planned = plan(recorder.transcript.branch, recorder.window, recorder.meter, facts)
        if planned.found_nothing:
            self._nothing_at = (recorder.window.generation, planned.used_tokens)
        if planned.payloads:
            recorder.append(*planned.payloads)
            self._talk.emit_gauge()
        if planned.compact:
            await self._compact_by_itself()
        elif stopped is not None and planned.used_tokens >= limits.trigger and stopped != self._told:
            self._told = stopped
            self._talk.emit(Notice("warning", f"Not compacted: {stopped}.", "/compact tries again; /new starts over."))
        else:
            self.background.step(planned.used_tokens, may_compact)

    async def _compact_by_itself(self) -> None:
        was_prepared = self.background.usable()
        finished = await self.compact("auto")
        if finished.key is None and was_prepared and self.guard.stopped() is None:
            await self.compact("auto")

    # ------------------------------------------------------------------ at once

    async def compact(self, trigger: Trigger, focus: str = "", span: Span | None = None) -> CompactionFinished:
        """Compact now. Nothing is appended unless it succeeds; the event says what happened either way."""
        prepared = trigger == "auto" and self.background.usable()
        if not prepared:
            self.background.discard("another compaction began")
        before = self._talk.recorder.meter.used().tokens
        calls = self.writer.calls(self._talk.emit)
        self._talk.emit(CompactionStarted(trigger, before))
        finished: CompactionFinished | None = None
        try:
            if prepared:
                finished = await self._swap_in(before)
            else:
                finished = await self._compact(trigger, focus, span, before, calls)
        finally:
            if finished is None:
                self.writer.in_vain(calls)
                finished = CompactionFinished(None, before, before, CANCELLED, calls.usage, calls.cost_usd)
            self.ended = finished
            self._talk.emit(finished)
            self._talk.emit_gauge()
        try:
            await self._tell_hooks(trigger, finished)
        except asyncio.CancelledError:
            # By hand nothing else is to be stopped, and what happened has to be told.
            if trigger != "manual":
                raise
        return finished

    async def _compact(
        self, trigger: Trigger, focus: str, span: Span | None, before: int, calls: SummaryCalls
    ) -> CompactionFinished:
        work = await self.write(trigger, focus, span, calls)
        if isinstance(work, NotCompacted):
            return self._not_compacted(work, trigger, before, calls)
        return self.commit(self.finished(work), trigger, before, calls)

    async def _swap_in(self, before: int) -> CompactionFinished:
        """Take the summary from the background, waiting for it where it has to be."""
        prepared = await self.background.take()
        calls = prepared.calls
        if prepared.summary.fault is not None:
            self.background.forget()
            return self._not_compacted(fault_of(prepared.summary), "auto", before, calls)
        inputs = await self.writer.with_attachments(self.writer.inputs("auto"), prepared.draft)
        self.background.forget()
        work = Work(inputs, prepared.draft, prepared.summary, calls, prepared.base)
        return self.commit(self.finished(work), "auto", before, calls)

    async def write(self, trigger: Trigger, focus: str, span: Span | None, calls: SummaryCalls) -> Work | NotCompacted:
        """Everything up to the summary, or why there is none."""
        inputs = self.writer.inputs(trigger, focus, span)
        base = Base.of(inputs.branch, inputs.facts)
        draft = prepare(inputs)
        if isinstance(draft, NotCompacted):
            return draft
        cost = compaction_cost(estimate(inputs, draft), self.writer.model().facts, reason(trigger))
        setup = self._talk.compaction
        if not await is_agreed(cost, setup.confirm, setup.accepts_cost):
            self._unpaid = cost
            return NotCompacted(f"it would take {cost.text}, and nobody agreed to that", failed=False)
        if setup.hooks is not None:
            answer = await setup.hooks.before(HookFacts(self._talk.session_id, trigger, inputs.meter.used().tokens))
            if isinstance(answer, HookRefused):
                return NotCompacted(f"a PreCompact hook refused: {answer.reason}", failed=True)
            focus = self.writer.bounded("\n\n".join(part for part in (focus, answer.focus) if part))
            inputs = replace(inputs, focus=focus)
        inputs = await self.writer.with_attachments(inputs, draft)
        summary = await summarise(inputs, draft, calls.ask, self._progress)
        if summary.fault is not None:
            return fault_of(summary)
        return Work(inputs, draft, summary, calls, base)

    def finished(self, work: Work, summary: str | None = None, keep: Sequence[str] = ()) -> Compacted | NotCompacted:
        """What is to be appended now, also where the conversation has grown since; `summary` and `keep` as in `accept`."""
        if (why := moved_on(work.base, self._talk.recorder.transcript.branch, self._talk.facts)) is not None:
            return NotCompacted(f"{why}, so the summary cannot be used", failed=False)
        given = work.inputs
        inputs = replace(self.writer.inputs(given.trigger, given.focus, given.span), attachments=given.attachments)
        written = work.summary if summary is None else replace(work.summary, text=summary.strip())
        # What may have changed the window since (a clearing, another effort) takes nothing from what the summary says.
        return finish(inputs, replace(work.draft, generation=inputs.window.generation), written, keep=keep)

    def _progress(self, done: int, calls: int) -> None:
        self._talk.emit(CompactionProgress(done, calls))

    def commit(
        self, outcome: Compacted | NotCompacted, trigger: Trigger, before: int, calls: SummaryCalls
    ) -> CompactionFinished:
        if isinstance(outcome, NotCompacted):
            return self._not_compacted(outcome, trigger, before, calls)
        prefix = self._talk.make_prefix()
        recorder = self._talk.recorder
        compaction = self.writer.with_cost(outcome.compaction, calls)
        entry, *_ = recorder.append(compaction, *outcome.reminders, prefix)
        after = recorder.meter.used().tokens
        self.guard.succeeded(before, after, outcome.floor_tokens or recorder.meter.floor_tokens, trigger)
        self._renew()
        return CompactionFinished(entry.key, before, after, "", calls.usage, calls.cost_usd)

    def _not_compacted(
        self, outcome: NotCompacted, trigger: Trigger, before: int, calls: SummaryCalls
    ) -> CompactionFinished:
        self.writer.in_vain(calls)
        if outcome.failed:
            self.guard.failed(trigger, outcome.final)
        text = f"{outcome.reason}. {outcome.remedy}".removesuffix(" ").replace("..", ".")
        return CompactionFinished(None, before, before, text, calls.usage, calls.cost_usd)

    def tell_hooks_later(self, finished: CompactionFinished) -> None:
        """The same for whoever cannot wait."""
        self._telling = asyncio.create_task(self._tell_hooks("manual", finished))

    async def _tell_hooks(self, trigger: Trigger, finished: CompactionFinished) -> None:
        if (hooks := self._talk.compaction.hooks) is not None and finished.key is not None:
            await hooks.after(HookFacts(self._talk.session_id, trigger, finished.tokens_after))

    # ------------------------------------------------------------------ whether it fits

    def try_again(self) -> None:
        """A person asked for a compaction, or the model is another: whatever stopped automatic ones is forgotten."""
        self.guard.reset()
        self._renew()

    def _renew(self) -> None:
        self._unpaid = None
        self._told = ""
        self._nothing_at = (0, 0)
        self.background.renewed()

    def fit_notice(self) -> Notice | None:
        """What to say of a window that is too full for the model in force; None: it fits."""
        used, limits = self._talk.recorder.meter.used().tokens, self._talk.limits
        if used < limits.blocking:
            return None
        inputs = self.writer.inputs("auto")
        draft = prepare(inputs) if limits.can_compact else None
        if draft is None or isinstance(draft, NotCompacted):
            return fit_notice(used, limits, None)
        cost = compaction_cost(estimate(inputs, draft), self.writer.model().facts, reason("auto"))
        return fit_notice(used, limits, cost)

    def undo(self, compaction: Entry) -> str:
        """Cancel a compaction that counts; what happened, and whether the window fits now, in one line."""
        recorder, limits = self._talk.recorder, self._talk.limits
        meter = recorder.meter
        before, whole = meter.used(), meter.preview(recorder.window)
        recorder.append(Undo((compaction.key,)))
        self.background.check()
        self._talk.emit_gauge()
        after = meter.used()
        fits = (
            ""
            if after.tokens < limits.blocking
            else " That is too much for the next request: compact or drop something."
        )
        return f"The compaction is undone{change_text(before, after, whole - meter.preview(recorder.window))}.{fits}"

    async def close(self) -> None:
        """End what still runs beside the turns."""
        await self.background.close()
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)

    @property
    def unpaid_text(self) -> str:
        """What the compaction that nobody agreed to would take, and what else there is; empty if there is none."""
        return "" if self._unpaid is None else unpaid_text(self._unpaid, self._talk.compaction.confirm is not None)


def newest_compaction(branch: Sequence[Entry]) -> Entry | None:
    """The newest compaction that counts."""
    undone = undone_keys(branch)
    live = (entry for entry in reversed(branch) if isinstance(entry.payload, Compaction) and entry.key not in undone)
    return next(live, None)

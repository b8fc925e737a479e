"""The compactions of one session: when they are due, asking for the summary, and appending what came of it.

What a compaction is made of is worked out in `context/`; here is what needs a model, a clock or the record.
"""

from typing import TYPE_CHECKING

from agent.context.compaction import CompactionGuard, CompactionInputs, NotCompacted, Reply, Trigger, compact
from agent.context.pipeline import Facts, plan
from agent.events import CompactionFinished, CompactionStarted, Notice
from agent.retry import stream_with_retry
from agent.transcript import Compaction
from providers.base import ModelRequest
from providers.models import cost_usd
from providers.types import TextBlock, ToolCall

if TYPE_CHECKING:
    from agent.conversation import Conversation


class Compactor:
    """Compacts the window of one conversation."""

    def __init__(self, conversation: "Conversation") -> None:
        self.guard = CompactionGuard()
        self._talk = conversation
        self._told = ""

    async def make_room(self) -> None:
        """Let the pipeline append what it plans, and compact where it says so. A failure warns and changes nothing."""
        branch, meter = self._talk.recorder.transcript.branch, self._talk.recorder.meter
        stopped = self.guard.stopped()
        facts = Facts(self._talk.recorder.now_ms(), self._talk.limits, may_compact=stopped is None)
        planned = plan(branch, self._talk.recorder.window, meter, facts)
        if planned.payloads:
            self._talk.recorder.append(*planned.payloads)
            self._talk.emit_gauge()
        if planned.compact:
            await self.compact("auto")
        elif stopped is not None and planned.used_tokens >= self._talk.limits.trigger and stopped != self._told:
            self._told = stopped
            self._talk.emit(Notice("warning", f"Not compacted: {stopped}.", "/compact tries again; /new starts over."))

    async def compact(self, trigger: Trigger, focus: str = "") -> CompactionFinished:
        """Compact now. Nothing is appended unless it succeeds; the event says what happened either way."""
        before = self._talk.recorder.meter.used().tokens
        self._talk.emit(CompactionStarted(trigger, before))
        finished = CompactionFinished(None, before, before, "It was cancelled; nothing was changed.")
        try:
            finished = self._commit(await compact(self._inputs(trigger, focus), self._ask), trigger, before)
        finally:
            self._talk.emit(finished)
            self._talk.emit_gauge()
        return finished

    def _inputs(self, trigger: Trigger, focus: str) -> CompactionInputs:
        recorder = self._talk.recorder
        request = self._talk.request(self._talk.facts.max_output_tokens)
        return CompactionInputs(
            recorder.transcript.branch,
            recorder.window,
            recorder.meter,
            self._talk.limits,
            self._talk.settings,
            self._talk.facts,
            request,
            trigger,
            focus,
        )

    def _commit(self, outcome: Compaction | NotCompacted, trigger: Trigger, before: int) -> CompactionFinished:
        self._talk.spent(outcome.cost_usd)
        if isinstance(outcome, NotCompacted):
            if outcome.failed:
                self.guard.failed(trigger, outcome.final)
            text = f"{outcome.reason}. {outcome.remedy}".removesuffix(" ").replace("..", ".")
            return CompactionFinished(None, before, before, text, outcome.usage, outcome.cost_usd)
        entry, *_ = self._talk.recorder.append(outcome, self._talk.make_prefix())
        after = self._talk.recorder.meter.used().tokens
        self.guard.succeeded(before, after, self._talk.recorder.meter.floor_tokens, trigger)
        return CompactionFinished(entry.key, before, after, "", outcome.usage, outcome.cost_usd)

    async def _ask(self, request: ModelRequest) -> Reply:
        """One call for a summary: no tools are run, nothing is appended."""
        await self._talk.durable()
        assembler = await stream_with_retry(
            self._talk.provider,
            request,
            policy=self._talk.retry_policy,
            on_event=lambda event: None,
            emit_retry=self._talk.emit,
            on_restart=lambda: None,
        )
        blocks = assembler.blocks()
        return Reply(
            "".join(block.text for block in blocks if isinstance(block, TextBlock)),
            any(isinstance(block, ToolCall) for block in blocks),
            assembler.stop_reason or "unknown",
            assembler.usage,
            cost_usd(self._talk.facts, assembler.usage),
        )

"""Compactions that are looked at before they count: a preview without a call, a draft with its loss report, its acceptance.

A draft changes nothing; it can be accepted as long as the conversation it was made for goes on, also after more talk.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agent.compacting import CANCELLED, Compactor
from agent.compaction_work import CompactionDraft, CompactionPreview, reason
from agent.context.compaction import estimate, prepare
from agent.context.compaction_values import Compacted, CompactionInputs, Draft, NotCompacted, Span
from agent.events import CompactionFinished, CompactionStarted
from agent.fitting import compaction_cost
from agent.transcript import Entry
from agent.window import Window
from providers.types import TextBlock, ToolCall

if TYPE_CHECKING:
    from agent.context.losses import Loss
    from agent.conversation import Conversation


class Drafts:
    """The drafts of one conversation."""

    def __init__(self, conversation: "Conversation", compactor: Compactor) -> None:
        self._talk = conversation
        self._compactor = compactor
        self._writer = compactor.writer

    def preview(self, focus: str = "", span: Span | None = None) -> CompactionPreview | NotCompacted:
        """What would go and what the summary would take; no call is made."""
        inputs = self._writer.inputs("manual", focus, span)
        draft = prepare(inputs)
        if isinstance(draft, NotCompacted):
            return draft
        places = _replaced(inputs.window, draft)
        cost = compaction_cost(estimate(inputs, draft), self._writer.model().facts, reason("manual"))
        tokens = sum(inputs.meter.message_tokens(place) for place in places)
        return CompactionPreview(len(places), tokens, inputs.meter.used().tokens, cost)

    async def draft(self, focus: str = "", span: Span | None = None) -> CompactionDraft | NotCompacted:
        """Have the summary written and see what it would lose; nothing is appended. Progress is told, and nothing else."""
        from agent.context.losses import losses

        calls = self._writer.calls(self._talk.emit)
        try:
            work = await self._compactor.write("manual", focus, span, calls)
            if isinstance(work, NotCompacted):
                return replace(work, usage=calls.usage, cost_usd=calls.cost_usd)
            outcome = self._compactor.finished(work)
            if isinstance(outcome, NotCompacted):
                return replace(outcome, usage=calls.usage, cost_usd=calls.cost_usd)
            before, compaction = work.inputs.meter.used().tokens, outcome.compaction
            lost = await asyncio.to_thread(losses, *_compared(work.inputs, outcome))
        finally:
            self._writer.in_vain(calls)
            self._talk.emit_gauge()
        return CompactionDraft(compaction.summary, before, compaction.tokens_after, calls.cost_usd, lost, work)

    def accept(
        self, draft: CompactionDraft, summary: str | None = None, keep: "Sequence[Loss]" = ()
    ) -> CompactionFinished:
        """Append what was drafted, with another summary where one is given, and these texts kept word for word."""
        work = draft.work
        self._compactor.background.discard("another compaction began")
        before = self._talk.recorder.meter.used().tokens
        self._talk.emit(CompactionStarted("manual", before))
        finished = CompactionFinished(None, before, before, CANCELLED)
        try:
            outcome = self._compactor.finished(work, summary, [loss.text for loss in keep])
            finished = self._compactor.commit(outcome, "manual", before, work.calls)
        finally:
            self._talk.emit(finished)
            self._talk.emit_gauge()
        self._compactor.tell_hooks_later(finished)
        return finished


def _replaced(window: Window, draft: Draft) -> list[int]:
    """Places in the window of the messages that go."""
    start, base = draft.first_replaced, None if window.compaction is None else window.compaction.key
    return [
        place
        for place, keys in enumerate(window.keys)
        if keys and (keys[0] == base if keys[0] == base and not start else start <= keys[0] < draft.first_kept)
    ]


def _compared(inputs: CompactionInputs, outcome: Compacted) -> tuple[tuple[Entry, ...], frozenset[int], str]:
    """The branch, the keys that the compaction removes from the window, and all text that it keeps."""
    entries = list(inputs.branch)
    for payload in outcome.payloads:
        head = entries[-1]
        entries.append(Entry(head.key + 1, head.key, head.time_ms, payload))
    after = Window(entries)
    kept = {key for keys in after.keys for key in keys}
    removed = frozenset(key for keys in inputs.window.keys for key in keys) - kept
    texts = [section.text for section in after.prefix.sections]
    for message in after.messages:
        for block in message.blocks:
            if isinstance(block, TextBlock):
                texts.append(block.text)
            elif isinstance(block, ToolCall):
                texts.append(block.arguments)
    return tuple(inputs.branch), removed, "\n".join(texts)

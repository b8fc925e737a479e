"""Gets a summary written: gathers what a compaction depends on, makes the calls, and knows what they cost.

What is asked and what becomes of the reply is worked out in `context/`. Nothing is appended here. What calls cost that led
to no compaction is kept and goes into the next compaction's entry, so that the record has all of it.
"""

import asyncio
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from agent.context.attachments import read_attachments, recent_files
from agent.context.compaction_values import CompactionInputs, Draft, Span, Trigger
from agent.context.shorten import cut_middle
from agent.context.summary import Reply
from agent.events import RetryScheduled
from agent.fitting import Confirm
from agent.hooks import CompactionHooks
from agent.model_in_force import Model
from agent.retry import AssemblerHolder, stream_with_retry
from agent.transcript import Compaction
from providers.base import ModelRequest
from providers.models import cost_usd
from providers.types import TextBlock, ToolCall, Usage

if TYPE_CHECKING:
    from agent.conversation import Conversation


_FOCUS_SHARE = 16
"""Of the context window, for what the summary shall look after."""


def _left_out(tokens: int) -> str:
    return f"[About {tokens:,} tokens are left out here.]"


def _open(path: Path) -> bool:
    return False


def _same_model() -> Model | None:
    return None


class CompactionSetup(Struct, frozen=True):
    """What the compactions of a session are given from outside."""

    background: Literal["auto", "on", "off"] = "auto"
    hooks: CompactionHooks | None = None
    is_closed: Callable[[Path], bool] = _open
    """Whether rules forbid to read a real path."""
    confirm: Confirm | None = None
    """None: nobody can be asked."""
    accepts_cost: bool = False
    """Whether any stated cost is accepted beforehand (--yes)."""
    summary_model: Callable[[], Model | None] = _same_model
    """The model that writes summaries; None: the one in force. May raise what choosing a model raises."""


class SummaryCalls:
    """The calls for one summary."""

    def __init__(self, talk: "Conversation", model: Model, tell_retry: Callable[[RetryScheduled], None]) -> None:
        self.usage = Usage()
        """Of all calls so far, those in vain included."""
        self.cost_usd: float | None = None
        self.is_recorded = False
        """Whether the next compaction's entry will hold the cost."""
        self._talk = talk
        self._model = model
        self._tell_retry = tell_retry

    async def ask(self, request: ModelRequest) -> Reply:
        """One call: no tools are run, nothing is appended.

        Raises:
            ProviderError: after all retries.
        """
        await self._talk.durable()
        holder = AssemblerHolder()
        cost = None
        try:
            assembler = await stream_with_retry(
                self._model.provider,
                request,
                policy=self._talk.retry_policy,
                on_event=lambda event: None,
                emit_retry=self._tell_retry,
                on_restart=lambda: None,
                holder=holder,
            )
            await self._talk.know_prices()
        finally:
            cost = self._count(holder.current.usage)
        blocks = assembler.blocks()
        return Reply(
            "".join(block.text for block in blocks if isinstance(block, TextBlock)),
            any(isinstance(block, ToolCall) for block in blocks),
            assembler.stop_reason or "unknown",
            assembler.usage,
            cost,
        )

    def _count(self, usage: Usage) -> float | None:
        cost = cost_usd(self._model.facts, usage)
        self.usage += usage
        if cost is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost
        self._talk.spent(cost)
        return cost


class SummaryWriter:
    """What the compactions of one conversation share, in the foreground and in the background."""

    def __init__(self, conversation: "Conversation") -> None:
        self._talk = conversation
        self._lost_usage = Usage()
        self._lost_usd: float | None = None

    def model(self) -> Model:
        """The model that writes summaries."""
        return self._talk.compaction.summary_model() or self._talk.model

    def calls(self, tell_retry: Callable[[RetryScheduled], None]) -> SummaryCalls:
        return SummaryCalls(self._talk, self.model(), tell_retry)

    def inputs(self, trigger: Trigger, focus: str = "", span: Span | None = None) -> CompactionInputs:
        """What a compaction depends on now. Branch and window are live, the request's messages are not."""
        talk, recorder = self._talk, self._talk.recorder
        request = talk.request(talk.facts.max_output_tokens)
        other = talk.compaction.summary_model()
        return CompactionInputs(
            recorder.transcript.branch,
            recorder.window,
            recorder.meter,
            talk.limits,
            talk.settings,
            talk.facts,
            replace(request, messages=list(request.messages)),
            trigger,
            self.bounded(focus),
            span or Span(),
            summary_facts=None if other is None else other.facts,
            jobs=talk.jobs.lines(),
            can_recall=any(tool.name == "recall" for tool in recorder.window.prefix.tools),
        )

    def bounded(self, focus: str) -> str:
        """What the summary shall look after, its middle left out where it would fill the request for the summary."""
        most = self._talk.limits.context_window // _FOCUS_SHARE
        return cut_middle(focus, most, self._talk.recorder.meter.count, _left_out)

    async def with_attachments(self, inputs: CompactionInputs, draft: Draft) -> CompactionInputs:
        """With the files that a compaction would attach again, read in a thread."""
        files = recent_files(inputs.branch, inputs.window, draft.first_kept, draft.first_replaced)
        read = await asyncio.to_thread(
            read_attachments, files, self._talk.compaction.is_closed, self._talk.secrets.text
        )
        return replace(inputs, attachments=read)

    def in_vain(self, calls: SummaryCalls) -> None:
        """What these calls cost goes into the next compaction's entry, whether they lead to one or not."""
        if calls.is_recorded:
            return
        calls.is_recorded = True
        self._lost_usage += calls.usage
        if calls.cost_usd is not None:
            self._lost_usd = (self._lost_usd or 0.0) + calls.cost_usd

    def with_cost(self, compaction: Compaction, calls: SummaryCalls) -> Compaction:
        """The entry's payload with what its calls cost, and all those in vain before it."""
        self.in_vain(calls)
        usage, usd = self._lost_usage, self._lost_usd
        self._lost_usage, self._lost_usd = Usage(), None
        return replace(compaction, usage=usage, cost_usd=usd)


def frozen(inputs: CompactionInputs) -> CompactionInputs:
    """The same with a branch and a window that do not grow while the conversation does."""
    window = copy(inputs.window)
    window.messages, window.keys = list(window.messages), list(window.keys)
    return replace(inputs, branch=tuple(inputs.branch), window=window)

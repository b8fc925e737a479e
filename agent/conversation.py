"""What holds across the turns of one session: the record, the model in force, its limits, the queue, compaction.

The session steers it, a turn works through it. It appends; it never draws and never asks.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from agent.calls import CallRunner
from agent.context.breakdown import biggest, breakdown, fixed_tokens
from agent.context.budget import (
    ContextSettings,
    Thresholds,
    gauge_state,
    next_max_tokens,
    result_cap_tokens,
    thresholds,
)
from agent.context.compaction import CompactionGuard, CompactionInputs, NotCompacted, Reply, Trigger, compact
from agent.context.pipeline import Facts, plan
from agent.events import (
    CompactionFinished,
    CompactionStarted,
    Emit,
    GaugeChanged,
    Notice,
    QueueChanged,
    UserMessageAdded,
)
from agent.recorder import Recorder
from agent.results import SpillFolder, to_result
from agent.retry import RetryPolicy, stream_with_retry
from agent.store.base import QueuedMessage
from agent.tools.base import ToolOutput
from agent.transcript import Assistant, Compaction, Entry, FileFact, Prefix, Result, User
from providers.base import ModelRequest, Provider
from providers.models import ModelFacts, cost_usd
from providers.types import Effort, TextBlock, ToolCall

MakePrefix = Callable[[], Prefix]
"""The prefix as it would be for a session that starts now."""


@dataclass
class Model:
    """The model in force."""

    provider: Provider
    facts: ModelFacts
    effort: Effort | None = None


@dataclass
class Conversation:
    """Mutable state of one session. Everything that shapes a request is in the record; this holds what is in force."""

    session_id: str
    recorder: Recorder
    model: Model
    settings: ContextSettings
    env: Mapping[str, str]
    emit: Emit
    make_prefix: MakePrefix
    spills: SpillFolder
    max_cost_usd: float | None = None
    guard: CompactionGuard = field(default_factory=CompactionGuard)
    queue: list[QueuedMessage] = field(default_factory=list)
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    cost_usd: float | None = None
    """Of the whole branch; None while no price is known."""
    known_files: dict[str, FileFact] = field(default_factory=dict)
    """The newest fact of each file on the branch, by real path."""
    loading: "asyncio.Task[None] | None" = None
    """Prices and tokenizer on their way, once the first request is."""
    calls: CallRunner = field(init=False)
    limits: Thresholds = field(init=False)
    _sent_generation: int = -1
    _sent_messages: int = 0
    _told: str = ""
    _spilled: list[Entry] = field(default_factory=list)
    """Results of a resumed session whose whole output has to be made a file again."""

    def __post_init__(self) -> None:
        self.refresh_limits()

    # ------------------------------------------------------------------ the model in force

    @property
    def facts(self) -> ModelFacts:
        return self.model.facts

    @property
    def provider(self) -> Provider:
        return self.model.provider

    @property
    def effort(self) -> Effort | None:
        return self.model.effort

    def refresh_limits(self) -> None:
        self.limits = thresholds(self.model.facts, self.settings, self.env)

    def request(self, most_reply_tokens: int, sent: bool = True) -> ModelRequest:
        """The request for the window as it is now; `sent` says that it will leave, and moves the last cache mark."""
        window = self.recorder.window
        messages = window.messages if not window.open_calls else window.sealed()
        sent_before = self._sent_messages if self._sent_generation == window.generation else 0
        used = self.recorder.meter.used().tokens
        request = ModelRequest(
            model=self.facts.id,
            system=window.prefix.sections,
            tools=window.prefix.tools,
            messages=messages,
            generation=window.generation,
            stable=window.stable,
            max_tokens=next_max_tokens(
                self.facts.max_output_tokens, used, self.limits.context_window, most=most_reply_tokens
            ),
            effort=self.effort,
            cache_key=self.session_id,
            sent_before=sent_before,
            load_blob=self.recorder.store.blob,
        )
        if sent:
            self._sent_generation, self._sent_messages = window.generation, len(messages)
        return request

    def full_text(self, used: int) -> str:
        window = self.recorder.window
        parts = breakdown(window, self.recorder.meter)
        remedy = "Use /compact, start over with /new, or choose a model with a larger window."
        if fixed_tokens(parts) * 2 > used:
            remedy = "Shorten the instruction files or use --no-instructions, or choose a model with a larger context window."
        return (
            f"The context window is full: about {used:,} of {self.limits.effective:,} usable tokens. "
            f"The biggest parts, in tokens: {biggest(parts, window)}.\n{remedy}"
        )

    # ------------------------------------------------------------------ record

    def record_result(self, call: ToolCall, title: str, output: ToolOutput) -> Entry:
        recorder = self.recorder
        result, blobs = to_result(
            call, title, output, recorder.next_key, result_cap_tokens(self.limits), self.spills, recorder.meter.count
        )
        (entry,) = recorder.append(result, blobs=blobs)
        self.known_files.update((fact.path, fact) for fact in result.files)
        return entry

    async def know_prices(self) -> None:
        """Wait for the prices if they are still on their way; only the first reply of a process can come before them."""
        if self.facts.price is None and self.loading is not None and not self.loading.done():
            await asyncio.wait({self.loading})

    def spent(self, usd: float | None) -> None:
        if usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + usd

    def take_past(self) -> None:
        """Count what a resumed session has cost, and know the files it has seen."""
        for entry in self.recorder.transcript.branch:
            match entry.payload:
                case Assistant(cost_usd=usd) | Compaction(cost_usd=usd):
                    self.spent(usd)
                case Result(files=files, spill=spill):
                    self.known_files.update((fact.path, fact) for fact in files)
                    if spill is not None:
                        self._spilled.append(entry)

    async def restore_spills(self) -> None:
        """Make the files that results of a resumed session name."""
        if self._spilled:
            spilled, self._spilled = self._spilled, []
            await asyncio.to_thread(self.spills.restore, spilled, self.recorder.store)

    # ------------------------------------------------------------------ the queue

    def enqueue(self, text: str) -> None:
        message = QueuedMessage(self.queue[-1].id + 1 if self.queue else self.recorder.next_key, text)
        self.queue.append(message)
        self.recorder.store.enqueue(message)
        self._show_queue()

    def deliver_queue(self) -> bool:
        """Append all waiting messages as user messages; each leaves the queue in the transaction that appends it."""
        delivered, self.queue = self.queue, []
        for message in delivered:
            (entry,) = self.recorder.append(User((TextBlock(message.text),)), delivered=[message.id])
            self.emit(UserMessageAdded(entry.key, message.text, steering=True))
        if delivered:
            self._show_queue()
        return bool(delivered)

    def _show_queue(self) -> None:
        self.emit(QueueChanged(tuple(message.text for message in self.queue)))

    # ------------------------------------------------------------------ gauge

    def gauge(self, streamed_bytes: int = 0) -> GaugeChanged:
        used = self.recorder.meter.used(streamed_bytes)
        limits = self.limits
        state = gauge_state(used.tokens, limits)
        level: Literal["calm", "warning", "full"] = "warning" if state.above_warning else "calm"
        if state.above_trigger or state.at_blocking:
            level = "full"
        return GaugeChanged(
            used.tokens, used.is_estimate, limits.effective, limits.context_window, limits.trigger, self.cost_usd, level
        )

    def emit_gauge(self, streamed_bytes: int = 0) -> None:
        self.emit(self.gauge(streamed_bytes))

    # ------------------------------------------------------------------ room

    async def make_room(self) -> None:
        """Let the pipeline append what it plans, and compact where it says so. A failure warns and changes nothing."""
        branch, meter = self.recorder.transcript.branch, self.recorder.meter
        stopped = self.guard.stopped()
        facts = Facts(self.recorder.now_ms(), self.limits, may_compact=stopped is None)
        planned = plan(branch, self.recorder.window, meter, facts)
        if planned.payloads:
            self.recorder.append(*planned.payloads)
            self.emit_gauge()
        if planned.compact:
            await self.compact("auto")
        elif stopped is not None and planned.used_tokens >= self.limits.trigger and stopped != self._told:
            self._told = stopped
            self.emit(Notice("warning", f"Not compacted: {stopped}.", "/compact tries again; /new starts over."))

    async def compact(self, trigger: Trigger, focus: str = "") -> CompactionFinished:
        """Compact now. Nothing is appended unless it succeeds; the event says what happened either way."""
        before = self.recorder.meter.used().tokens
        self.emit(CompactionStarted(trigger, before))
        finished = CompactionFinished(None, before, before, "It was cancelled; nothing was changed.")
        try:
            finished = self._commit(await compact(self._inputs(trigger, focus), self._ask), trigger, before)
        finally:
            self.emit(finished)
            self.emit_gauge()
        return finished

    def _inputs(self, trigger: Trigger, focus: str) -> CompactionInputs:
        recorder = self.recorder
        request = self.request(self.facts.max_output_tokens, sent=False)
        return CompactionInputs(
            recorder.transcript.branch,
            recorder.window,
            recorder.meter,
            self.limits,
            self.settings,
            self.facts,
            request,
            trigger,
            focus,
        )

    def _commit(self, outcome: Compaction | NotCompacted, trigger: Trigger, before: int) -> CompactionFinished:
        self.spent(outcome.cost_usd)
        if isinstance(outcome, NotCompacted):
            if outcome.failed:
                self.guard.failed(trigger, outcome.final)
            text = f"{outcome.reason}. {outcome.remedy}".removesuffix(" ").replace("..", ".")
            return CompactionFinished(None, before, before, text)
        entry, *_ = self.recorder.append(outcome, self.make_prefix())
        after = self.recorder.meter.used().tokens
        self.guard.succeeded(before, after, self.recorder.meter.floor_tokens, trigger)
        return CompactionFinished(entry.key, before, after)

    async def _ask(self, request: ModelRequest) -> Reply:
        """One call for a summary: no tools are run, nothing is appended."""
        assembler = await stream_with_retry(
            self.provider,
            request,
            policy=self.retry_policy,
            on_event=lambda event: None,
            emit_retry=self.emit,
            on_restart=lambda: None,
        )
        blocks = assembler.blocks()
        return Reply(
            "".join(block.text for block in blocks if isinstance(block, TextBlock)),
            any(isinstance(block, ToolCall) for block in blocks),
            assembler.stop_reason or "unknown",
            assembler.usage,
            cost_usd(self.facts, assembler.usage),
        )

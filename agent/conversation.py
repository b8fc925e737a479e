"""What holds across the turns of one session: the record, the model in force, its limits, the queue.

The session steers it, a turn works through it. It appends; it never draws and never asks.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.call_ids import CallIds
from agent.calls import CallRunner
from agent.compacting import Compactor
from agent.context.budget import ContextSettings, Thresholds, next_max_tokens, result_cap_tokens, thresholds
from agent.context.cache_watch import CacheWatch
from agent.context.meter import Meter
from agent.drafting import Drafts
from agent.events import (
    Emit,
    GaugeChanged,
    Notice,
    QueueChanged,
    SettingChanged,
    UserMessageAdded,
)
from agent.gauge import first_request, full_text, gauge_changed
from agent.model_in_force import LearntWindows, Model
from agent.recorder import Recorder, encodable, storable
from agent.redaction import count_text
from agent.results import SpillFolder, to_result
from agent.retry import RetryPolicy
from agent.session_secrets import SessionSecrets, typed_notice
from agent.store.base import Delivery, QueuedMessage
from agent.summary_writer import CompactionSetup
from agent.tools.base import ToolOutput
from agent.transcript import Assistant, Compaction, Entry, FileFact, Prefix, Result, User
from agent.user_input import UserInput, as_user
from agent.window import Window
from providers.base import ModelRequest, Provider
from providers.models import ModelFacts
from providers.types import Effort, ToolCall

if TYPE_CHECKING:
    from agent.instructions.in_force import InstructionsInForce
    from agent.jobs import Jobs

MakePrefix = Callable[[], Prefix]
"""The prefix as it would be for a session that starts now."""


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
    compaction: CompactionSetup = field(default_factory=CompactionSetup)
    """What compactions are given from outside: hooks, who agrees to a cost, another model for summaries."""
    max_cost_usd: float | None = None
    queue: list[QueuedMessage] = field(default_factory=list)
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    cost_usd: float | None = None
    """Of the whole branch; None while no price is known."""
    secrets: SessionSecrets = field(default_factory=SessionSecrets)
    """Takes secrets out of outputs before they are recorded."""
    call_ids: CallIds = field(default_factory=CallIds)
    known_files: dict[str, FileFact] = field(default_factory=dict)
    """The newest fact of each file on the branch, by real path."""
    loading: "asyncio.Task[None] | None" = None
    """Prices and tokenizer on their way, once the first request is."""
    cache_watch: CacheWatch = field(default_factory=CacheWatch)
    instructions: "InstructionsInForce" = field(init=False)
    jobs: "Jobs" = field(init=False)
    calls: CallRunner = field(init=False)
    compactor: Compactor = field(init=False)
    drafts: Drafts = field(init=False)
    limits: Thresholds = field(init=False)
    _learnt: LearntWindows = field(default_factory=LearntWindows)
    _ahead: tuple[object, Window, Meter] | None = None
    """What `reading` gives before the first message, and what it was made for."""
    _providers: list[Provider] = field(default_factory=list)
    """All that were in force; their connections stay open for the way back."""
    _spilled: list[Entry] = field(default_factory=list)
    """Results of a resumed session whose whole output has to be made a file again."""

    def __post_init__(self) -> None:
        self.compactor = Compactor(self)
        self.drafts = Drafts(self, self.compactor)
        self.use_model(self.model)

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

    def use_model(self, model: Model) -> None:
        """Put a model in force, with its limits."""
        model.facts = self._learnt.apply(model.facts)
        self.model = model
        if model.provider not in self._providers:
            self._providers.append(model.provider)
        self.limits = thresholds(model.facts, self.settings, self.env)

    async def close_providers(self) -> None:
        """Close the connections of every provider that was in force."""
        for provider in self._providers:
            await provider.aclose()

    def learn_window(self, window_tokens: int | None) -> None:
        """Take over the limit that the provider named when it was exceeded."""
        if (notice := self._learnt.learn(self.facts, window_tokens)) is not None:
            self.use_model(self.model)
            self.compactor.try_again()
            self.emit(notice)
            self.emit_gauge()

    def announce(self, mode: str) -> None:
        """Emit the settings and the gauge as they are."""
        facts = self.facts
        self.emit(SettingChanged(facts.provider, facts.id, mode, self.effort, self.limits.context_window))
        self.emit_gauge()

    def request(self, most_reply_tokens: int) -> ModelRequest:
        """The request for the window as it is now."""
        window = self.recorder.window
        messages = window.messages if not window.open_calls else window.sealed()
        used = self.recorder.meter.used().tokens
        return ModelRequest(
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
            sent_before=window.sent,
            load_blob=self.recorder.store.blob,
        )

    def full_text(self) -> str:
        """Why the next request cannot be sent and what helps; what a summary would take, where nobody agreed to one."""
        text = full_text(self.recorder.window, self.recorder.meter, self.limits)
        unpaid = self.compactor.unpaid_text
        return f"{text.partition(chr(10))[0]}\n{unpaid}" if unpaid else text

    # ------------------------------------------------------------------ record

    def record_result(self, call: ToolCall, title: str, output: ToolOutput) -> Entry:
        recorder = self.recorder
        output, title = self.secrets.output_now(output), self.secrets.text(title)
        result, blobs = to_result(
            call, title, output, recorder.next_key, result_cap_tokens(self.limits), self.spills, recorder.meter.count
        )
        (entry,) = recorder.append(result, blobs=blobs)
        self.known_files.update((fact.path, fact) for fact in result.files)
        return entry

    async def durable(self) -> None:
        await self.recorder.durable()

    async def know_prices(self) -> None:
        """Wait for the prices if they are still on their way; only the first reply of a process can come before them."""
        if self.facts.price is None and self.loading is not None and not self.loading.done():
            await asyncio.wait({self.loading})

    def spent(self, usd: float | None) -> None:
        if usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + usd

    def take_past(self) -> None:
        """Count what a resumed session has cost, and know its calls and the files it has seen."""
        ids: list[str] = []
        for entry in self.recorder.transcript.branch:
            match entry.payload:
                case Assistant(blocks=blocks, cost_usd=usd):
                    self.spent(usd)
                    ids.extend(block.id for block in blocks if isinstance(block, ToolCall))
                case Compaction(cost_usd=usd):
                    self.spent(usd)
                case Result(files=files, spill=spill):
                    self.known_files.update((fact.path, fact) for fact in files)
                    if spill is not None:
                        self._spilled.append(entry)
        self.call_ids = CallIds(ids)

    async def restore_spills(self) -> None:
        """Make the files that results of a resumed session name."""
        if self._spilled:
            spilled, self._spilled = self._spilled, []
            await asyncio.to_thread(self.spills.restore, spilled, self.recorder.store)

    # ------------------------------------------------------------------ the queue

    def enqueue(self, given: UserInput, delivery: Delivery = "step") -> None:
        id_ = self.queue[-1].id + 1 if self.queue else self.recorder.next_key
        user = encodable(given.user) if len(given.user.blocks) > 1 or delivery == "quiet" else None
        message = QueuedMessage(id_, storable(given.text), delivery, user if isinstance(user, User) else None)
        self.queue.append(message)
        self.recorder.store.enqueue(message, given.blobs)
        self.show_queue()

    def deliver_queue(self) -> bool:
        """Append the messages that wait for no turn's end as user messages; each leaves the queue in the transaction that
        appends it. Whether the model has to answer one of them."""
        delivered = [message for message in self.queue if message.delivery != "turn"]
        self.queue = [message for message in self.queue if message.delivery == "turn"]
        for message in delivered:
            (entry,) = self.recorder.append(as_user(message), delivered=[message.id])
            if message.delivery == "step":
                self.emit(UserMessageAdded(entry.key, message.text, steering=True))
        if delivered:
            self.show_queue()
        return any(message.delivery == "step" for message in delivered)

    def first_for_turn(self) -> QueuedMessage | None:
        """The message that the next turn begins with; no longer in the queue here, but still in the file. That is the newest
        of those that a stopped turn did not take, as the others are delivered before it; else the oldest that is to have a
        turn of its own."""
        left = next((message for message in reversed(self.queue) if message.delivery == "step"), None)
        found = left or next((message for message in self.queue if message.delivery == "turn"), None)
        if found is not None:
            self.queue.remove(found)
            self.show_queue()
        return found

    def take_back(self) -> str | None:
        """The newest waiting message, which is then not delivered; None if there is none."""
        found = next((message for message in reversed(self.queue) if message.delivery != "quiet"), None)
        if found is None:
            return None
        self.queue.remove(found)
        self.recorder.store.dequeue([found.id])
        self.show_queue()
        return found.text

    def tell_given(self, given: UserInput) -> None:
        """Say what went along with a message, and what did not; and what the user may not have meant to send."""
        if given.attached:
            taken_out = f"; {count_text(len(given.user.redacted))}" if given.user.redacted else ""
            self.emit(Notice("info", f"Attached: {', '.join(given.attached)}{taken_out}"))
        if seen := self.secrets.seen_in(given.text):
            self.secrets.accept(given.text)
            self.emit(Notice("warning", *typed_notice(seen)))
        for problem in given.problems:
            self.emit(Notice("warning", problem))

    def show_queue(self) -> None:
        waiting = [[m.text for m in self.queue if m.delivery == when] for when in ("step", "turn")]
        self.emit(QueueChanged((*waiting[0], *waiting[1]), len(waiting[1])))

    # ------------------------------------------------------------------ gauge

    def reading(self) -> tuple[Window, Meter]:
        """Window and meter to look at: of what the next request will send, also before the first message."""
        recorder = self.recorder
        if len(recorder.transcript):
            self._ahead = None
            return recorder.window, recorder.meter
        made_for = (self.facts.provider, self.facts.id, self.limits.effective, recorder.meter.counter.ready)
        if self._ahead is None or self._ahead[0] != made_for:
            self._ahead = (made_for, *first_request(self.make_prefix(), self.facts, recorder.meter.counter))
        return self._ahead[1:]

    def look_again(self) -> None:
        """What `reading` gives before the first message is made anew: the prefix would be another one now."""
        self._ahead = None

    def gauge(self, streamed_bytes: int = 0) -> GaugeChanged:
        _, meter = self.reading()
        return gauge_changed(meter.used(streamed_bytes), self.limits, self.cost_usd)

    def emit_gauge(self, streamed_bytes: int = 0) -> None:
        self.emit(self.gauge(streamed_bytes))

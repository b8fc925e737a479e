"""One turn of a session as the loop sees it: prepares requests, streams replies, runs calls, delivers steering.

Implements `TurnHost`. What holds beyond a turn (record, settings, compaction) belongs to the session and is reached
through `Conversation`.
"""

import asyncio
import time
from collections.abc import Sequence

from agent.calls import NOT_STARTED
from agent.context.budget import MOST_REPLY_TOKENS
from agent.conversation import Conversation
from agent.events import (
    MessageCompleted,
    Notice,
    TextStreamed,
    ThinkingStreamed,
    ToolCallStreamed,
)
from agent.images import refuses_attachment, without_largest
from agent.loop import ContextFullError
from agent.reactions import BLANK_TEXT, BROKEN_TEXT
from agent.retry import AssemblerHolder, stream_with_retry
from agent.transcript import Assistant, User
from providers.assembler import Assembler
from providers.base import ModelRequest
from providers.errors import ContextOverflowError, ProviderError
from providers.models import cost_usd
from providers.types import (
    AssistantMessage,
    StreamEvent,
    TextBlock,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallStarted,
)

_GAUGE_INTERVAL_S = 0.25
"""How often the gauge moves while a reply streams."""


class Turn:
    """The host of one turn."""

    def __init__(self, conversation: Conversation) -> None:
        self._talk = conversation
        self._most_reply_tokens = MOST_REPLY_TOKENS
        self._paused = False
        """Whether the newest reply waits to be sent back as it is."""

    @property
    def model(self) -> str:
        return self._talk.facts.id

    async def prepare(self) -> ModelRequest:
        talk = self._talk
        await talk.restore_spills()
        self._end_with_user()
        await talk.compactor.make_room()
        used = talk.recorder.meter.used().tokens
        if used >= talk.limits.blocking:
            raise ContextFullError(talk.full_text())
        request = talk.request(self._most_reply_tokens)
        await talk.recorder.durable()
        return request

    async def reply(self, request: ModelRequest) -> Assistant:
        talk, holder = self._talk, AssemblerHolder(self._talk.call_ids)
        deltas = _Deltas(talk, holder)
        talk.cache_watch.request(request, talk.recorder.now_ms(), talk.recorder.window.keys)
        try:
            assembler = await stream_with_retry(
                talk.provider,
                request,
                policy=talk.retry_policy,
                on_event=deltas.take,
                emit_retry=talk.emit,
                on_restart=deltas.restart,
                holder=holder,
            )
            await talk.know_prices()
        except (asyncio.CancelledError, ProviderError) as error:
            # Also without a single block: the empty reply records that the request left.
            self._append_reply(holder.current, interrupted=True)
            if isinstance(error, ContextOverflowError):
                talk.learn_window(error.window_tokens)
            raise
        talk.compactor.guard.answered()
        self._paused = assembler.stop_reason == "pause_turn"
        return self._append_reply(assembler, interrupted=False)

    async def run_calls(self, calls: Sequence[ToolCall]) -> None:
        await self._talk.calls.run(calls)
        self._talk.instructions.surface(self._talk.calls.take_touched())
        if news := self._talk.jobs.take_news():
            self._talk.recorder.append(*news)
        self._talk.emit_gauge()

    def refuse_calls(self, calls: Sequence[ToolCall], text: str) -> None:
        self._talk.calls.refuse(calls, text)

    def go_on(self, text: str) -> None:
        self._talk.recorder.append(User((TextBlock(text),), synthetic=True))

    def raise_output_cap(self) -> None:
        self._most_reply_tokens = self._talk.facts.max_output_tokens

    async def compact_overflow(self) -> bool:
        if not self._talk.compactor.guard.may_handle_overflow():
            return False
        return (await self._talk.compactor.compact("overflow")).key is not None

    def take_out_attachment(self, error: ProviderError) -> bool:
        talk = self._talk
        if not refuses_attachment(error):
            return False
        recorder = talk.recorder
        taken = without_largest(
            recorder.transcript.branch, recorder.window, lambda sha256: len(recorder.store.blob(sha256))
        )
        if taken is None:
            return False
        recorder.append(taken)
        text = (
            "The provider refused an image or file as too large; it was taken out, and the request is sent once more."
        )
        talk.emit(Notice("warning", text))
        talk.emit_gauge()
        return True

    def deliver_steering(self) -> bool:
        return self._talk.deliver_queue()

    def over_budget(self) -> bool:
        return self._talk.max_cost_usd is not None and (self._talk.cost_usd or 0.0) >= self._talk.max_cost_usd

    def close_calls(self) -> None:
        recorder = self._talk.recorder
        if not (unanswered := set(recorder.window.open_calls)):
            return
        newest = next(e.payload for e in reversed(recorder.transcript.branch) if isinstance(e.payload, Assistant))
        calls = [block for block in newest.blocks if isinstance(block, ToolCall) and block.id in unanswered]
        self.refuse_calls(calls, NOT_STARTED)

    async def settle(self) -> None:
        await self._talk.recorder.durable()

    def _end_with_user(self) -> None:
        """Providers refuse a request that is empty or ends with a reply: one that broke off before the window was made
        smaller, or one that a message without visible text followed."""
        window, branch = self._talk.recorder.window, self._talk.recorder.transcript.branch
        ends_well = window.messages and not isinstance(window.messages[-1], AssistantMessage)
        if ends_well or window.open_calls or self._paused:
            return
        newest = next((e.payload for e in reversed(branch) if isinstance(e.payload, User | Assistant)), None)
        self.go_on(BLANK_TEXT if isinstance(newest, User) else BROKEN_TEXT)

    def _append_reply(self, assembler: Assembler, interrupted: bool) -> Assistant:
        talk = self._talk
        usage = assembler.usage
        reply = Assistant(
            assembler.blocks(),
            talk.facts.provider,
            talk.facts.id,
            talk.facts.api,
            talk.facts.family,
            talk.effort,
            usage,
            assembler.stop_reason or "unknown",
            assembler.detail,
            interrupted,
            cost_usd(talk.facts, usage),
        )
        (entry,) = talk.recorder.append(reply)
        talk.call_ids.add(block.id for block in reply.blocks if isinstance(block, ToolCall))
        news = talk.cache_watch.news(talk.cache_watch.reply(usage, talk.facts, talk.recorder.now_ms()))
        talk.spent(reply.cost_usd)
        talk.emit(
            MessageCompleted(
                entry.key,
                reply.blocks,
                usage,
                reply.cost_usd,
                reply.stop_reason,
                interrupted,
            )
        )
        if news:
            talk.emit(Notice("info", news))
        talk.emit_gauge()
        return reply


class _Deltas:
    """Turns stream events into deltas for the screen, and moves the gauge meanwhile."""

    def __init__(self, talk: Conversation, holder: AssemblerHolder) -> None:
        self._talk = talk
        self._holder = holder
        self._call = ("", "")
        """Id and name of the call that is being written."""
        self._call_chars = 0
        self._streamed_bytes = 0
        self._gauge_due = time.monotonic() + _GAUGE_INTERVAL_S

    def take(self, event: StreamEvent) -> None:
        match event:
            case TextDelta(text, opens_block):
                self._talk.emit(TextStreamed(text, opens_block))
                self._count(text)
            case ThinkingDelta(text, opens_block):
                self._talk.emit(ThinkingStreamed(text, opens_block))
                self._count(text)
            case ToolCallStarted():
                self._call, self._call_chars = self._holder.current.open_call, 0
                self._talk.emit(ToolCallStreamed(*self._call, 0))
            case ToolCallDelta(fragment) if self._call[0]:
                self._call_chars += len(fragment)
                self._talk.emit(ToolCallStreamed(*self._call, self._call_chars))
                self._count(fragment)

    def restart(self) -> None:
        """A retry begins the reply anew; nothing of the broken one is kept."""
        self._streamed_bytes = 0

    def _count(self, text: str) -> None:
        self._streamed_bytes += len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
        if (now := time.monotonic()) >= self._gauge_due:
            self._gauge_due = now + _GAUGE_INTERVAL_S
            self._talk.emit_gauge(self._streamed_bytes)

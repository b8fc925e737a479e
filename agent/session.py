"""One conversation, as its user steers it: prompt, steer, interrupt, compact, change the model or mode, close.

Facts go up through `emit`, questions through the approver given to the gate; what is asked of a session is a method here.
All methods belong to one event loop.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from agent.context.breakdown import Part, breakdown
from agent.conversation import Conversation
from agent.events import (
    CompactionFinished,
    Event,
    GaugeChanged,
    Notice,
    TurnEnded,
    TurnStarted,
    UserMessageAdded,
)
from agent.loading import Loading
from agent.loop import run_turn
from agent.model_in_force import ChooseModel
from agent.permissions.gate import Gate, Mode
from agent.processes import Spawner
from agent.replay import replay
from agent.transcript import Compaction, Payload, Setting, Undo, User, undone_keys
from agent.turn import Turn
from providers.types import Effort, TextBlock

T = TypeVar("T")

Payloads = Callable[[], list[Payload]]


class Session:
    """An open session. Build it with agent/starting.py."""

    def __init__(
        self,
        conversation: Conversation,
        gate: Gate,
        spawner: Spawner,
        project: Path,
        cwd: Path,
        choose_model: ChooseModel,
        opening: Payloads,
        reminders: Callable[[Sequence[Payload]], list[Payload]],
        load_prices: Callable[[], None] = lambda: None,
        load_tokenizer: Callable[[], None] = lambda: None,
        max_turns: int | None = None,
    ) -> None:
        """`opening` gives what stands before the first message that is appended in this process, `reminders` what goes
        with every message; what loads is called in threads beside the first request, which nobody waits for."""
        self._talk = conversation
        self._gate = gate
        self._spawner = spawner
        self.project = project
        self.cwd = cwd
        self._choose_model = choose_model
        self._opening: Payloads | None = opening
        self._reminders = reminders
        self._loading = Loading(conversation, choose_model, load_prices, load_tokenizer)
        self._max_turns = max_turns
        self._task: asyncio.Task[object] | None = None

    # ------------------------------------------------------------------ what it is

    @property
    def id(self) -> str:
        return self._talk.session_id

    @property
    def provider_name(self) -> str:
        return self._talk.facts.provider

    @property
    def model(self) -> str:
        return self._talk.facts.id

    @property
    def mode(self) -> str:
        return self._gate.mode

    @property
    def effort(self) -> str | None:
        return self._talk.effort

    @property
    def title(self) -> str:
        for entry in self._talk.recorder.transcript.branch:
            if isinstance(entry.payload, User) and not entry.payload.synthetic:
                first = next((b.text for b in entry.payload.blocks if isinstance(b, TextBlock)), "")
                return first.strip().split("\n", 1)[0][:80]
        return ""

    @property
    def running(self) -> bool:
        """Whether a turn or a compaction is under way."""
        return self._task is not None and not self._task.done()

    @property
    def queued(self) -> tuple[str, ...]:
        return tuple(message.text for message in self._talk.queue)

    def gauge(self) -> GaugeChanged:
        return self._talk.gauge()

    def parts(self) -> list[Part]:
        """What fills the window, largest kinds as they stand; sums to the gauge."""
        return breakdown(*self._talk.reading())

    def breakdown(self) -> list[tuple[str, str, int]]:
        """(kind, name, tokens) of what fills the window."""
        return [(part.kind, part.name, part.tokens) for part in self.parts()]

    def replay(self) -> Iterator[Event]:
        """The events that draw the transcript so far."""
        return replay(self._talk.recorder.transcript.branch)

    # ------------------------------------------------------------------ turns

    async def prompt(self, text: str) -> TurnEnded:
        """Append a user message and run the turn that answers it.

        Raises:
            RuntimeError: a turn is running; use `steer`.
        """
        if self.running:
            raise RuntimeError("a turn is running")
        self._loading.start()
        recorder = self._talk.recorder
        opening = self._take_opening()
        if self._talk.queue:  # left by an earlier process: it was said before, under the settings in force now
            recorder.append(*opening)
            opening = []
            self._talk.deliver_queue()
        user = User((TextBlock(text),))
        entries = recorder.append(*opening, user, *self._reminders(opening))
        key = entries[len(opening)].key
        self._talk.emit(UserMessageAdded(key, text))
        self._talk.emit_gauge()
        turn = run_turn(Turn(self._talk), TurnStarted(self.id, key), self._talk.emit, self._max_turns)
        ended = await self._run(turn, TurnEnded("interrupted"))
        self._save_counts()
        return ended

    def steer(self, text: str) -> None:
        """Deliver a message after the current step of the running turn; kept in the session file until then."""
        self._talk.enqueue(text)

    def interrupt(self) -> None:
        """Stop the running turn or compaction at once; what was streamed is kept, and the window stays valid."""
        if self._task is not None:
            self._task.cancel()

    async def compact(self, focus: str = "") -> CompactionFinished:
        """Compact by hand.

        Raises:
            RuntimeError: a turn is running.
        """
        if self.running:
            raise RuntimeError("a turn is running")
        self._loading.start()
        self._begin_again()
        self._talk.compactor.guard.reset()
        used = self._talk.recorder.meter.used().tokens
        cancelled = CompactionFinished(None, used, used, "It was cancelled; nothing was changed.")
        finished = await self._run(self._talk.compactor.compact("manual", focus), cancelled)
        await self._talk.recorder.durable()
        return finished

    async def undo_compaction(self) -> str:
        """Cancel the newest compaction that counts; says what happened in one line."""
        recorder = self._talk.recorder
        undone = undone_keys(recorder.transcript.branch)
        live = [
            entry
            for entry in recorder.transcript.branch
            if isinstance(entry.payload, Compaction) and entry.key not in undone
        ]
        if not live:
            return "There is no compaction to undo."
        newest = live[-1]
        self._begin_again()
        before = recorder.meter.used().tokens
        recorder.append(Undo((newest.key,)))
        self._talk.emit_gauge()
        await recorder.durable()
        after = recorder.meter.used().tokens
        fits = (
            ""
            if after < self._talk.limits.blocking
            else " That is too much for the next request: compact or drop something."
        )
        return f"The compaction is undone: about {before:,} → {after:,} tokens.{fits}"

    async def _run(self, work: Coroutine[object, object, T], cancelled: T) -> T:
        """Run work that `interrupt` may cancel; being cancelled from outside cancels it too, and goes on outwards."""
        task = asyncio.ensure_future(work)
        self._task = task
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                return cancelled
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        finally:
            self._task = None

    # ------------------------------------------------------------------ settings

    def set_model(self, name: str) -> None:
        """
        Raises:
            Exception: what `choose_model` raises for a model that cannot be used; the text says what there is.
            RuntimeError: a turn is running.
        """
        if self.running:
            raise RuntimeError("The model can be changed when the turn has ended.")
        model = self._choose_model(name, self._talk.effort)
        self._talk.use_model(model)
        self._talk.compactor.guard.reset()
        facts = model.facts
        self._append_setting(Setting(facts.provider, facts.id, facts.family, facts.api, model.effort))

    def set_mode(self, mode: str) -> None:
        """
        Raises:
            ValueError: no such mode.
        """
        try:
            self._gate.mode = msgspec.convert(mode, Mode)
        except msgspec.ValidationError:
            raise ValueError(f"There is no mode {mode!r}; the modes are plan, ask, edits and auto.") from None
        self._append_setting(Setting(mode=mode))

    def set_effort(self, effort: Effort) -> None:
        self._talk.model.effort = effort
        self._append_setting(Setting(effort=effort))

    def announce(self) -> None:
        """Emit the settings and the gauge as they are, for a reader that has just come."""
        self._talk.announce(self.mode)
        if self._talk.queue:
            self._talk.show_queue()

    def notify(self, notice: Notice) -> None:
        self._talk.emit(notice)

    async def close(self) -> None:
        """Interrupt what runs, end every process, write what is left and release the session."""
        if (task := self._task) is not None:
            self.interrupt()
            await asyncio.gather(task, return_exceptions=True)
        await self._loading.stop()
        self._save_counts()
        await self._spawner.aclose()
        await self._talk.provider.aclose()
        await asyncio.to_thread(self._talk.recorder.store.close)

    def _append_setting(self, setting: Setting) -> None:
        # Before the first message there is no file yet: the opening will hold what is in force then.
        if self._opening is None:
            self._talk.recorder.append(setting)
        self._talk.announce(self.mode)

    def _take_opening(self) -> list[Payload]:
        """What stands before the first entry of this process, once."""
        opening = self._opening() if self._opening is not None else []
        self._opening = None
        return opening

    def _begin_again(self) -> None:
        """On a resumed session: the settings in force stand before whatever is recorded or sent under them."""
        if len(self._talk.recorder.transcript) and (opening := self._take_opening()):
            self._talk.recorder.append(*opening)

    def _save_counts(self) -> None:
        recorder = self._talk.recorder
        if recorder.meter.counter.ready and (fresh := recorder.meter.new_counts()):
            recorder.store.save_counts(recorder.meter.counter.name, fresh)

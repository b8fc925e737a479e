"""One conversation, as its user steers it: prompt, steer, interrupt, compact, change the model or mode, close.

Facts go up through `emit`, questions through the approver given to the gate; what is asked of a session is a method here.
All methods belong to one event loop.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec.structs import replace

from agent.compacting import CANCELLED, CompactionDraft, CompactionPreview, Confirm, newest_compaction
from agent.context.compaction_values import NotCompacted, Span
from agent.conversation import Conversation
from agent.events import (
    CompactionFinished,
    Notice,
    RetryScheduled,
    TurnEnded,
    TurnStarted,
    UserMessageAdded,
)
from agent.images import image_limits
from agent.loading import Loading
from agent.loop import run_turn
from agent.model_in_force import ChooseModel
from agent.permissions.gate import Gate, Mode
from agent.processes import Spawner
from agent.recall import Recall
from agent.session_view import SessionView
from agent.store.base import ReadOnlyError
from agent.store.titles import as_title
from agent.transcript import Payload, Setting
from agent.turn import Turn
from agent.user_input import UserInput, as_user, make_user, plain_input
from agent.user_shell import UserShell
from providers.types import Effort

if TYPE_CHECKING:
    from agent.context.losses import Loss
    from agent.editing import WindowEditor
    from agent.side_question import SideAnswer
    from agent.snapshots import ReadFile

T = TypeVar("T")

Payloads = Callable[[], list[Payload]]


class Session(SessionView):
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
        recall: Recall,
        read_file: "ReadFile | None" = None,
        load_prices: Callable[[], None] = lambda: None,
        load_tokenizer: Callable[[], None] = lambda: None,
        max_turns: int | None = None,
    ) -> None:
        """`opening` gives what stands before the first message that is appended in this process, `reminders` what goes
        with every message; `read_file` reads what is pinned. What loads is called in threads beside the first request,
        which nobody waits for."""
        super().__init__(conversation, gate, recall)
        self._spawner = spawner
        self.project = project
        self.cwd = cwd
        self._choose_model = choose_model
        self._opening: Payloads | None = opening
        self._reminders = reminders
        self._loading = Loading(conversation, choose_model, load_prices, load_tokenizer)
        self._max_turns = max_turns
        self._task: asyncio.Task[object] | None = None
        self._shell = UserShell(conversation, spawner, cwd, lambda: self.running, self._take_opening)
        self._read_file = read_file
        self._head_at_start = conversation.recorder.transcript.head or 0

    @cached_property
    def editor(self) -> "WindowEditor":
        """What lists and edits the parts of the window."""
        from agent.editing import WindowEditor

        return WindowEditor(
            self._talk,
            is_running=lambda: self.running,
            begin=self._begin_again,
            read_file=self._read_file,
            head_at_start=self._head_at_start,
        )

    @property
    def running(self) -> bool:
        """Whether a turn or a compaction is under way."""
        return self._task is not None and not self._task.done()

    # ------------------------------------------------------------------ turns

    async def prepare(self, text: str, mentions: Sequence[str]) -> UserInput:
        """A message with the files it mentions, as `prompt` and `steer` take it; nothing is appended."""
        facts = self._talk.facts
        given = await make_user(text, mentions, self._gate.workspace, image_limits(facts.api) if facts.images else None)
        return replace(given, user=await asyncio.to_thread(self._talk.secrets.user, given.user)) if mentions else given

    async def prompt(self, message: str | UserInput) -> TurnEnded:
        """Append a user message and run the turn that answers it.

        Raises:
            RuntimeError: a turn is running; use `steer`.
        """
        self._raise_if_running()
        return await self._answer(message if isinstance(message, UserInput) else plain_input(message))

    async def prompt_next(self) -> TurnEnded | None:
        """Run a turn with what a stopped one did not take, else with the oldest message that waited for the end of one; None
        if there is neither.

        Raises:
            RuntimeError: a turn is running.
        """
        self._raise_if_running()
        if (waiting := self._talk.first_for_turn()) is None:
            return None
        return await self._answer(UserInput(waiting.text, as_user(waiting)), [waiting.id])

    async def _answer(self, given: UserInput, delivered: Sequence[int] = ()) -> TurnEnded:
        self._loading.start()
        recorder = self._talk.recorder
        opening = self._take_opening()
        if self._talk.queue:  # left by an earlier process: it was said before, under the settings in force now
            recorder.append(*opening)
            opening = []
            self._talk.deliver_queue()
        payloads = (*opening, given.user, *self._reminders(opening))
        entries = recorder.append(*payloads, blobs=given.blobs, delivered=delivered)
        key = entries[len(opening)].key
        self._talk.emit(UserMessageAdded(key, given.text))
        self._talk.tell_given(given)
        self._talk.emit_gauge()
        turn = run_turn(Turn(self._talk), TurnStarted(self.id, key), self._talk.emit, self._max_turns)
        ended = await self._run(turn, TurnEnded("interrupted"))
        self._save_counts()
        return ended

    def steer(self, message: str | UserInput, *, after_turn: bool = False) -> None:
        """Deliver a message after the current step of the running turn, or keep it for a turn of its own: `prompt_next`.
        It stands in the session file until then."""
        given = message if isinstance(message, UserInput) else plain_input(message)
        self._talk.enqueue(given, "turn" if after_turn else "step")
        self._talk.tell_given(given)

    def take_back(self) -> str | None:
        """The newest message that waits, which is not delivered then; None if none waits."""
        return self._talk.take_back()

    async def run_shell(self, command: str, *, in_window: bool = True) -> None:
        """Run a command that the user typed, without gate and sandbox. Its output goes with the next request if it is to
        be `in_window`; no turn begins with it. Cancelled, it is ended and what it said so far counts."""
        self._raise_if_read_only()
        await self._shell.run(command, in_window=in_window)

    async def kill_job(self, number: int) -> None:
        """End a command in the background; the model is told with its next message.

        Raises:
            NoSuchJobError: no job has this number.
        """
        jobs = self._talk.jobs
        await jobs.stop(jobs.get(number), "user")

    def interrupt(self) -> None:
        """Stop the running turn or compaction at once; what was streamed is kept, and the window stays valid."""
        if self._task is not None:
            self._task.cancel()

    async def ask_aside(
        self, question: str, on_text: Callable[[str], None], on_retry: Callable[[RetryScheduled], None]
    ) -> "SideAnswer":
        """See `agent.side_question.ask_aside`; also while a turn runs.

        Raises:
            ProviderError: after all retries.
        """
        from agent.side_question import ask_aside

        self._loading.start()
        return await ask_aside(self._talk, question, on_text, on_retry)

    # ------------------------------------------------------------------ compaction; each raises RuntimeError in a turn

    async def compact(self, focus: str = "", span: Span | None = None) -> CompactionFinished:
        """Compact by hand; it also lets automatic compactions try again."""
        self._begin_compaction()
        used = self._talk.recorder.meter.used().tokens
        cancelled = CompactionFinished(None, used, used, CANCELLED)
        compactor = self._talk.compactor
        earlier = compactor.ended
        finished = await self._run(compactor.compact("manual", focus, span), cancelled)
        await self._talk.recorder.durable()
        ended = compactor.ended  # of a cancelled one it says what that cost
        return finished if ended is None or ended is earlier else ended

    def preview_compaction(self, focus: str = "", span: Span | None = None) -> CompactionPreview | NotCompacted:
        """What a compaction would do; no model is asked, nothing is appended."""
        return self._talk.drafts.preview(focus, span)

    async def draft_compaction(self, focus: str = "", span: Span | None = None) -> CompactionDraft | NotCompacted:
        """Have the summary written and compare; nothing is compacted. `interrupt` stops it."""
        self._begin_compaction()
        return await self._run(self._talk.drafts.draft(focus, span), NotCompacted(CANCELLED, failed=False))

    def accept_compaction(
        self, draft: CompactionDraft, summary: str | None = None, keep: "Sequence[Loss]" = ()
    ) -> CompactionFinished:
        """Append a draft, with another summary where one is given, and these texts kept word for word."""
        self._begin_compaction()
        return self._talk.drafts.accept(draft, summary, keep)

    def confirm_with(self, confirm: Confirm) -> None:
        """Who is asked from now on before a summary that takes more than a few calls."""
        self._talk.compaction = replace(self._talk.compaction, confirm=confirm)

    async def undo_compaction(self) -> str:
        """Cancel the newest compaction that counts; says what happened in one line."""
        self._raise_if_running()
        if (newest := newest_compaction(self._talk.recorder.transcript.branch)) is None:
            return "There is no compaction to undo."
        self._begin_again()
        text = self._talk.compactor.undo(newest)
        await self._talk.recorder.durable()
        return text

    def reload_instructions(self) -> str:
        """Read the instruction files again and put them in force; what came of it and what it costs, in one line.

        Raises:
            RuntimeError: a turn is running.
        """
        self._raise_if_running()
        self._begin_again()
        return self._talk.instructions.reload()

    def _begin_compaction(self) -> None:
        self._raise_if_running()
        self._loading.start()
        self._begin_again()
        self._talk.compactor.try_again()

    def _raise_if_running(self) -> None:
        self._raise_if_read_only()
        if self.running:
            raise RuntimeError("a turn is running")

    def _raise_if_read_only(self) -> None:
        """
        Raises:
            ReadOnlyError
        """
        if self.read_only:
            raise ReadOnlyError(self.read_only)

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
        self._talk.compactor.try_again()
        facts = model.facts
        self._append_setting(Setting(facts.provider, facts.id, facts.family, facts.api, model.effort))
        self._talk.compactor.background.check()
        self._tell_fit()

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

    def set_title(self, title: str) -> None:
        """Call the session so from now on; empty: after its first message.

        Raises:
            RuntimeError: there is no message yet.
        """
        if not len(self._talk.recorder.transcript):
            raise RuntimeError("A session gets a title when something was said in it.")
        self._begin_again()
        self._talk.recorder.append(Setting(title=as_title(title)))

    def set_effort(self, effort: Effort) -> None:
        self._talk.model.effort = effort
        self._append_setting(Setting(effort=effort))

    def announce(self) -> None:
        """Emit the settings and the gauge as they are, for a reader that has just come."""
        self._talk.announce(self.mode)
        if self._talk.queue:
            self._talk.show_queue()
        self._tell_fit()

    def notify(self, notice: Notice) -> None:
        self._talk.emit(notice)

    async def close(self) -> None:
        """Interrupt what runs, end every process, write what is left and release the session."""
        if (task := self._task) is not None:
            self.interrupt()
            await asyncio.gather(task, return_exceptions=True)
        await self._shell.stop()
        await self._talk.compactor.close()
        await self._loading.stop()
        self._save_counts()
        await self._talk.jobs.close()
        await self._spawner.aclose()
        await self._talk.close_providers()
        await asyncio.to_thread(self._talk.recorder.store.close)

    def _tell_fit(self) -> None:
        """Say so where the conversation does not fit the model in force, before anything is sent."""
        if len(self._talk.recorder.transcript) and (notice := self._talk.compactor.fit_notice()) is not None:
            self._talk.emit(notice)

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

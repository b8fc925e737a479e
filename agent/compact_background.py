"""The summary that is prepared while work goes on: when it starts, whether it still holds, and what it cost in vain.

It starts where the window is past its warning mark and grows fast enough to reach the trigger within twenty steps; it works
on a copy, appends nothing, and whoever compacts next takes it. Decisions: Esc ends a turn and not this task, which ends at
`close`; a preparation that fails counts for the guard like any failed compaction and is not repeated before the next one;
only a summary of a single call is prepared. It is void when the conversation went back, was compacted, or lost something
by an edit, and when model or prefix are others.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from agent.context.budget import Thresholds
from agent.context.compaction import estimate, prepare, summarise
from agent.context.compaction_values import CompactionInputs, Draft, NotCompacted, Summary
from agent.events import CompactionFinished, CompactionProgress, CompactionStarted, RetryScheduled
from agent.hooks import Agreed, HookFacts, HookRefused
from agent.summary_writer import SummaryCalls, SummaryWriter, frozen
from agent.transcript import Compaction, Drop, Entry, Prefix, Rewind, Undo, undone_keys
from providers.models import ModelFacts, is_loopback

if TYPE_CHECKING:
    from agent.conversation import Conversation

STEPS_WATCHED = 10
STEPS_AHEAD = 20


class Growth:
    """How fast the window grows, over the last ten steps."""

    def __init__(self) -> None:
        self._used: deque[int] = deque(maxlen=STEPS_WATCHED + 1)
        self._generation = 0

    def step(self, used_tokens: int, generation: int) -> None:
        """Another step begins; a new generation of the window starts the count anew."""
        if generation != self._generation:
            self._used.clear()
            self._generation = generation
        self._used.append(used_tokens)

    def reaches(self, limit_tokens: int) -> bool:
        """Whether the window is that full within twenty steps if it goes on like this."""
        steps = len(self._used) - 1
        if steps < 1:
            return False
        per_step = (self._used[-1] - self._used[0]) / steps
        return self._used[-1] + STEPS_AHEAD * per_step >= limit_tokens


class Prepared(Struct, frozen=True):
    """A summary, or why there is none (`summary.fault`), and what it was made for."""

    draft: Draft
    summary: Summary
    calls: SummaryCalls
    base: "Base"


class Base(Struct, frozen=True):
    """The branch and the model that a summary was made for."""

    length: int
    head: int
    model: tuple[str, str]

    @classmethod
    def of(cls, branch: Sequence[Entry], facts: ModelFacts) -> "Base":
        return cls(len(branch), branch[-1].key if branch else 0, (facts.provider, facts.id))


def moved_on(base: Base, branch: Sequence[Entry], facts: ModelFacts) -> str | None:
    """Why a summary of the base cannot stand for the branch any more, or None if it can. Costs what came since.

    A clearing takes nothing from what a summary says, and neither does another effort.
    """
    if len(branch) < base.length or (base.length and branch[base.length - 1].key != base.head):
        return "the conversation went back behind it"
    if (facts.provider, facts.id) != base.model:
        return "the model is another one"
    for entry in branch[base.length :]:
        if isinstance(entry.payload, Compaction | Drop | Undo | Rewind):
            return "the window was edited"
        if isinstance(entry.payload, Prefix):
            return "the system prompt or the tools are others"
    return None


class Background:
    """The preparation of one conversation; at most one at a time."""

    def __init__(self, conversation: "Conversation", writer: SummaryWriter, failed: Callable[[], None]) -> None:
        """`failed` is told of a preparation that gave no summary."""
        self._talk = conversation
        self._writer = writer
        self._failed = failed
        self._growth = Growth()
        self._task: asyncio.Task[Prepared] | None = None
        self._calls: SummaryCalls | None = None
        self._base: Base | None = None
        self._watched = False
        self._gave_up_at: int | None = None
        """Generation of the window in which none is tried again."""

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    # ------------------------------------------------------------------ the soft mark

    def step(self, used_tokens: int, may_compact: bool) -> None:
        """Another model call is about to be made, and nothing has to be compacted for it: start a preparation if it is time."""
        window = self._talk.recorder.window
        self._growth.step(used_tokens, window.generation)
        if self._task is not None:
            self.check()
        elif may_compact and self._is_due(used_tokens) and self._is_on() and not _automatic_undone(self._talk):
            self._start()

    def _is_due(self, used_tokens: int) -> bool:
        limits: Thresholds = self._talk.limits
        return (
            limits.auto_compact
            and used_tokens >= limits.warning
            and self._growth.reaches(limits.trigger)
            and self._gave_up_at != _since(self._talk)
        )

    def _is_on(self) -> bool:
        wanted = self._talk.compaction.background
        if wanted != "auto":
            return wanted == "on"
        config = self._talk.provider.config
        if is_loopback(config.base_url) or config.api == "scripted":
            return False
        if config.api == "anthropic":
            return config.cache_marks
        price = self._talk.facts.price
        return config.api == "responses" or (price is not None and price.cache_read is not None)

    def _start(self) -> None:
        inputs = frozen(self._writer.inputs("auto"))
        draft = prepare(inputs)
        if isinstance(draft, NotCompacted) or estimate(inputs, draft).calls != 1:
            self._gave_up_at = _since(self._talk)
            return
        self._base = base = Base.of(self._talk.recorder.transcript.branch, self._talk.facts)
        self._calls = calls = self._writer.calls(self._tell_retry)
        self._task = asyncio.create_task(self._work(inputs, draft, calls, base), name="prepare a summary")
        self._task.add_done_callback(self._ended)

    async def _work(self, inputs: CompactionInputs, draft: Draft, calls: SummaryCalls, base: Base) -> Prepared:
        if (hooks := self._talk.compaction.hooks) is not None:
            facts = HookFacts(self._talk.session_id, "auto", inputs.meter.used().tokens)
            answer: Agreed | HookRefused = await hooks.before(facts)
            if isinstance(answer, HookRefused):
                return Prepared(draft, Summary("", f"a PreCompact hook refused: {answer.reason}"), calls, base)
            inputs = replace(inputs, focus=self._writer.bounded(answer.focus))
        inputs = await self._writer.with_attachments(inputs, draft)
        return Prepared(draft, await summarise(inputs, draft, calls.ask, self._progress), calls, base)

    def _progress(self, done: int, calls: int) -> None:
        if self._watched:
            self._talk.emit(CompactionProgress(done, calls))

    def _tell_retry(self, event: RetryScheduled) -> None:
        if self._watched:
            self._talk.emit(event)

    # ------------------------------------------------------------------ the hard mark

    def usable(self) -> bool:
        """Whether there is a summary, or one on its way, that still holds. One that does not is thrown away."""
        self.check()
        return self._task is not None

    async def take(self) -> Prepared:
        """The prepared summary, waited for where it is not ready. Cancelling the wait leaves the preparation running."""
        assert self._task is not None
        self._watched = True
        try:
            return await asyncio.shield(self._task)
        except Exception:
            self._task = None
            raise
        finally:
            self._watched = False

    def forget(self) -> None:
        """The summary was used, or found to be none."""
        self._task = None

    # ------------------------------------------------------------------ the end

    def check(self) -> None:
        """Throw the summary away if it does not hold any more."""
        if self._task is None or self._base is None:
            return
        if (reason := moved_on(self._base, self._talk.recorder.transcript.branch, self._talk.facts)) is not None:
            self.discard(reason)

    def discard(self, reason: str) -> None:
        """Throw away what is prepared; what a finished one cost is told, of another it is only counted."""
        task, self._task = self._task, None
        if task is None or self._calls is None:
            return
        calls = self._calls
        if task.done():
            self._in_vain(calls, f"The summary prepared in the background was not used: {reason}.")
        else:
            task.add_done_callback(lambda _: self._writer.in_vain(calls))
            task.cancel()

    def renewed(self) -> None:
        """The window was compacted, or a person asked for it: preparations may be tried again."""
        self._gave_up_at = None

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task

    def _ended(self, task: "asyncio.Task[Prepared]") -> None:
        if task.cancelled() or self._task is not task or self._watched:
            return
        error = task.exception()
        if error is None and task.result().summary.fault is None:
            return
        self._task = None
        self._gave_up_at = _since(self._talk)
        self._failed()
        if self._calls is not None:
            why = str(error) if error is not None else task.result().summary.fault
            self._in_vain(self._calls, f"No summary could be prepared in the background: {why}.")

    def _in_vain(self, calls: SummaryCalls, text: str) -> None:
        self._writer.in_vain(calls)
        if calls.usage.reported:
            used = self._talk.recorder.meter.used().tokens
            self._talk.emit(CompactionStarted("auto", used))
            self._talk.emit(CompactionFinished(None, used, used, text, calls.usage, calls.cost_usd))
            self._talk.emit_gauge()


def _since(talk: "Conversation") -> int:
    """What changes with every compaction: its key, or 0 before the first one."""
    compaction = talk.recorder.window.compaction
    return 0 if compaction is None else compaction.key


def _automatic_undone(talk: "Conversation") -> bool:
    """Whether the newest compaction was an automatic one that the user took back."""
    branch = talk.recorder.transcript.branch
    newest = next((entry for entry in reversed(branch) if isinstance(entry.payload, Compaction)), None)
    if newest is None or not isinstance(newest.payload, Compaction) or newest.payload.trigger == "manual":
        return False
    return newest.key in undone_keys(branch)

"""A session that records what the screen calls and emits what the test tells it to."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.compacting import CompactionDraft, CompactionPreview
from agent.context.compaction_values import NotCompacted, Span
from agent.context.losses import Loss
from agent.context.pieces import Action, ChartPoint, Edit, Piece, Refused
from agent.costs import CostReport, ModelCost
from agent.events import (
    CompactionFinished,
    CompactionProgress,
    CompactionStarted,
    Emit,
    Event,
    GaugeChanged,
    MessageCompleted,
    QueueChanged,
    RetryScheduled,
    SettingChanged,
    StepStarted,
    TextStreamed,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnEndReason,
    TurnStarted,
    UserMessageAdded,
)
from agent.fitting import CompactionCost, Confirm
from agent.instructions.item import InstructionItem
from agent.instructions.report import InstructionsReport
from agent.job import JobView
from agent.permissions.approval import Answer, ApprovalRequest, Approver
from agent.recall import Hit
from agent.side_question import SideAnswer
from agent.tools.details import TextDetails
from agent.user_input import UserInput, plain_input
from providers.types import Effort, TextBlock, Usage
from tui.bridge import Launch, Mode, Target

COST = CompactionCost(1, 83_000, 40, 0.26, "You asked for it.")
PREVIEW = CompactionPreview(42, 81_200, 92_300, COST)
ASIDE = SideAnswer("It is [b]red[/b].", cost_usd=0.012)
LOSSES = (
    Loss("demand", "Never touch the lockfile [b]by hand[/b].", 3),
    Loss("path", "src/parser/lexer.py", 12),
    Loss("error", "KeyError: 'spoon'", 17),
)
SUMMARY = "## Goal\nRepair the [bold]parser[/bold].\n\n## State\n" + "\n".join(f"step {n} done" for n in range(40))
COSTS = CostReport(
    (ModelCost("scripted", "demo", 12, 3_000, 90_000, 4_000, 1_500, 0.12),), 0.15, 0.93, 0.4, 0.01, 1, 1, 0.03
)
DRAFT = CompactionDraft(SUMMARY, 92_300, 14_100, 0.031, LOSSES, work=None)  # type: ignore[arg-type] # the fake's own


@dataclass
class FakeEditor:
    """Records what is asked of it; every edit is possible unless `refusal` is set."""

    calls: list[tuple[object, ...]] = field(default_factory=list)
    parts: tuple[Piece, ...] = (
        Piece("system", "core", "", 900),
        Piece("user", "", "repair the [parser]", 40, (3,), 1_000, actions=("pin", "drop")),
        Piece("assistant", "", "I will look.", 30, (4,), 2_000, actions=("pin", "drop")),
        Piece("user", "", "and the tests", 12, (7,), 3_000, actions=("pin", "drop")),
        Piece("tool_results", "read src/a.py", "src/a.py", 4_000, (9,), 4_000, actions=("drop",)),
    )
    refusal: str = ""
    last: str = "pin"

    def newest(self) -> str:
        return self.last

    def pieces(self) -> list[Piece]:
        return list(self.parts)

    def chart(self) -> list[ChartPoint]:
        return [ChartPoint(3, 900), ChartPoint(7, 5_000)]

    def show(self, piece: Piece) -> str:
        return piece.detail

    def plan(self, action: Action, keys: Iterable[int] = ()) -> Edit | Refused:
        return self._planned(action, "plan", action, tuple(keys), keys=tuple(keys) or (7,))

    def plan_pin_text(self, text: str) -> Edit | Refused:
        return self._planned("pin", "plan_pin_text", text)

    def plan_pin_file(self, path: Path, first: int | None = None, last: int | None = None) -> Edit | Refused:
        return self._planned("pin", "plan_pin_file", str(path), first, last)

    def apply(self, edit: Edit) -> str:
        self.calls.append(("apply", edit.action, edit.keys))
        return "Pinned 1 entry. It takes effect at the next compaction."

    def undo(self) -> str:
        self.calls.append(("undo",))
        return "The newest pin is undone."

    def _planned(self, action: Action, *call: object, keys: tuple[int, ...] = ()) -> Edit | Refused:
        self.calls.append(call)
        return Refused(self.refusal) if self.refusal else Edit(action, (), keys, 9, freed_tokens=0 if keys else -64)


@dataclass
class FakeSession:
    """`prompt` emits the beginning of a turn and waits until the test ends it or the user interrupts."""

    emit: Emit
    approver: Approver
    id: str = "20261130-120000-abcd"
    project: Path = Path("/project")
    cwd: Path = Path("/project")
    provider_name: str = "scripted"
    model: str = "demo"
    mode: str = "ask"
    effort: str | None = None
    title: str = ""
    queued: tuple[str, ...] = ()
    past: tuple[Event, ...] = ()
    calls: list[tuple[str, ...]] = field(default_factory=list)
    closed: bool = False
    on_close: Callable[[], object] = lambda: None
    key: int = 0
    editor: FakeEditor = field(default_factory=FakeEditor)
    preview: CompactionPreview | NotCompacted = PREVIEW
    drafted: CompactionDraft | NotCompacted | Exception = DRAFT
    written: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the summary is there; a test that wants to see it being written clears it."""
    accepted: list[tuple[CompactionDraft, str | None, tuple[Loss, ...]]] = field(default_factory=list)
    hits: tuple[Hit, ...] = ()
    report: CostReport = COSTS
    running_jobs: Sequence[JobView] = ()
    confirm: Confirm | None = None
    read_only: str = ""
    secrets: tuple[str, ...] = ()
    """What looks like secrets in every message that was not agreed to."""
    agreed: list[str] = field(default_factory=list)
    unwritten: int = 0
    later: list[str] = field(default_factory=list)
    """What waits for the end of the turn."""
    read: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while files and commands take no time; a test that wants to see them at it clears it."""
    efforts: tuple[str, ...] = ("off", "low", "medium", "high")
    aside: SideAnswer | Exception = ASIDE
    aside_pieces: tuple[str, ...] = ("It is ", "[b]red[/b].")
    aside_gate: asyncio.Event = field(default_factory=asyncio.Event)
    _end: "asyncio.Future[TurnEndReason] | None" = None

    @property
    def running(self) -> bool:
        return self._end is not None

    def secrets_in(self, text: str) -> tuple[str, ...]:
        return self.secrets if text not in self.agreed else ()

    def accept_secrets(self, text: str) -> None:
        self.agreed.append(text)

    async def prepare(self, text: str, mentions: Sequence[str]) -> UserInput:
        self.calls.append(("prepare", *mentions))
        await self.read.wait()
        return plain_input(text)

    async def prompt(self, message: str | UserInput) -> TurnEnded:
        text = message if isinstance(message, str) else message.text
        self.calls.append(("prompt", text))
        self.key += 1
        self._end = asyncio.get_running_loop().create_future()
        self.emit(UserMessageAdded(self.key, text))
        self.emit(TurnStarted(self.id, self.key))
        self.emit(StepStarted(1, self.model))
        reason: TurnEndReason = "interrupted"
        try:
            reason = await self._end
        finally:
            self._end = None
            if reason == "done":  # a turn does not end before what steers it was delivered
                self.queued = ()
            ended = TurnEnded(reason)
            self.emit(ended)
        return ended

    def end(self, reason: TurnEndReason = "done") -> None:
        if self._end is not None and not self._end.done():
            self._end.set_result(reason)

    def say(self, text: str) -> None:
        """A reply, streamed whole."""
        self.emit(TextStreamed(text))
        self.key += 1
        self.emit(MessageCompleted(self.key, (TextBlock(text),), Usage(), None, "end_turn"))

    async def ask(self, request: ApprovalRequest) -> Answer:
        return await self.approver(request)

    async def prompt_next(self) -> TurnEnded | None:
        if self.queued:
            text, self.queued = "\n".join(self.queued), ()
        elif self.later:
            text, *self.later = self.later
        else:
            return None
        self._show_queue()
        return await self.prompt(text)

    def steer(self, message: str | UserInput, *, after_turn: bool = False) -> None:
        text = message if isinstance(message, str) else message.text
        self.calls.append(("queue" if after_turn else "steer", text))
        if after_turn:
            self.later.append(text)
        else:
            self.queued = (*self.queued, text)
        self._show_queue()

    def take_back(self) -> str | None:
        if self.later:
            text = self.later.pop()
        elif self.queued:
            *rest, text = self.queued
            self.queued = tuple(rest)
        else:
            return None
        self.calls.append(("take back", text))
        self._show_queue()
        return text

    def _show_queue(self) -> None:
        self.emit(QueueChanged((*self.queued, *self.later), len(self.later)))

    async def run_shell(self, command: str, *, in_window: bool = True) -> None:
        self.calls.append(("shell" if in_window else "shell aside", command))
        self.emit(ToolStarted("user-1", "!", command))
        ended = "ended"
        try:
            await self.read.wait()
        except asyncio.CancelledError:
            ended = "interrupted"
        self.calls.append((f"shell {ended}",))
        self.emit(ToolFinished("user-1", "!", 0, ended != "ended", TextDetails(ended, "[b]some[/b] output"), ""))

    async def ask_aside(
        self, question: str, on_text: Callable[[str], None], on_retry: Callable[[RetryScheduled], None]
    ) -> SideAnswer:
        self.calls.append(("aside", question))
        for piece in self.aside_pieces:
            on_text(piece)
        try:
            await self.aside_gate.wait()
        except asyncio.CancelledError:
            self.calls.append(("aside cancelled",))
            raise
        if isinstance(self.aside, Exception):
            raise self.aside
        return self.aside

    def interrupt(self) -> None:
        self.calls.append(("interrupt",))
        self.end("interrupted")

    async def compact(self, focus: str = "", span: Span | None = None) -> CompactionFinished:
        self.calls.append(("compact", focus, *_where(span)))
        self.emit(CompactionStarted("manual", 90_000))
        done = CompactionFinished(7, 90_000, 12_000, cost_usd=0.012)
        self.emit(done)
        return done

    def confirm_with(self, confirm: Confirm) -> None:
        self.confirm = confirm

    def preview_compaction(self, focus: str = "", span: Span | None = None) -> CompactionPreview | NotCompacted:
        self.calls.append(("preview", focus, *_where(span)))
        return self.preview

    async def draft_compaction(self, focus: str = "", span: Span | None = None) -> CompactionDraft | NotCompacted:
        self.calls.append(("draft", focus, *_where(span)))
        try:
            await self.written.wait()
        except asyncio.CancelledError:
            self.calls.append(("draft cancelled",))
            raise
        if isinstance(self.drafted, Exception):
            raise self.drafted
        return self.drafted

    def summarising(self, done: int, calls: int) -> None:
        self.emit(CompactionProgress(done, calls))

    def accept_compaction(
        self, draft: CompactionDraft, summary: str | None = None, keep: Sequence[Loss] = ()
    ) -> CompactionFinished:
        self.accepted.append((draft, summary, tuple(keep)))
        self.emit(CompactionStarted("manual", draft.tokens_before))
        done = CompactionFinished(8, draft.tokens_before, draft.tokens_after, cost_usd=draft.cost_usd)
        self.emit(done)
        return done

    def costs(self) -> CostReport:
        return self.report

    def cache_breaks(self) -> tuple[()]:
        return ()

    def search(self, words: str) -> list[Hit]:
        self.calls.append(("search", words))
        return list(self.hits)

    def entry(self, key: int) -> str:
        return f"all of entry {key}\n\x1b[31mred"

    def jobs(self) -> Sequence[JobView]:
        return self.running_jobs

    async def kill_job(self, number: int) -> None:
        self.calls.append(("kill job", str(number)))

    def instruction_items(self) -> tuple[InstructionItem, ...]:
        return (InstructionItem("/project/AGENTS.md", "project", "in the project", text="Be kind.", chars=8),)

    def instructions(self) -> InstructionsReport:
        return InstructionsReport(self.instruction_items(), (4,))

    def reload_instructions(self) -> str:
        self.calls.append(("reload",))
        return "Read again: 1 file."

    async def undo_compaction(self) -> str:
        self.calls.append(("undo",))
        return "The compaction counts no longer."

    def set_model(self, name: str) -> None:
        self.calls.append(("model", name))
        if "/" not in name:
            raise ValueError(f"no provider for {name}")
        self.provider_name, _, self.model = name.partition("/")
        self._emit_setting()

    def set_title(self, title: str) -> None:
        self.calls.append(("title", title))
        self.title = title

    def set_mode(self, mode: Mode) -> None:
        self.calls.append(("mode", mode))
        self.mode = mode
        self._emit_setting()

    def set_effort(self, effort: Effort) -> None:
        self.effort = effort
        self._emit_setting()

    def _emit_setting(self) -> None:
        self.emit(SettingChanged(self.provider_name, self.model, self.mode, self.effort, 8_192))

    def gauge(self) -> GaugeChanged:
        return GaugeChanged(1_200, True, 172_000, 200_000, 150_000, 0.042)

    def breakdown(self) -> list[tuple[str, str, int]]:
        return [("system", "", 900), ("tools", "", 1_500), ("messages", "", 12_000)]

    def replay(self) -> Iterator[Event]:
        return iter(self.past)

    async def close(self) -> None:
        self.calls.append(("close",))
        self.closed = True
        self.on_close()


def _where(span: Span | None) -> tuple[str, ...]:
    if span is None:
        return ()
    return (f"from {span.first_replaced}",) if span.first_replaced else (f"up to {span.first_kept}",)


class Opener:
    """What `Launch.open` calls. Opens at once unless `gate` is held; keeps every session it made."""

    def __init__(self, past: tuple[Event, ...] = (), **attributes: object) -> None:
        self.targets: list[Target] = []
        self.sessions: list[FakeSession] = []
        self.past = past
        self.attributes = attributes
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None

    async def __call__(self, target: Target, emit: Emit, approver: Approver) -> FakeSession:
        self.targets.append(target)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        session = FakeSession(emit, approver, past=self.past if target.kind != "new" else ())
        if target.kind == "resume":
            session.id = target.session_id
        session.written.set()
        session.aside_gate.set()
        session.read.set()
        for name, value in self.attributes.items():
            setattr(session, name, value)
        self.sessions.append(session)
        return session

    @property
    def session(self) -> FakeSession:
        return self.sessions[-1]


def launch(opener: Opener, **changes: object) -> Launch:
    facts: dict[str, object] = {"cwd": Path("/project"), "model": "scripted/demo", "version": "0.1.0"}
    return Launch(open=opener, **(facts | changes))  # type: ignore[arg-type] # any field of Launch

"""A session that records what the screen calls and emits what the test tells it to."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agent.events import (
    CompactionFinished,
    Emit,
    Event,
    GaugeChanged,
    MessageCompleted,
    QueueChanged,
    SettingChanged,
    StepStarted,
    TextStreamed,
    TurnEnded,
    TurnEndReason,
    TurnStarted,
    UserMessageAdded,
)
from agent.permissions.approval import Answer, ApprovalRequest, Approver
from providers.types import Effort, TextBlock, Usage
from tui.bridge import Launch, Mode, Target


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
    _end: "asyncio.Future[TurnEndReason] | None" = None

    @property
    def running(self) -> bool:
        return self._end is not None

    async def prompt(self, text: str) -> TurnEnded:
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

    def steer(self, text: str) -> None:
        self.calls.append(("steer", text))
        self.queued = (*self.queued, text)
        self.emit(QueueChanged(self.queued))

    def interrupt(self) -> None:
        self.calls.append(("interrupt",))
        self.end("interrupted")

    async def compact(self, focus: str = "") -> CompactionFinished:
        self.calls.append(("compact", focus))
        done = CompactionFinished(7, 90_000, 12_000)
        self.emit(done)
        return done

    async def undo_compaction(self) -> str:
        self.calls.append(("undo",))
        return "The compaction counts no longer."

    def set_model(self, name: str) -> None:
        self.calls.append(("model", name))
        if "/" not in name:
            raise ValueError(f"no provider for {name}")
        self.provider_name, _, self.model = name.partition("/")
        self._emit_setting()

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

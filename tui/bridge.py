"""The seam between the screen and a session: what the screen may call, what it is started with, and how facts and
questions reach it. A question becomes a future that a dialog resolves. Nothing here knows a widget or a provider.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct
from textual.message import Message

from agent.events import (
    CompactionFinished,
    Emit,
    Event,
    GaugeChanged,
    Notice,
    TurnEnded,
)
from agent.permissions.approval import Answer, ApprovalRequest, Approver
from providers.types import Effort

Mode = Literal["plan", "ask", "edits", "auto"]
MODES: tuple[Mode, ...] = ("plan", "ask", "edits", "auto")
"""In the order that Shift+Tab goes through them."""


class SessionControls(Protocol):
    """One open session, as far as the screen needs it. Everything runs in the event loop of the screen."""

    @property
    def id(self) -> str: ...
    @property
    def project(self) -> Path: ...
    @property
    def cwd(self) -> Path: ...
    @property
    def provider_name(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def effort(self) -> str | None: ...
    @property
    def title(self) -> str: ...
    @property
    def running(self) -> bool:
        """Whether a turn is under way."""
        ...

    @property
    def queued(self) -> tuple[str, ...]: ...

    async def prompt(self, text: str) -> TurnEnded:
        """Append the message and run the turn; what happens meanwhile is emitted."""
        ...

    def steer(self, text: str) -> None:
        """While a turn runs: deliver the message after the current step."""
        ...

    def interrupt(self) -> None: ...

    async def compact(self, focus: str = "") -> CompactionFinished: ...

    async def undo_compaction(self) -> str:
        """What happened, in one line."""
        ...

    def set_model(self, name: str) -> None:
        """
        Raises:
            ValueError: no such provider or model; the text says what there is.
        """
        ...

    def set_mode(self, mode: Mode) -> None: ...

    def set_effort(self, effort: Effort) -> None: ...

    def gauge(self) -> GaugeChanged: ...

    def breakdown(self) -> Sequence[tuple[str, str, int]]:
        """(kind, name, tokens) of what fills the window."""
        ...

    def replay(self) -> Iterator[Event]:
        """The events that draw the transcript so far."""
        ...

    async def close(self) -> None: ...


class Target(Struct, frozen=True):
    """Which session to open. `start`: what the command line says; `resume` names one by its id."""

    kind: Literal["start", "new", "resume", "demo"] = "start"
    session_id: str = ""


OpenSession = Callable[[Target, Emit, Approver], Awaitable[SessionControls]]
"""Opens a session. Slow work and heavy imports belong in a thread; failure is an exception whose text is shown."""


class NoKey(Struct, frozen=True):
    """No provider can be reached: what would change that. Paths as they are to be shown."""

    auth_file: str
    config_file: str
    variables: tuple[str, ...] = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
    detail: str = ""
    """For instance that the configured provider wants a variable of its own."""


class SessionSummary(Struct, frozen=True):
    """A line of the list of sessions. `when`: as it is to be shown, for instance "2 h ago"."""

    id: str
    title: str
    when: str
    entries: int = 0


class ModelChoice(Struct, frozen=True):
    """`name` is PROVIDER/MODEL; `detail` a few words on its window and price."""

    name: str
    detail: str = ""


async def _no_sessions() -> Sequence[SessionSummary]:
    return ()


async def _no_models() -> Sequence[ModelChoice]:
    return ()


def _nothing() -> None:
    return None


class Launch(Struct, frozen=True):
    """All that the application is started with. The plain facts are drawn in the first frame, before `open` is called."""

    open: OpenSession
    cwd: Path
    model: str = ""
    mode: str = "ask"
    version: str = ""
    target: Target = Target()
    missing_key: NoKey | None = None
    initial_prompt: str = ""
    list_sessions: Callable[[], Awaitable[Sequence[SessionSummary]]] = _no_sessions
    list_models: Callable[[], Awaitable[Sequence[ModelChoice]]] = _no_models
    warm_up: Callable[[], None] = _nothing
    """Heavy imports; called in a thread after the first frame."""
    history_file: Path | None = None
    theme: str = "claw-dark"
    notices: tuple[Notice, ...] = ()
    """What the configuration has to say; shown above the first message."""


class ApprovalWanted(Message, bubble=False):
    """A call waits for a person. Cancelling `future` takes the question back."""

    def __init__(self, request: ApprovalRequest, future: "asyncio.Future[Answer]") -> None:
        super().__init__()
        self.request = request
        self.future = future


class StrayKeys(Message):
    """Characters that were typed before a dialog could be meant; they belong to the composer."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


def make_approver(post: Callable[[Message], object]) -> Approver:
    """An approver that posts the question and waits. A cancelled turn cancels the future, which closes the dialog."""

    async def ask(request: ApprovalRequest) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        post(ApprovalWanted(request, future))
        return await future

    return ask

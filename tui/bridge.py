"""The seam between the screen and a session: what the screen may call, and what it is started with. Nothing here knows a
widget or a provider; how questions reach the screen is in questions.py.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

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
from agent.permissions.approval import Approver
from providers.types import Effort
from tui.launch.listed_models import Listing
from tui.setup_seam import SetUp

if TYPE_CHECKING:  # each is imported by the screen that shows it
    from agent.compacting import CompactionDraft, CompactionPreview
    from agent.context.cache_watch import CacheBreak
    from agent.context.compaction_values import NotCompacted, Span
    from agent.context.losses import Loss
    from agent.costs import CostReport
    from agent.events import RetryScheduled
    from agent.fitting import Confirm
    from agent.instructions.item import InstructionItem
    from agent.instructions.report import InstructionsReport
    from agent.job import JobView
    from agent.recall import Hit
    from agent.side_question import SideAnswer
    from agent.user_input import UserInput
    from tui.context_source import Editor
    from tui.session_seam import StoredSessions

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
    def efforts(self) -> tuple[str, ...]:
        """How much the model can be told to think; empty: it does not."""
        ...

    @property
    def title(self) -> str: ...
    @property
    def read_only(self) -> str:
        """Why nothing can be added to it; empty: it can."""
        ...

    @property
    def unwritten(self) -> int:
        """How many entries stand in memory alone, because the disk did not take them."""
        ...

    def set_title(self, title: str) -> None:
        """Call the session so from now on; empty: after its first message.

        Raises:
            RuntimeError: nothing was said yet that could have a title.
        """
        ...

    @property
    def running(self) -> bool:
        """Whether a turn is under way."""
        ...

    @property
    def queued(self) -> tuple[str, ...]: ...

    def secrets_in(self, text: str) -> tuple[str, ...]:
        """What looks like a secret in a text that is about to be sent, in words; what was accepted before does not."""
        ...

    def accept_secrets(self, text: str) -> None:
        """The user wants to send this text with its secrets."""
        ...

    async def prepare(self, text: str, mentions: Sequence[str]) -> "UserInput":
        """A message with the files that it names; nothing is sent."""
        ...

    async def prompt(self, message: "str | UserInput") -> TurnEnded:
        """Append the message and run the turn; what happens meanwhile is emitted."""
        ...

    async def prompt_next(self) -> TurnEnded | None:
        """Run a turn with what a stopped one left, else with the oldest message that waited for the end of one; None if
        nothing waits."""
        ...

    def steer(self, message: "str | UserInput", *, after_turn: bool = False) -> None:
        """While a turn runs: deliver the message after the current step, or keep it for `prompt_next`."""
        ...

    def take_back(self) -> str | None:
        """The newest message that waits, which is not delivered then."""
        ...

    async def run_shell(self, command: str, *, in_window: bool = True) -> None:
        """Run a command in the user's name; cancelling it ends the command."""
        ...

    def interrupt(self) -> None: ...

    async def ask_aside(
        self, question: str, on_text: Callable[[str], None], on_retry: "Callable[[RetryScheduled], None]"
    ) -> "SideAnswer":
        """One call beside the conversation that leaves no trace in it; cancelling it ends the call."""
        ...

    async def compact(self, focus: str = "", span: "Span | None" = None) -> CompactionFinished:
        """Compact now; `span` says which part, None: what is old."""
        ...

    async def undo_compaction(self) -> str:
        """What happened, in one line."""
        ...

    def preview_compaction(self, focus: str = "", span: "Span | None" = None) -> "CompactionPreview | NotCompacted":
        """What a compaction would do, without asking a model."""
        ...

    async def draft_compaction(self, focus: str = "", span: "Span | None" = None) -> "CompactionDraft | NotCompacted":
        """Have the summary written, and change nothing. Cancelling it stops the calls."""
        ...

    def accept_compaction(
        self, draft: "CompactionDraft", summary: str | None = None, keep: "Sequence[Loss]" = ()
    ) -> CompactionFinished:
        """Do what was drafted, with another summary where one is given, and keep these word for word."""
        ...

    def confirm_with(self, confirm: "Confirm") -> None:
        """Who is asked before a compaction that needs many calls."""
        ...

    @property
    def editor(self) -> "Editor": ...

    def costs(self) -> "CostReport": ...

    def cache_breaks(self) -> "Sequence[CacheBreak]":
        """Where the provider's cache was lost since the session was opened, oldest first."""
        ...

    def jobs(self) -> "Sequence[JobView]":
        """The commands in the background, the newest first."""
        ...

    async def kill_job(self, number: int) -> None:
        """End one of them and all it started."""
        ...

    def instruction_items(self) -> "Sequence[InstructionItem]":
        """The instruction files as they are now."""
        ...

    def instructions(self) -> "InstructionsReport": ...

    def reload_instructions(self) -> str:
        """Read the instruction files again; what came of it, in one line."""
        ...

    def search(self, words: str) -> "Sequence[Hit]":
        """Entries of this session that hold the words, best first."""
        ...

    def entry(self, key: int) -> str:
        """All the text of one entry; empty if it has none."""
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
    """Which session to open. `start`: what the command line says; `resume`, `fork` and `read` name one by its id."""

    kind: Literal["start", "new", "resume", "fork", "read", "demo"] = "start"
    session_id: str = ""
    reason: str = ""
    """Why it is only to be read."""


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
    cost_usd: float | None = None
    """None where no price is known."""
    project: str = ""
    is_own: bool = True
    """Whether it is of this project, as far as that is known."""
    is_known: bool = True
    """False while only its name and time are."""


class IncludeQuestion(Struct, frozen=True):
    """An instruction file wants to include a file outside the workspace. All of it is foreign text."""

    target: str
    """Absolute."""
    file: str
    """The file that includes it."""
    line: int
    """1-based, in that file."""
    written: str
    """As it stands there."""


async def _no_sessions() -> Sequence[SessionSummary]:
    return ()


async def _no_models() -> Listing:
    return ()


def _no_set_up() -> SetUp | None:
    return None


async def _no_includes(session: SessionControls) -> Sequence[IncludeQuestion]:
    return ()


def _not_kept(target: str, allowed: bool) -> None:
    return None


def _no_remark(theme: str) -> str:
    return ""


def _no_text() -> str:
    return ""


def _no_export(session_id: str, file: str) -> str:
    raise RuntimeError("this session is kept nowhere")


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
    own_files: tuple[str, str] = ("auth.json", "config.toml")
    """The user's files for keys and for the configuration, as they are to be shown."""
    initial_prompt: str = ""
    list_sessions: Callable[[], Awaitable[Sequence[SessionSummary]]] = _no_sessions
    """All there are, at once; `stored_sessions` finds out the rest."""
    stored_sessions: "Callable[[], StoredSessions] | None" = None
    """What the list of sessions can do beside opening one; None: nothing."""
    list_models: Callable[[], Awaitable[Listing]] = _no_models
    make_set_up: Callable[[], SetUp | None] = _no_set_up
    """What `/setup` and the first screen without a model work with; None: nothing can be set up."""
    open_includes: Callable[[SessionControls], Awaitable[Sequence[IncludeQuestion]]] = _no_includes
    """Includes of the session's instruction files that a person has to decide on before a message leaves."""
    decide_include: Callable[[str, bool], None] = _not_kept
    """Keeps an answer. The files are read again afterwards, through `reload_instructions`."""
    warm_up: Callable[[], None] = _nothing
    """Heavy imports; called in a thread after the first frame."""
    history_file: Path | None = None
    theme: str = "claw-dark"
    """The name of a theme, or "auto"."""
    keep_theme: Callable[[str], str] = _no_remark
    """Keeps the choice of a theme for later starts; a remark, or nothing. Blocks."""
    show_config: Callable[[], str] = _no_text
    """The configuration in force, with where it comes from; foreign text. Blocks."""
    export: Callable[[str, str], str] = _no_export
    """(session id, file name or nothing) → where it was written. Blocks."""
    notices: tuple[Notice, ...] = ()
    """What the configuration has to say; shown above the first message."""


class StrayKeys(Message):
    """Characters that were typed before a dialog could be meant; they belong to the composer."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

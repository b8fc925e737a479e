"""What happens in a session, as typed facts for whoever shows it. The TUI, print mode and other readers see only these.

Grammar of one turn:

    TurnStarted (StepStarted delta* MessageCompleted (ToolStarted ToolProgress* ToolFinished)*)* TurnEnded

Openers are always closed; `TurnEnded` comes once and last. Tool events of parallel calls interleave. `RetryScheduled`,
`CompactionStarted/Progress/Finished`, `GaugeChanged`, `UserMessageAdded` (steering), `QueueChanged`, `SettingChanged` and
`Notice` may stand anywhere, and so do the tool events of the tool `!`, which is a command of the user's own. A slow reader
may merge deltas and must drop nothing else.
"""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from agent.tools.details import ResultDetails
from providers.types import AssistantBlock, StopReason, Usage

TurnEndReason = Literal[
    "done",
    "interrupted",
    "max_turns",
    "max_cost",
    "provider_error",
    "context_full",
    "refusal",
    "no_answer",
]


class Event(Struct, frozen=True, tag_field="type"):
    """Base of all events; `type` is the first key of their JSON form."""


class TurnStarted(Event, frozen=True, tag="turn_started"):
    session_id: str
    key: int
    """Entry of the user message that the turn answers."""


class StepStarted(Event, frozen=True, tag="step_started"):
    step: int
    """1-based within the turn."""
    model: str


class TextStreamed(Event, frozen=True, tag="text"):
    text: str
    opens_block: bool = False


class ThinkingStreamed(Event, frozen=True, tag="thinking"):
    text: str
    opens_block: bool = False


class ToolCallStreamed(Event, frozen=True, tag="tool_call"):
    """The model is writing a call's arguments; `arguments_chars` grows."""

    call_id: str
    name: str
    arguments_chars: int


class MessageCompleted(Event, frozen=True, tag="message_completed"):
    key: int
    blocks: tuple[AssistantBlock, ...]
    usage: Usage
    cost_usd: float | None
    stop_reason: StopReason
    interrupted: bool = False


class ToolStarted(Event, frozen=True, tag="tool_started"):
    call_id: str
    tool: str
    title: str
    """One line: what it acts on, for instance a path or a command's first line. Foreign text."""


class ToolProgress(Event, frozen=True, tag="tool_progress"):
    call_id: str
    text: str
    """A further piece of live output, decoded, otherwise raw."""


class ToolFinished(Event, frozen=True, tag="tool_finished"):
    call_id: str
    tool: str
    key: int
    is_error: bool
    details: ResultDetails | None
    text: str
    """What the model sees."""
    redacted: int = 0
    """How many secrets were taken out of all this."""


class TurnEnded(Event, frozen=True, tag="turn_ended"):
    reason: TurnEndReason
    error: str = ""
    """What went wrong and what to do, when the reason is no success."""


class RetryScheduled(Event, frozen=True, tag="retry_scheduled"):
    reason: str
    delay_s: float
    attempt: int
    """1-based number of the attempt that comes after the wait."""
    max_attempts: int


class CompactionStarted(Event, frozen=True, tag="compaction_started"):
    trigger: Literal["auto", "manual", "overflow"]
    tokens_before: int


class CompactionProgress(Event, frozen=True, tag="compaction_progress"):
    """Between start and end of a compaction; also while a summary is only drafted."""

    done: int
    """Calls for the summary that are over."""
    calls: int
    """All that are expected; may grow when one has to be made again."""


class CompactionFinished(Event, frozen=True, tag="compaction_finished"):
    key: int | None
    """The compaction's entry, or None if nothing was changed."""
    tokens_before: int
    tokens_after: int
    message: str = ""
    """Why nothing was changed."""
    usage: Usage = Usage()
    """Of the calls for a summary, those in vain included."""
    cost_usd: float | None = None


class GaugeChanged(Event, frozen=True, tag="gauge"):
    used_tokens: int
    is_estimate: bool
    effective_window_tokens: int
    context_window_tokens: int
    trigger_tokens: int
    cost_usd: float | None
    """Of the whole session; None while no price is known."""
    level: Literal["calm", "warning", "full"] = "calm"
    """By the thresholds in force: from the warning on, and from where it is compacted or blocked."""


class UserMessageAdded(Event, frozen=True, tag="user_message"):
    key: int
    text: str
    steering: bool = False


class QueueChanged(Event, frozen=True, tag="queue"):
    texts: tuple[str, ...]
    """What waits, in the order of delivery."""
    after_turn: int = 0
    """How many at the end wait for the end of the turn; those before them for the end of the step."""


class SettingChanged(Event, frozen=True, tag="setting"):
    provider: str
    model: str
    mode: str
    effort: str | None
    context_window_tokens: int


class Notice(Event, frozen=True, tag="notice"):
    level: Literal["info", "warning", "error"]
    text: str
    remedy: str = ""


class RecordingChanged(Event, frozen=True, tag="recording"):
    """Whether what happens is written down from now on. May come from another thread, and at any time."""

    fault: str
    """Why not; empty: it is, and everything that was kept in memory meanwhile."""
    remedy: str = ""


Emit = Callable[[Event], None]

"""The values of one compaction: what it depends on, what is worked out before the model is asked, and what comes out.

Nothing here computes anything. A failure is a value too (`NotCompacted`), and so is a summary that cannot serve.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from msgspec import Struct

from agent.context.attachments import Attachment
from agent.context.budget import ContextSettings, Thresholds
from agent.context.cut import Cut
from agent.context.meter import Meter
from agent.context.summary import Reply
from agent.transcript import Compaction, Entry, Reminder
from agent.window import Window
from providers.base import ModelRequest
from providers.models import ModelFacts
from providers.types import Usage

Trigger = Literal["auto", "manual", "overflow"]
Ask = Callable[[ModelRequest], Awaitable[Reply]]
"""Sends one request and gives the whole reply; may raise `ProviderError`."""
Progress = Callable[[int, int], None]
"""Called with how many calls are done, and how many there will be as far as is known."""


class Span(Struct, frozen=True):
    """What the user wants to be replaced; at most one of the two is set. Neither: what the cut finds."""

    first_replaced: int = 0
    """Not 0: everything from this entry on; what stands before stays."""
    first_kept: int | None = None
    """Everything before this entry, which is the first that stays."""


class CompactionInputs(Struct, frozen=True):
    """Everything a compaction depends on. `branch` and `window` may be live: they must not grow during a call here."""

    branch: Sequence[Entry]
    window: Window
    meter: Meter
    thresholds: Thresholds
    settings: ContextSettings
    facts: ModelFacts
    request: ModelRequest
    """The conversation's own request, as it would be sent now."""
    trigger: Trigger
    focus: str = ""
    """What the user wants the summary to look after."""
    span: Span = Span()
    attachments: Sequence[Attachment] = ()
    """What may be attached again, best first within a priority; see attachments.py."""
    summary_facts: ModelFacts | None = None
    """Another model writes the summary: in the rendered form, sized for that model."""
    todos: Sequence[str] = ()
    """Open to-dos, one line each."""
    jobs: Sequence[str] = ()
    """Commands that still run, one line each."""
    plan: str = ""
    can_recall: bool = True
    """Whether the model has the tool `recall`, so that it may be pointed to it."""


class NotCompacted(Struct, frozen=True):
    """Nothing is to be changed."""

    reason: str
    failed: bool
    """False where there was nothing to do; True counts for the guard."""
    final: bool = False
    """Trying again cannot help before model, instructions or tools are others."""
    remedy: str = ""
    usage: Usage = Usage()
    """Of the calls that were made in vain."""
    cost_usd: float | None = None


class Draft(Struct, frozen=True):
    """What is known before the model is asked."""

    cut: Cut
    room_tokens: int
    """Between what always stays (system, tools, instructions, pins) and the trigger."""
    output_cap: int
    """Most tokens of the summary."""
    previous: str
    """The earlier summary, which the new one brings up to date; empty if there is none."""
    head: int
    """Key of the newest entry of the branch it was made for."""
    generation: int
    """Of the window it was made for."""

    @property
    def first_kept(self) -> int:
        """Key of the first entry that stays; one past the head if none stays."""
        return self.cut.first_kept

    @property
    def first_replaced(self) -> int:
        """Key of the entry from which on everything is replaced; 0: from the beginning."""
        return self.cut.first_replaced


class CallEstimate(Struct, frozen=True):
    """What the summary will take at most, retries aside."""

    calls: int
    input_tokens: int
    output_tokens: int


class Summary(Struct, frozen=True):
    """What the calls gave. The text may be replaced by one that the user edited."""

    text: str
    fault: str | None = None
    """Why there is no usable summary."""
    usage: Usage = Usage()
    cost_usd: float | None = None
    """Of all calls together; None where no price is known."""
    remedy: str = ""
    calls: int = 0
    """How many were made, those in vain included."""


class Compacted(Struct, frozen=True):
    """What is to be appended, all in one transaction, the compaction first and next behind the branch's head."""

    payloads: tuple[Compaction | Reminder, ...]
    missing: tuple[str, ...] = ()
    """Sections that the summary does not have."""
    floor_tokens: int = 0
    """What no compaction can remove: system, tools, instructions, pins."""

    @property
    def compaction(self) -> Compaction:
        first = self.payloads[0]
        assert isinstance(first, Compaction)
        return first

    @property
    def reminders(self) -> tuple[Reminder, ...]:
        return tuple(payload for payload in self.payloads if isinstance(payload, Reminder))

    @property
    def usage(self) -> Usage:
        return self.compaction.usage

    @property
    def cost_usd(self) -> float | None:
        return self.compaction.cost_usd

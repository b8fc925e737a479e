"""The values that a compaction passes through on its way into the record, and the sentences that go with them."""

from typing import TYPE_CHECKING

from msgspec import Struct

from agent.compact_background import Base
from agent.context.compaction_values import CompactionInputs, Draft, NotCompacted, Summary, Trigger
from agent.fitting import CompactionCost
from agent.summary_writer import SummaryCalls

if TYPE_CHECKING:  # it compiles what it looks for, and few sessions ask
    from agent.context.losses import Loss


class CompactionPreview(Struct, frozen=True):
    """What a compaction would do, before a model is asked."""

    messages: int
    """That would be replaced."""
    replaced_tokens: int
    """Of these."""
    tokens_before: int
    """Of the whole window."""
    cost: CompactionCost
    """Of the summary: calls, tokens, time, money."""


class Work(Struct, frozen=True):
    """A summary, and what a compaction is finished from."""

    inputs: CompactionInputs
    draft: Draft
    summary: Summary
    calls: SummaryCalls
    base: Base


class CompactionDraft(Struct, frozen=True):
    """A compaction that is worked out and not appended."""

    summary: str
    tokens_before: int
    tokens_after: int
    cost_usd: float | None
    """Of the calls that were made for it; None while no price is known."""
    losses: "tuple[Loss, ...]"
    """What would stand in the window no more, the most important first."""
    work: Work
    """For `Drafts.accept`."""


def reason(trigger: Trigger) -> str:
    """Why a summary is needed, for whoever has to agree to its cost."""
    return {
        "auto": "The conversation is too long for this model's context window.",
        "overflow": "The provider says that the conversation is too long for this model.",
        "manual": "You asked for a summary, and the conversation does not fit into one request.",
    }[trigger]


def fault_of(summary: Summary) -> NotCompacted:
    """What an unusable summary means."""
    return NotCompacted(f"{summary.fault}; nothing was changed", failed=True, remedy=summary.remedy)

"""Whether a session fits its model's window, what it would take to make it fit, and who agrees to that.

A summary of more than three calls is a cost that somebody has to accept first: a person (`Confirm`), or `--yes` where nobody
can be asked. Nothing is sent here. Decision: the time is a guess from ordinary speeds, and no price is said where none is
known.
"""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from agent.context.budget import Thresholds
from agent.context.compaction_values import CallEstimate
from agent.events import Notice
from providers.models import ModelFacts, cost_usd
from providers.types import Usage

CALLS_UNASKED = 3
"""A summary of so many calls, retries aside, is made without asking."""
_READ_TOKENS_PER_S = 4_000
_WRITTEN_TOKENS_PER_S = 60
_CALL_S = 1.5
CHOICES = (
    "Other ways: a model with a larger window (/model, -m), clearing old results (/context), a new session (/new), "
    "or only reading this one (`claw sessions show`)."
)


class CompactionCost(Struct, frozen=True):
    """What a summary would take, to be accepted or not."""

    calls: int
    input_tokens: int
    """Of all calls together."""
    seconds: int
    cost_usd: float | None
    """None: no price is known."""
    reason: str
    """Why it is needed, in one sentence."""

    @property
    def text(self) -> str:
        """Calls, tokens, time and money in one line."""
        money = "unknown" if self.cost_usd is None else f"about ${self.cost_usd:,.2f}"
        return f"{self.calls:,} model calls, about {self.input_tokens:,} input tokens, about {_time(self.seconds)}, cost {money}"


Confirm = Callable[[CompactionCost], Awaitable[bool]]
"""Asks a person. Cancelling it takes the question back."""


def compaction_cost(estimate: CallEstimate, facts: ModelFacts, reason: str) -> CompactionCost:
    """The estimate in time and money for the model that writes the summary; nothing of it is in a cache."""
    seconds = (
        estimate.calls * _CALL_S
        + estimate.input_tokens / _READ_TOKENS_PER_S
        + estimate.output_tokens / _WRITTEN_TOKENS_PER_S
    )
    calls = max(1, estimate.calls)
    one = cost_usd(facts, Usage(estimate.input_tokens // calls, output_tokens=estimate.output_tokens // calls))
    return CompactionCost(
        estimate.calls, estimate.input_tokens, max(1, round(seconds)), None if one is None else one * calls, reason
    )


async def is_agreed(cost: CompactionCost, confirm: Confirm | None, accepted: bool) -> bool:
    """Whether a summary of that cost may be made. `accepted`: --yes was said."""
    if cost.calls <= CALLS_UNASKED or accepted:
        return True
    return confirm is not None and await confirm(cost)


def unpaid_text(cost: CompactionCost, can_ask: bool) -> str:
    """What a compaction that nobody agreed to says: what it would take, and what there is instead."""
    ways = "Agree when it asks" if can_ask else "Accept it with --yes"
    return f"A summary would take {cost.text}. {ways}. {CHOICES}"


def fit_notice(used_tokens: int, limits: Thresholds, cost: CompactionCost | None) -> Notice | None:
    """What a reader is told of a window that is too full to be sent, before anything is; None: it fits."""
    if used_tokens < limits.blocking:
        return None
    text = (
        f"This conversation has about {used_tokens:,} tokens and {limits.effective:,} fit: before the next answer it has to "
        "be made smaller."
    )
    if cost is None:
        return Notice("warning", text, CHOICES)
    asked = " You are asked first." if cost.calls > CALLS_UNASKED else ""
    return Notice("warning", f"{text} Old results are cleared first; a summary would take {cost.text}.{asked}", CHOICES)


def _time(seconds: int) -> str:
    return f"{seconds} s" if seconds < 100 else f"{round(seconds / 60)} min"

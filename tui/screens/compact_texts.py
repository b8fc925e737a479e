"""What the dialog of a compaction says: its keys at each step, what would go, what is lost, and why nothing came of it."""

from typing import TYPE_CHECKING, Literal

from tui.exact import Row
from tui.money import money
from tui.sanitize import clean
from tui.widgets.keys_row import Keys
from tui.widgets.ticks import Tickable
from tui.widgets.working import short_duration

if TYPE_CHECKING:
    from agent.compacting import CompactionPreview
    from agent.context.losses import Loss

Phase = Literal["plan", "writing", "result", "editing", "failed"]

LOST = "Lost with it; what is ticked is kept word for word:"
NOTHING_LOST = "Nothing exact is lost: all of it stands in what is kept."
KEYS: dict[Phase | Literal["bare"], Keys] = {
    "plan": (("Enter", "go on"), ("Esc", "change nothing")),
    "writing": (("Esc", "cancel"),),
    "result": (
        ("Enter", "accept"), ("Esc", "discard"), ("Space", "keep"), ("a", "all"), ("e", "edit"), ("v", "view"),
        ("PgDn", "scroll"),
    ),
    "bare": (("Enter", "accept"), ("Esc", "discard"), ("e", "edit"), ("PgDn", "scroll")),
    "editing": (("Esc", "done"),),
    "failed": (("Esc", "close"), ("PgDn", "scroll")),
}  # fmt: skip


def plan_rows(preview: "CompactionPreview") -> list[Row]:
    """What a compaction would do."""
    cost = preview.cost
    calls = "1 call" if cost.calls == 1 else f"{cost.calls:,} calls"
    return [
        Row("What a compaction would do", "title"),
        Row(""),
        Row(
            f"replaced  {_messages(preview.messages)}, {preview.replaced_tokens:,} of {preview.tokens_before:,} tokens"
        ),
        Row("kept      the newest messages, your words, the record, pins"),
        Row(
            f"asks      {calls} of the model, about {cost.input_tokens:,} tokens, at most {short_duration(cost.seconds)}"
        ),
        Row(f"cost      {money(cost.cost_usd) if cost.cost_usd is None else f'at most {money(cost.cost_usd)}'}"),
        Row(""),
        Row("The summary is shown first. Nothing changes before you accept it.", "dim"),
    ]


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"


def loss_line(loss: "Loss") -> Tickable:
    return Tickable(loss.kind, loss.text, str(loss.key))


def failed_rows(reason: str, remedy: str, cost_usd: float | None) -> list[Row]:
    """Why there is no summary. Both texts are foreign."""
    rows = [Row(line, "warning") for line in clean(reason).split("\n")]
    if remedy:
        rows.append(Row(clean(remedy)))
    if cost_usd:
        rows.append(Row(f"The calls cost {money(cost_usd)}.", "dim"))
    return rows

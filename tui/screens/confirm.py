"""The question whether a costly compaction may begin: how many calls, how long, what it costs. No is marked at first."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui.exact import Row
from tui.money import money
from tui.sanitize import clean
from tui.screens.question import Question
from tui.widgets.choices import Answerable, Choices
from tui.widgets.working import short_duration

if TYPE_CHECKING:
    from agent.fitting import CompactionCost


def cost_rows(cost: "CompactionCost") -> list[Row]:
    """All that is known before it starts."""
    rows = [Row(f"The summary needs {cost.calls:,} calls of the model. Go on?", "title")]
    if cost.reason:
        rows += [Row(clean(line), "dim") for line in cost.reason.split("\n")]
    return [
        *rows,
        Row(""),
        Row(f"sent   about {cost.input_tokens:,} tokens"),
        Row(f"time   about {short_duration(cost.seconds)}"),
        Row(f"cost   {money(cost.cost_usd)}"),
        Row(""),
        Row("Esc cancels it while it runs; nothing is changed then.", "dim"),
    ]


class ConfirmScreen(Question[bool]):
    """Dismissed with True or False, or with None when the question was taken back."""

    def __init__(self, cost: "CompactionCost") -> None:
        super().__init__(cost_rows(cost))

    def on_mount(self) -> None:
        self.query_one(Choices).marked = 1

    def answers(self, near: str | None, far: str | None) -> Sequence[Answerable]:
        return (Answerable("y", "Yes, go on", "yes", near), Answerable("n", "No, change nothing", "no"))

    def give(self, answer: Answerable) -> None:
        self.finish(answer.key == "y")

"""What the session cost: a row a model, the share that came from the provider's cache, and what that saved and lost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui.exact import Row
from tui.launch.listed_models import short_name
from tui.money import money
from tui.sanitize import one_line
from tui.screens.message import MessageScreen
from tui.widgets.status import short_tokens

if TYPE_CHECKING:
    from agent.context.cache_watch import CacheBreak
    from agent.costs import CostReport, ModelCost

MOST_BREAKS = 20


def cost_report_rows(report: "CostReport", breaks: "Sequence[CacheBreak]" = ()) -> list[Row]:
    """Money is in US dollars. `breaks`: why the cache was lost in this process, oldest first."""
    if not report.models and not report.compactions:
        return [Row("Nothing was sent yet.", "dim")]
    rows = [Row(f"{money(report.cost_usd)} in all", "title"), Row("")]
    for model in report.models:
        rows += _model_rows(model)
    if report.compactions:
        rows.append(Row(f"{_counted(report.compactions, 'compaction')}, {money(report.compactions_usd)}"))
    rows += [
        Row(""),
        Row(f"{report.cached_share:.0%} of all tokens sent came from the cache"),
        Row(f"saved by it     {money(report.saved_usd)}"),
    ]
    times = f", {_counted(report.breaks, 'time')}" if report.breaks else ""
    rows.append(Row(f"lost to breaks  {money(report.lost_usd)}{times}", "warning" if report.breaks else "text"))
    if breaks:
        rows += [Row(""), Row("Why the cache was lost", "title"), *map(_break_row, breaks[-MOST_BREAKS:])]
    return rows


def _model_rows(model: "ModelCost") -> list[Row]:
    """Two lines, so that they can be read at any width."""
    name = one_line(short_name(f"{model.provider}/{model.model}"), 60)
    share = f" ({model.cached_share:.0%})" if model.cache_read_tokens else ""
    counts = (
        f"new {short_tokens(model.input_tokens)}",
        f"cached {short_tokens(model.cache_read_tokens)}{share}",
        f"stored {short_tokens(model.cache_write_tokens)}",
        f"out {short_tokens(model.output_tokens)}",
    )
    return [
        Row(f"{name}: {_counted(model.requests, 'call')}, {money(model.cost_usd)}"),
        Row(f"tokens: {' · '.join(counts)}", "dim"),
    ]


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _break_row(lost: "CacheBreak") -> Row:
    return Row(f"{one_line(lost.reason, 90)}: {lost.missing_tokens:,} tokens anew, {money(lost.cost_usd)}")


class CostScreen(MessageScreen):
    def __init__(self, report: "CostReport", breaks: "Sequence[CacheBreak]" = ()) -> None:
        super().__init__("Cost", cost_report_rows(report, breaks))

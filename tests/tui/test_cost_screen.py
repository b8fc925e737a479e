import pytest
from msgspec.structs import replace

from agent.context.cache_watch import CacheBreak
from agent.costs import CostReport, ModelCost
from tests.tui.fake_session import COSTS, Opener
from tests.tui.harness import press, rows, running, screen_text, type_in, until
from tui.money import money
from tui.screens.cost import CostScreen, cost_report_rows

NOTHING = CostReport((), None, 0.0, None, None, 0, 0, None)


def text(report: CostReport, *breaks: CacheBreak) -> str:
    return "\n".join(row.text for row in cost_report_rows(report, breaks))


@pytest.mark.parametrize(
    ("usd", "said"),
    [
        (None, "price unknown"), (0.0, "$0.000"), (0.0004, "under $0.001"), (0.0234, "$0.023"), (0.996, "$1.00"),
        (1234.5, "$1,234.50"),
    ],
)  # fmt: skip
def test_money_is_told_apart(usd: float | None, said: str) -> None:
    assert money(usd) == said


def test_the_report_has_a_row_a_model_the_cached_share_and_both_sides_of_the_cache() -> None:
    second = ModelCost("local", "x[b]", 1, 900, 0, 0, 10, None)
    said = text(replace(COSTS, models=(*COSTS.models, second)))
    for part in (
        "$0.150 in all", "scripted/demo: 12 calls, $0.120", "cached 90.0k (93%)", "new 3.0k", "stored 4.0k",
        "out 1.5k", "local/x[b]: 1 call, price unknown", "1 compaction, $0.030", "93% of all tokens",
        "saved by it     $0.400", "lost to breaks  $0.010, 1 time",
    ):  # fmt: skip
        assert part in said


def test_nothing_sent_is_said_and_a_session_without_losses_warns_of_nothing() -> None:
    assert text(NOTHING) == "Nothing was sent yet."
    calm = cost_report_rows(replace(COSTS, breaks=0, lost_usd=0.0))
    assert all(row.kind != "warning" for row in calm) and calm[-1].text == "lost to breaks  $0.000"


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ("system", "the system prompt changed (core)"), ("tools", "the tools changed (core)"),
        ("message", "an earlier message changed (core)"), ("effort", "another effort (core)"),
        ("model", "another model (core)"), ("expired", "it had expired (core)"),
        ("provider", "the provider did not have it (core)"),
    ],
)  # fmt: skip
def test_the_causes_of_cache_breaks_are_named(cause: str, said: str) -> None:
    lost = CacheBreak(cause, "core", 12_000, 0.03)  # type: ignore[arg-type] # a parameter of the test
    assert f"{said}: 12,000 tokens anew, $0.030" in text(COSTS, lost)
    assert f"{said.removesuffix(' (core)')}: 12,000 tokens" in text(COSTS, replace(lost, name=""))


def test_of_many_breaks_the_newest_stand_there() -> None:
    many = [CacheBreak("expired", f"{n} min", 2_000, None) for n in range(50)]
    said = text(COSTS, *many)
    assert "(49 min)" in said and "(29 min)" not in said and "(30 min)" in said


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (40, 10), (80, 24)])
async def test_T66_the_screen_opens_and_closes_at_any_size(size: tuple[int, int]) -> None:
    async with running(Opener(), size=size) as (app, _):
        await type_in(app, "/cost")
        await until(lambda: isinstance(app.screen, CostScreen))
        if size == (80, 24):
            await until(lambda: "scripted/demo: 12 calls" in screen_text(app))
        await press(app, "down", "pagedown", "escape")
        await until(lambda: len(app.screen_stack) == 1)
        assert len(rows(app)) == size[1]

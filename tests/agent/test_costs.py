from collections.abc import Iterator

import pytest

from agent.costs import CostReport, cost_report
from agent.transcript import (
    Assistant,
    ClearedItem,
    Clearing,
    Compaction,
    Drop,
    Entry,
    Payload,
    Prefix,
    Setting,
    Undo,
    User,
)
from providers.models import Price
from providers.types import TextBlock, Usage, WireApi

PRICE = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)


def reply(
    usage: Usage,
    model: str = "m",
    cost: float | None = None,
    api: WireApi = "anthropic",
) -> Assistant:
    return Assistant((TextBlock("ok"),), "p", model, api, model, None, usage, "end_turn", cost_usd=cost)


def report(*payloads: Payload, price: Price | None = PRICE) -> CostReport:
    return cost_report(_entries(*payloads), lambda provider, model: price)


def _entries(*payloads: Payload) -> Iterator[Entry]:
    for key, payload in enumerate(payloads, 1):
        yield Entry(key, key - 1 or None, 0, payload)


def test_nothing_said_costs_nothing() -> None:
    assert report() == CostReport((), None, 0.0, None, None, 0, 0, None)


def test_M8_each_model_has_its_tokens_by_kind_and_its_cost() -> None:
    told = report(
        reply(Usage(100, 2_000, 300, 40), cost=0.5),
        User((TextBlock("more"),)),
        reply(Usage(10, 2_300, 0, 4), cost=0.25),
        reply(Usage(7, 0, 0, 1), "other"),
        reply(Usage(7, 0, 0, 1), "other", cost=0.125),
    )
    first, second = told.models
    assert (first.provider, first.model, first.requests) == ("p", "m", 2)
    assert (first.input_tokens, first.cache_read_tokens, first.cache_write_tokens, first.output_tokens) == (
        110, 4_300, 300, 44,
    )  # fmt: skip
    assert first.cost_usd == 0.75
    assert first.cached_share == pytest.approx(4_300 / 4_710)
    assert (second.requests, second.cost_usd) == (2, 0.125)
    assert told.cost_usd == 0.875
    assert told.cached_share == pytest.approx(4_300 / 4_724)


def test_B5_saved_money_is_the_difference_of_cache_read_price_and_input_price() -> None:
    assert report(reply(Usage(0, 1_000_000, 0, 0))).saved_usd == pytest.approx(2.7)
    assert report(reply(Usage(0, 1_000_000, 0, 0)), price=None).saved_usd is None
    same = Price(input=3.0, output=15.0)
    assert report(reply(Usage(0, 1_000_000, 0, 0)), price=same).saved_usd == 0.0


def test_a_long_request_has_the_long_price() -> None:
    price = Price(input=1.0, output=1.0, cache_read=0.1, long_above_tokens=1_000, long=PRICE)
    assert report(reply(Usage(0, 1_000_000, 0, 0)), price=price).saved_usd == pytest.approx(2.7)
    assert report(reply(Usage(0, 1_000, 0, 0)), price=price).saved_usd == pytest.approx(0.9 * 1_000 / 1e6)


@pytest.mark.parametrize("usage", [Usage(), Usage(0, 0, 0, 40)])
def test_B7_a_reply_without_a_report_is_no_request(usage: Usage) -> None:
    told = report(reply(Usage(0, 50_000, 0, 5)), reply(usage), reply(Usage(0, 50_000, 0, 5)))
    assert told.models[0].requests == 2
    assert told.breaks == 0


def test_a_reply_that_reads_less_than_was_cached_has_lost_money() -> None:
    told = report(reply(Usage(0, 0, 100_000, 0)), reply(Usage(0, 0, 101_000, 0)))
    assert told.breaks == 1
    assert told.lost_usd == pytest.approx(100_000 * (3.75 - 0.3) / 1e6)
    told = report(reply(Usage(0, 0, 100_000, 0)), reply(Usage(101_000, 0, 0, 0)))
    assert told.lost_usd == pytest.approx(100_000 * 2.7 / 1e6)


@pytest.mark.parametrize(
    "between",
    [
        Compaction("h", "s", 9, "auto", 10, 5),
        Clearing((ClearedItem(1, "x"),), "clear"),
        Drop((1,)),
        Undo((1,)),
        Prefix((), ()),
        Setting(model="m2"),
        Setting(effort="high"),
    ],
)
def test_K15_what_has_to_break_the_prefix_loses_nothing(between: Payload) -> None:
    told = report(reply(Usage(0, 0, 100_000, 0)), between, reply(Usage(0, 0, 50_000, 0)))
    assert (told.breaks, told.lost_usd) == (0, 0.0)


def test_a_small_difference_means_nothing() -> None:
    first = reply(Usage(0, 0, 100_000, 0))
    assert report(first, reply(Usage(0, 95_100, 0, 0))).breaks == 0
    assert report(first, reply(Usage(0, 94_900, 0, 0))).breaks == 1
    assert report(reply(Usage(0, 0, 2_000, 0)), reply(Usage(3_000, 1_000, 0, 0))).breaks == 0
    assert report(reply(Usage(0, 0, 1_000, 0)), reply(Usage(3_000, 0, 0, 0))).breaks == 0


def test_a_server_that_never_read_from_a_cache_loses_nothing_where_writes_are_not_told() -> None:
    plain = [reply(Usage(50_000 + n, 0, 0, 5), api="responses") for n in range(4)]
    assert report(*plain).breaks == 0
    caching = [reply(Usage(9_000, 41_000, 0, 5), api="responses"), reply(Usage(51_000, 0, 0, 5), api="responses")]
    told = report(*caching)
    assert told.breaks == 1
    assert told.lost_usd == pytest.approx(49_920 * 2.7 / 1e6)  # whole steps of 128 of the 50,000


def test_compactions_are_summed_up_by_themselves() -> None:
    told = report(
        reply(Usage(1_000, 0, 0, 0), cost=1.0),
        Compaction("h", "s", 9, "auto", 10, 5, Usage(500, 0, 0, 20), 0.25),
        Compaction("h", "s", 9, "manual", 10, 5),
    )
    assert (told.compactions, told.compactions_usd, told.cost_usd) == (2, 0.25, 1.25)
    assert told.models[0].requests == 1

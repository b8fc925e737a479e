"""What must hold with a summariser that is of no use at all, in figures."""

import pytest

from agent.context.compaction import Compacted, CompactionGuard, NotCompacted, Reply, compact
from agent.transcript import Compaction, Undo
from providers.errors import ProviderError
from providers.types import Usage
from tests.agent.context.compaction_kit import Model, commit, compacted
from tests.agent.context.talk import Talk, texts

DEMANDS = [
    f"Demand {n}: never touch <module_{n}>; use `port {40_000 + n}` and {'keep the order, ' * (n % 5)}it must stay."
    for n in range(40)
]


def fill(talk: Talk, window: int, name: str) -> None:
    """Work until the trigger is reached."""
    trigger, step = talk.inputs(window=window).thresholds.trigger, 0
    while talk.meter.used().tokens < trigger:
        talk.step(f"{name}-{step}", f"RESULT-{name}-{step} " + "word " * (window // 100))
        step += 1


@pytest.mark.parametrize("window", [32_768, 200_000])
async def test_invariant_5_forty_demands_survive_ten_compactions_by_a_summariser_that_says_ok(window: int) -> None:
    talk = Talk()
    sizes = []
    for round_ in range(10):
        for demand in DEMANDS[round_ * 4 : round_ * 4 + 4]:
            talk.user(demand)
            talk.reply("understood")
        fill(talk, window, str(round_))
        commit(talk, await compacted(talk.inputs(window=window), Model("ok")))
        sizes.append(talk.meter.used().tokens)
    shown = texts(talk.window)
    assert [demand in shown for demand in DEMANDS] == [True] * 40
    assert shown.count("# Summary of the work so far") == 1
    assert sizes[9] < sizes[0] + 3_000  # grown by the demands alone, not by old summaries


async def test_B4_ten_compactions_with_nothing_new_to_say_do_not_let_the_request_grow() -> None:
    talk = Talk()
    talk.user("REQUEST: go on until it works")
    sizes = []
    for round_ in range(10):
        fill(talk, 32_768, str(round_))
        outcome = await compacted(talk.inputs(window=32_768), Model(f"SUMMARY-{round_} " + "fact " * 300))
        commit(talk, outcome)
        sizes.append(len(outcome.compaction.text))
    shown = texts(talk.window)
    assert shown.count("REQUEST: go on until it works") == 1
    assert [f"SUMMARY-{n}" in shown for n in range(10)] == [False] * 9 + [True]
    assert max(sizes) - min(sizes) < 200


@pytest.mark.parametrize("window", [32_768, 200_000])
async def test_a_part_of_each_of_twelve_long_messages_still_stands_with_the_way_to_the_rest(window: int) -> None:
    talk = Talk()
    keys = []
    for n in range(12):
        keys.append(talk.user(f"HEAD-{n} " + "word " * 2_080 + f"TAIL-{n}"))
        talk.reply("done")
    assert all(2_590 < talk.meter.count(f"HEAD-{n} " + "word " * 2_080 + f"TAIL-{n}") < 2_620 for n in range(12))
    fill(talk, window, "x")
    commit(talk, await compacted(talk.inputs(window=window), Model("ok")))
    shown = texts(talk.window)
    for n, key in enumerate(keys):
        assert f"HEAD-{n} word" in shown
        assert f"word TAIL-{n}" in shown
        whole = f"HEAD-{n} " + "word " * 2_080 + f"TAIL-{n}" in shown  # in the tail, or still in progress
        assert whole or f"entry {key} has them" in shown
    assert shown.count("has them.]") >= 10
    assert "`recall` with `entry`" in shown


async def test_B2_one_turn_of_a_hundred_steps_that_compacts_in_its_middle_keeps_its_request_whole() -> None:
    talk = Talk()
    talk.user("an earlier request")
    talk.reply("done")
    request = "REQUEST: " + "\n".join(f"{n}. do <thing> `{n}` and ```nothing``` else" for n in range(60)) + "\nEND"
    talk.user(request)
    compactions = 0
    for step in range(100):
        talk.step(f"s{step}", f"RESULT-{step} " + "word " * 400)
        inputs = talk.inputs(window=32_768)
        if talk.meter.used().tokens >= inputs.thresholds.trigger:
            commit(talk, await compacted(inputs, Model("ok")))
            compactions += 1
            assert talk.meter.used().tokens < inputs.thresholds.trigger * 3 // 4
            first = str(talk.window.messages[0].blocks[0])
            assert "still waits for your work" in first
        assert texts(talk.window).count(request) == 1
    assert compactions >= 2


BAD: dict[str, Reply | ProviderError] = {
    "empty": Reply("", False, "end_turn", Usage(9, 0, 0, 0)),
    "cut": Reply("half of", False, "max_tokens", Usage(9, 0, 0, 1)),
    "calls a tool": Reply("I will look", True, "tool_use", Usage(9, 0, 0, 1)),
    "fails": ProviderError("boom"),
}


@pytest.mark.parametrize("times", [1, 3, 100])
@pytest.mark.parametrize("kind", BAD)
async def test_B3_T88_K7_a_summariser_that_fails_costs_at_most_three_attempts_and_no_history(
    kind: str, times: int
) -> None:
    talk, guard = Talk(), CompactionGuard()
    talk.user("REQUEST")
    fill(talk, 32_768, "x")
    attempts = failures = 0
    for step in range(12):
        inputs = talk.inputs(window=32_768)
        if talk.meter.used().tokens >= inputs.thresholds.trigger and guard.stopped() is None:
            attempts += 1
            before = talk.branch
            outcome = await compact(inputs, Model(BAD[kind] if failures < times else "ok"))
            if isinstance(outcome, NotCompacted):
                failures += 1
                assert talk.branch == before
                guard.failed("auto", outcome.final)
            else:
                guard.succeeded(outcome.compaction.tokens_before, outcome.compaction.tokens_after, outcome.floor_tokens)
                commit(talk, outcome)
        talk.step(f"more-{step}", "word " * 20)  # the run goes on
        guard.answered()
    assert failures == min(times, 3)
    assert (attempts == 3) == (times >= 3) or attempts == 2
    assert (guard.stopped() is None) == (times < 3)
    assert "REQUEST" in texts(talk.window)
    guard.reset()
    assert isinstance(await compact(talk.inputs("manual", window=32_768), Model("ok")), Compacted)


async def test_I14_the_undo_of_each_of_three_brings_the_window_before_it_back() -> None:
    talk = Talk()
    talk.user("REQUEST")
    windows, keys = [], []
    for round_ in range(3):
        fill(talk, 8_192, str(round_))
        windows.append(list(talk.window.messages))
        keys.append(commit(talk, await compacted(talk.inputs(), Model(f"S{round_}"))).key)
    for key, window in zip(reversed(keys), reversed(windows), strict=True):
        talk.append(Undo((key,)))
        assert talk.window.messages[: len(window)] == window
    assert not [e for e in talk.branch if isinstance(e.payload, Compaction) and e.key not in keys]

import asyncio

import pytest

from agent.context.compaction import Reply, Trigger, compact
from providers.base import ModelRequest
from providers.errors import ProviderError, RateLimitedError
from providers.types import Usage
from tests.agent.context.compaction_kit import SUMMARY, Model, done, full, refused
from tests.agent.context.talk import Talk


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (Reply("", False, "end_turn"), "empty"),
        (Reply("text", True, "tool_use"), "called a tool"),
        (Reply("half", False, "max_tokens"), "cut off"),
        (Reply("I cannot", False, "refusal"), "refused"),
        (Reply("long " * 9_000, False, "end_turn"), "not shorter"),
        (RateLimitedError("slow down"), "slow down"),
        (ProviderError("boom"), "boom"),
    ],
)
async def test_B3_T88_a_bad_reply_changes_nothing(answer: Reply | ProviderError, word: str) -> None:
    model = Model(answer)
    outcome = await refused(full().inputs(), model)
    assert word in outcome.reason
    assert outcome.reason.endswith("nothing was changed")
    assert outcome.failed
    assert len(model.requests) == 1


async def test_the_providers_remedy_and_what_was_spent_are_handed_on() -> None:
    outcome = await refused(full().inputs(), Model(RateLimitedError("slow down")))
    assert outcome.remedy == RateLimitedError.default_remedy
    outcome = await refused(full().inputs(), Model(Reply("", False, "end_turn", Usage(70, 0, 0, 1), 0.25)))
    assert (outcome.usage, outcome.cost_usd) == (Usage(70, 0, 0, 1), 0.25)


async def test_I13_a_cut_summary_is_tried_once_more_at_the_lowest_level() -> None:
    cut = Reply("half", False, "max_tokens", Usage(100, 0, 0, 600, 500), 0.25)
    talk = full()
    own = talk.request()
    model = Model(cut, SUMMARY)
    payload = await done(talk.inputs(efforts=("low", "high"), request=own), model)
    assert [request.effort for request in model.requests] == [None, "low"]
    assert model.requests[0].max_tokens == model.requests[1].max_tokens
    assert model.requests[0].extra == model.requests[1].extra
    assert (payload.usage.input_tokens, payload.usage.output_tokens, payload.cost_usd) == (200, 620, 0.75)


async def test_I13_still_cut_fails_and_without_a_lower_level_nothing_is_tried() -> None:
    cut = Reply("half", False, "max_tokens", Usage(100, 0, 0, 600, 500))
    model = Model(cut, cut)
    await refused(full().inputs(efforts=("low", "high")), model)
    assert len(model.requests) == 2
    model = Model(cut)
    await refused(full().inputs(efforts=()), model)
    assert len(model.requests) == 1


async def test_I13_an_ordinary_error_is_not_retried_at_a_lower_level() -> None:
    model = Model(ProviderError("boom"))
    await refused(full().inputs(efforts=("low", "high")), model)
    assert len(model.requests) == 1


async def test_C6_cancellation_goes_through_and_changes_nothing() -> None:
    talk = full()
    before = (talk.branch, list(talk.window.messages))
    started, never = asyncio.Event(), asyncio.Event()

    async def stall(request: ModelRequest) -> Reply:
        started.set()
        await never.wait()
        raise AssertionError

    task = asyncio.create_task(compact(talk.inputs(), stall))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (talk.branch, list(talk.window.messages)) == before


async def test_I13_a_cancellation_between_the_tries_stops_the_second() -> None:
    model = Model(Reply("half", False, "max_tokens", Usage(100, 0, 0, 600, 500)), SUMMARY)

    async def cancel_then_answer(request: ModelRequest) -> Reply:
        reply = await model(request)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return reply

    task = asyncio.create_task(compact(full().inputs(efforts=("low", "high")), cancel_then_answer))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(model.requests) == 1


async def test_I12_nothing_to_compact_makes_no_call_and_says_why() -> None:
    talk = Talk()
    talk.user("hello")
    model = Model()
    outcome = await refused(talk.inputs("manual"), model)
    assert outcome.reason == "there is nothing to compact: the only message stays as it is"
    assert not outcome.failed
    assert model.requests == []


@pytest.mark.parametrize("trigger", ["auto", "overflow"])
async def test_B1_where_the_users_words_are_all_there_is_no_call_is_made(trigger: Trigger) -> None:
    talk = Talk()
    talk.user("REQUEST " + "word " * 1_500)
    for step in range(8):
        talk.step(f"c{step}", "ok")
    outcome = await refused(talk.inputs(trigger), model := Model())
    assert (outcome.failed, model.requests) == (True, [])
    assert "own words" in outcome.reason


async def test_B3_a_second_compaction_with_nothing_new_makes_no_call() -> None:
    talk = full()
    talk.append(await done(talk.inputs("manual")))
    model = Model()
    outcome = await refused(talk.inputs("manual"), model)
    assert "nothing to compact" in outcome.reason
    assert model.requests == []


async def test_K7_all_compaction_off_makes_no_call() -> None:
    model = Model()
    outcome = await refused(full().inputs("manual", CLAW_DISABLE_COMPACT="1"), model)
    assert "CLAW_DISABLE_COMPACT" in outcome.reason
    assert model.requests == []

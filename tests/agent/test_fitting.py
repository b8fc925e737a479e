"""A conversation that does not fit its model's window: what is said first, who agrees to the cost, and that it goes on."""

import asyncio

import pytest

from agent.context.budget import ContextSettings, thresholds
from agent.context.compaction_values import CallEstimate
from agent.events import CompactionFinished, CompactionProgress, Notice
from agent.fitting import CompactionCost, compaction_cost, fit_notice, is_agreed, unpaid_text
from agent.transcript import Compaction, User
from providers.models import ModelFacts, Price
from tests.agent.test_session_compaction import SUMMARY, words
from tests.fakes.session_kit import Desk, Talk
from tui.launch.arguments import parse

SMALL_WINDOW = {"CLAW_CONTEXT_WINDOW": "9000"}
FACTS = ModelFacts(
    id="m",
    provider="p",
    api="anthropic",
    family="m",
    context_window_tokens=32_768,
    max_output_tokens=8_192,
    price=Price(input=3.0, output=15.0),
)
LIMITS = thresholds(FACTS, ContextSettings(), {})


async def long_session(desk: Desk, turns: int = 12) -> Talk:
    """About 25,000 tokens in a window of 200,000."""
    async with desk.open() as talk:
        for turn in range(turns):
            desk.wire.reply(words(f"answer{turn}-", 600))
            assert (await talk.session.prompt(words(f"question{turn}-", 40))).reason == "done"
    desk.env.update(SMALL_WINDOW)
    desk.wire.limit(9_000)
    desk.wire.otherwise(lambda body: SUMMARY if desk.wire.is_summary(body) else "Yes.")
    return talk


class Person:
    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.asked: list[CompactionCost] = []

    async def __call__(self, cost: CompactionCost) -> bool:
        self.asked.append(cost)
        return self.answer


@pytest.mark.parametrize("fork", [False, True])
async def test_B13_a_session_three_times_the_window_says_so_on_resume_and_fork_and_goes_on_once_agreed(
    desk: Desk, fork: bool
) -> None:
    talk = await long_session(desk)
    before = len(desk.bodies())
    async with desk.open(talk.path, fork=fork) as later:
        later.session.announce()
        (notice,) = [event for event in later.of(Notice) if "fit" in event.text]
        assert "model calls" in notice.text and "$" in notice.text and "/model" in notice.remedy
        person = Person(answer=True)
        later.session.confirm_with(person)
        assert (await later.session.prompt("go on")).reason == "done"
        (cost,) = person.asked
        assert cost.calls > 3 and cost.input_tokens > 9_000 and cost.seconds > 0 and cost.cost_usd
        finished = later.of(CompactionFinished)[-1]
        assert finished.key is not None
        progress = later.of(CompactionProgress)
        assert progress[0].done == 0 and progress[-1].done == progress[-1].calls
        assert len(desk.bodies()) - before - 1 <= cost.calls + 1
    # `limit` refuses whatever is too long, so that each request fitted.
    text = "\n".join(desk.wire.texts(desk.bodies()[-1]))
    # The window is too small for a part of each message; the first and the newest stand, the others are named.
    assert "question0-0" in text and "question11-0" in text
    assert "go on" in desk.wire.texts(desk.bodies()[-1])


async def test_B13_without_anyone_to_ask_it_ends_as_full_with_the_cost_and_yes_accepts_it(one_desk: Desk) -> None:
    desk = one_desk
    talk = await long_session(desk)
    asked = len(desk.bodies())
    async with desk.open(talk.path) as later:
        ended = await later.session.prompt("go on")
        assert ended.reason == "context_full"
        assert "model calls" in ended.error and "--yes" in ended.error and "/model" in ended.error
        assert len(desk.bodies()) == asked
    assert desk.payloads(Compaction) == []
    async with desk.open(talk.path, yes=True) as last:
        assert (await last.session.prompt("go on now")).reason == "done"
    history = "\n".join(str(entry.payload) for entry in desk.entries() if not isinstance(entry.payload, Compaction))
    assert "context window is full" not in history and "too long" not in history.lower()


async def test_what_a_person_declines_changes_nothing_and_is_asked_again_with_the_next_message(one_desk: Desk) -> None:
    desk = one_desk
    talk = await long_session(desk)
    asked = len(desk.bodies())
    async with desk.open(talk.path) as later:
        person = Person(answer=False)
        later.session.confirm_with(person)
        ended = await later.session.prompt("go on")
        assert ended.reason == "context_full" and "Agree when it asks" in ended.error
        assert (await later.session.prompt("really")).reason == "context_full"
        assert len(person.asked) == 2 and len(desk.bodies()) == asked
        declined = await later.session.compact()
        assert declined.key is None and len(person.asked) == 3
        person.answer = True
        assert (await later.session.prompt("at last")).reason == "done"
    said = [entry.payload.blocks for entry in desk.entries() if isinstance(entry.payload, User)][-3:]
    assert [str(getattr(blocks[0], "text", "")) for blocks in said] == ["go on", "really", "at last"]


async def test_a_question_that_is_open_is_taken_back_by_esc(one_desk: Desk) -> None:
    desk = one_desk
    talk = await long_session(desk)

    asked = asyncio.Event()

    async def never(cost: CompactionCost) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    async with desk.open(talk.path) as later:
        later.session.confirm_with(never)
        prompting = asyncio.ensure_future(later.session.prompt("go on"))
        await asyncio.wait_for(asked.wait(), 40)
        later.session.interrupt()
        assert (await prompting).reason == "interrupted"
        assert [event.key for event in later.of(CompactionFinished)] == [None]


async def test_a_model_with_a_smaller_window_says_so_when_it_is_chosen(one_desk: Desk) -> None:
    desk = one_desk
    with (desk.home / "config" / "config.toml").open("a") as file:
        file.write('[models."gpt-tiny"]\ncontext_window_tokens = 9000\nmax_output_tokens = 2000\n')
    async with desk.open() as talk:
        for turn in range(8):
            desk.wire.reply(words(f"answer{turn}-", 600))
            await talk.session.prompt("go on")
        assert not any("fit" in text for text in talk.notices)
        talk.session.set_model(f"{desk.wire.provider}/gpt-tiny")
        assert sum("9,000" not in text and "fit" in text for text in talk.notices) == 1
        assert "cost unknown" in next(text for text in talk.notices if "fit" in text)
        talk.session.set_model(desk.model)
        assert sum("fit" in text for text in talk.notices) == 1
        desk.wire.reply("Here.")
        assert (await talk.session.prompt("and now?")).reason == "done"


async def test_up_to_three_calls_nobody_is_asked() -> None:
    person = Person(answer=False)
    assert await is_agreed(CompactionCost(3, 1, 1, None, ""), person, accepted=False)
    assert person.asked == []
    assert not await is_agreed(CompactionCost(4, 1, 1, None, ""), person, accepted=False)
    assert not await is_agreed(CompactionCost(4, 1, 1, None, ""), None, accepted=False)
    assert await is_agreed(CompactionCost(400, 1, 1, None, ""), None, accepted=True)


def test_yes_is_said_on_the_command_line() -> None:
    assert parse(["-p", "go on", "--yes"]).yes and not parse(["-p", "go on"]).yes


def test_a_cost_is_calls_tokens_time_and_money() -> None:
    cost = compaction_cost(CallEstimate(100, 3_000_000, 80_000), FACTS, "why")
    assert cost.cost_usd == pytest.approx(3 * 3.0 + 0.08 * 15)
    assert "100 model calls" in cost.text and "3,000,000" in cost.text and "min" in cost.text and "$10.20" in cost.text
    assert "--yes" in unpaid_text(cost, can_ask=False) and "--yes" not in unpaid_text(cost, can_ask=True)


def test_what_fits_is_not_talked_about() -> None:
    assert fit_notice(LIMITS.blocking - 1, LIMITS, None) is None
    notice = fit_notice(LIMITS.blocking, LIMITS, None)
    assert notice is not None and "/model" in notice.remedy

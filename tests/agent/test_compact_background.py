"""The summary that is prepared while work goes on: when it starts, how it is taken, and when it is thrown away."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent.compact_background import Base, Growth, moved_on
from agent.events import (
    CompactionFinished,
    CompactionProgress,
    CompactionStarted,
    MessageCompleted,
    UserMessageAdded,
)
from agent.transcript import (
    ClearedItem,
    Clearing,
    Compaction,
    Drop,
    Payload,
    Pin,
    Prefix,
    Rewind,
    Setting,
    Transcript,
    Undo,
    User,
)
from providers.models import model_facts
from providers.types import ProviderConfig, TextBlock
from tests.agent.processes.marks import comes_true
from tests.agent.test_session_compaction import SUMMARY, small, words
from tests.fakes.session_kit import Desk, Talk, is_prefix

ON = ("context.background=on",)
TRIGGER = 6_400
WARNING = 4_800


def roomy(desk: Desk) -> Desk:
    """Room for several turns above what always stays."""
    return small(desk, CLAW_AUTOCOMPACT_PCT="40")


class Held:
    """The server's answers: "Yes." at once, summaries when they are let go."""

    def __init__(self, desk: Desk, summary: str = SUMMARY, hold: bool = False) -> None:
        self.desk = desk
        self.summary = summary
        self.asked = threading.Event()
        self._go = threading.Event()
        if not hold:
            self._go.set()
        desk.wire.otherwise(self._answer)

    def _answer(self, body: Any) -> str:
        if not self.desk.wire.is_summary(body):
            return words("yes-", 60)
        self.asked.set()
        assert self._go.wait(40)
        return self.summary

    def let_go(self) -> None:
        self._go.set()

    @property
    def summaries(self) -> list[Any]:
        return [body for body in self.desk.bodies() if self.desk.wire.is_summary(body)]


@pytest.fixture
def held(request: pytest.FixtureRequest) -> Iterator[Callable[..., Held]]:
    made: list[Held] = []

    def make(desk: Desk, **given: Any) -> Held:
        made.append(Held(desk, **given))
        return made[-1]

    yield make
    for one in made:
        one.let_go()


async def until_asked(talk: Talk, answers: Held, most_turns: int = 12) -> int:
    """Talk until a summary is asked for beside the turns; how many turns that took."""
    for turn in range(most_turns):
        assert (await talk.session.prompt(words(f"question{turn}-", 150))).reason == "done"
        if await asyncio.to_thread(answers.asked.wait, 0.05):
            return turn + 1
    raise AssertionError(f"no summary was asked for at {talk.session.gauge().used_tokens} tokens")


async def until_compacted(talk: Talk, first: int) -> None:
    for turn in range(first, first + 12):
        assert (await talk.session.prompt(words(f"question{turn}-", 150))).reason == "done"
        if any(event.key is not None for event in talk.of(CompactionFinished)):
            return
    raise AssertionError(f"nothing was compacted at {talk.session.gauge().used_tokens} tokens")


async def test_K10_it_is_prepared_from_the_soft_mark_on_and_swapped_in_at_the_hard_one(
    desk: Desk, held: Callable[..., Held]
) -> None:
    answers = held(roomy(desk))
    async with desk.open(config=ON) as talk:
        turns = await until_asked(talk, answers)
        assert talk.of(CompactionStarted) == []
        assert WARNING <= talk.session.gauge().used_tokens < TRIGGER
        await until_compacted(talk, turns)
        (started,), (finished,) = talk.of(CompactionStarted), talk.of(CompactionFinished)
        assert started.tokens_before >= TRIGGER > finished.tokens_after and finished.cost_usd
    assert len(answers.summaries) == 1
    bodies = desk.bodies()
    place = bodies.index(answers.summaries[0])
    # The shared form: what the conversation itself sent at that step, and one more message behind it.
    beside = [body for body in bodies[max(0, place - 1) : place + 2] if not desk.wire.is_summary(body)]
    assert any(is_prefix(desk.wire.flat(body), desk.wire.flat(bodies[place])) for body in beside)
    text = "\n".join(desk.wire.texts(bodies[-1]))
    said = [event.text for event in talk.of(UserMessageAdded)]
    # What came after the summarised part stands word for word, all before it in the record.
    assert all(desk.wire.texts(bodies[-1]).count(message) == 1 for message in said[turns:])
    assert all(text.count(message.split()[0] + " ") == 1 for message in said)
    assert "Goal of the work" in desk.wire.texts(bodies[-1])[0]
    (compaction,) = desk.payloads(Compaction)
    assert compaction.trigger == "auto" and compaction.cost_usd


async def test_K10_one_that_is_not_ready_is_waited_for_in_sight_and_esc_ends_the_wait_alone(
    desk: Desk, held: Callable[..., Held]
) -> None:
    answers = held(roomy(desk), hold=True)
    async with desk.open(config=ON) as talk:
        await until_asked(talk, answers)
        before = len(desk.entries())
        waiting = asyncio.ensure_future(talk.session.prompt(words("request-", 500)))
        await talk.seen(CompactionStarted)
        talk.session.interrupt()
        assert (await waiting).reason == "interrupted"
        assert talk.of(CompactionFinished)[-1].key is None
        assert len(desk.entries()) == before + 1 and desk.payloads(Compaction) == []
        again = asyncio.ensure_future(talk.session.prompt("go on now"))
        await talk.seen(CompactionStarted)
        talk.session.steer("typed meanwhile")
        answers.let_go()
        assert (await again).reason == "done"
        done = [event for event in talk.of(CompactionFinished) if event.key is not None]
        assert done[0].usage.output_tokens and len(answers.summaries) == len(done)
        assert CompactionProgress(1, 1) in talk.of(CompactionProgress)
    texts = desk.wire.texts(desk.bodies()[-1])
    assert texts.count("typed meanwhile") == 1
    assert texts.index("go on now") < texts.index("typed meanwhile")


async def test_K10_esc_in_a_turn_leaves_the_preparation_alone(one_desk: Desk, held: Callable[..., Held]) -> None:
    desk = one_desk
    answers = held(roomy(desk), hold=True)
    async with desk.open(config=ON) as talk:
        turns = await until_asked(talk, answers)
        desk.wire.unfinished("I think")
        asked = len(desk.bodies())
        running = asyncio.ensure_future(talk.session.prompt("short"))
        await talk.requested(asked + 1)  # else the unfinished answer would be the next request's
        talk.session.interrupt()
        assert (await running).reason == "interrupted"
        answers.let_go()
        await until_compacted(talk, turns)
    assert len(answers.summaries) == 1 and len(desk.payloads(Compaction)) == 1


@pytest.mark.parametrize("why", ["model", "by hand"])
async def test_K10_it_is_thrown_away_where_it_does_not_hold_and_its_cost_counts(
    one_desk: Desk, held: Callable[..., Held], why: str
) -> None:
    desk = one_desk
    answers = held(roomy(desk))
    async with desk.open(config=ON) as talk:
        await until_asked(talk, answers)
        await talk.session.prompt("one more")
        replies = sum(event.cost_usd or 0.0 for event in talk.of(MessageCompleted))
        assert await comes_true(lambda: (talk.session.gauge().cost_usd or 0.0) > replies)
        if why == "model":
            talk.session.set_model(f"{desk.wire.provider}/gpt-other")
        else:
            assert (await talk.session.compact()).key is not None
        void = talk.of(CompactionFinished)[0]
        assert void.key is None and "not used" in void.message and void.cost_usd
        assert talk.session.gauge().cost_usd == pytest.approx(
            replies + sum(event.cost_usd or 0.0 for event in talk.of(CompactionFinished))
        )
    assert len(desk.payloads(Compaction)) == (0 if why == "model" else 1)


async def test_T88_one_that_fails_counts_as_an_attempt_and_work_goes_on(
    one_desk: Desk, held: Callable[..., Held]
) -> None:
    desk = one_desk
    answers = held(roomy(desk), summary=" ")
    async with desk.open(config=ON) as talk:
        await until_asked(talk, answers)
        for turn in range(8):
            assert (await talk.session.prompt(words(f"later{turn}-", 150))).reason == "done"
        assert len(answers.summaries) == 3
        assert "in the background" in talk.of(CompactionFinished)[0].message
        assert sum("failed 3 times" in text for text in talk.notices) == 1
    assert desk.payloads(Compaction) == []


@pytest.mark.parametrize("config", [(), ("context.background=off",)])
async def test_K10_nothing_is_prepared_where_it_is_off_as_on_this_machine(
    one_desk: Desk, held: Callable[..., Held], config: tuple[str, ...]
) -> None:
    answers = held(roomy(one_desk))
    async with one_desk.open(config=config) as talk:
        with pytest.raises(AssertionError, match="no summary was asked for"):
            await until_asked(talk, answers, most_turns=5)
        assert talk.session.gauge().used_tokens >= WARNING


async def test_K10_a_window_that_hardly_grows_prepares_nothing(one_desk: Desk, held: Callable[..., Held]) -> None:
    desk = roomy(one_desk)
    held(desk)
    async with desk.open() as talk:  # off, to come past the warning mark
        while talk.session.gauge().used_tokens < WARNING:
            await talk.session.prompt(words("question-", 150))
    answers = held(desk)
    desk.wire.otherwise(lambda body: SUMMARY if desk.wire.is_summary(body) else "Yes.")
    async with desk.open(talk.path, config=ON) as later:
        for _ in range(4):
            await later.session.prompt("short")
        assert later.session.gauge().used_tokens > WARNING
    assert answers.summaries == []


async def test_K10_closing_ends_a_preparation(one_desk: Desk, held: Callable[..., Held]) -> None:
    answers = held(roomy(one_desk), hold=True)
    async with one_desk.open(config=ON) as talk:
        await until_asked(talk, answers)
        entries = len(one_desk.entries())
    assert len(one_desk.entries()) == entries


async def test_K14_after_the_undo_of_an_automatic_one_nothing_is_prepared(
    one_desk: Desk, held: Callable[..., Held]
) -> None:
    answers = held(roomy(one_desk))
    async with one_desk.open(config=ON) as talk:
        turns = await until_asked(talk, answers)
        await until_compacted(talk, turns)
        await talk.session.undo_compaction()
        for turn in range(3):
            await talk.session.prompt(words(f"later{turn}-", 150))
    assert len(answers.summaries) == 1


# --------------------------------------------------------------------------- whether it still holds

MODEL = model_facts(ProviderConfig("p", "anthropic"), "m")
OTHER = model_facts(ProviderConfig("p", "anthropic"), "other")
HELLO = User((TextBlock("hello"),))
HOLDS: dict[str, tuple[Payload, ...]] = {
    "talk": (HELLO, HELLO),
    "a clearing": (Clearing((ClearedItem(2, "…"),), "budget"),),
    "an effort": (Setting(effort="low"),),
    "a mode": (Setting(mode="plan"),),
    "a pin": (Pin((2,)),),
}
VOID: dict[str, tuple[Payload, ...]] = {
    "compacted": (Compaction("x", "x", 3, "manual", 1, 1),),
    "dropped": (HELLO, Drop((2,))),
    "undone": (Undo((2,)),),
    "another prefix": (HELLO, Prefix((), ())),
}


def grown(*payloads: Payload) -> tuple[Base, Transcript]:
    transcript = Transcript()
    for first in (Prefix((), ()), HELLO, HELLO):
        transcript.append(first, 0)
    base = Base.of(transcript.branch, MODEL)
    for payload in payloads:
        transcript.append(payload, 0, parent=2 if isinstance(payload, Rewind) else None)
    return base, transcript


@pytest.mark.parametrize("case", HOLDS)
def test_K10_a_summary_holds_while_the_conversation_goes_on(case: str) -> None:
    base, transcript = grown(*HOLDS[case])
    assert moved_on(base, transcript.branch, MODEL) is None
    assert moved_on(base, transcript.branch, OTHER) is not None


@pytest.mark.parametrize("case", VOID)
def test_K10_a_summary_is_void_once_the_window_is_another(case: str) -> None:
    base, transcript = grown(*VOID[case])
    assert moved_on(base, transcript.branch, MODEL) is not None


@pytest.mark.parametrize("more", [0, 1, 5])
def test_K10_a_summary_is_void_once_its_base_left_the_branch(more: int) -> None:
    base, transcript = grown(HELLO, Rewind(), *(HELLO for _ in range(more)))
    assert moved_on(base, transcript.branch, MODEL) is not None


async def test_K10_another_effort_and_cleared_results_leave_it_usable(
    one_desk: Desk, held: Callable[..., Held]
) -> None:
    answers = held(roomy(one_desk))
    async with one_desk.open(config=ON) as talk:
        turns = await until_asked(talk, answers)
        talk.session.set_effort("low")
        await until_compacted(talk, turns)
    assert len(answers.summaries) == 1


# --------------------------------------------------------------------------- the soft mark


def test_growth_is_the_mean_of_the_last_ten_steps() -> None:
    growth = Growth()
    for step in range(30):
        growth.step(1_000 * step, generation=1)
    assert growth.reaches(29_000 + 20_000) and not growth.reaches(29_000 + 20_001)
    for _ in range(10):
        growth.step(29_000, generation=1)
    assert not growth.reaches(29_001) and growth.reaches(29_000)


def test_growth_starts_anew_with_each_generation_and_one_step_says_nothing() -> None:
    growth = Growth()
    growth.step(0, generation=1)
    growth.step(50_000, generation=1)
    assert growth.reaches(100_000)
    growth.step(10_000, generation=2)
    assert not growth.reaches(10_000)
    growth.step(9_000, generation=2)
    assert not growth.reaches(10_000)

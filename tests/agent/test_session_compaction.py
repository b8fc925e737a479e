"""Compaction through the whole agent: by trigger, by hand, after an overflow; undone; and when it fails."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.events import CompactionFinished, CompactionStarted, MessageCompleted, StepStarted, TurnEnded
from agent.retry import RetryPolicy
from agent.transcript import Compaction
from tests.fakes.session_kit import Desk, Talk, is_prefix
from tests.fakes.wires import Wire

SUMMARY = "\n\n".join(
    f"## {name}\n{name} of the work: the parser."
    for name in ("Goal", "Constraints and preferences", "Progress", "Key decisions", "Next steps", "Critical context")
)
SMALL = {"CLAW_CONTEXT_WINDOW": "20000", "CLAW_AUTOCOMPACT_PCT": "34"}
"""Effective 16,000, trigger 5,440, blocking 15,520."""
TRIGGER = 5_440


def words(name: str, count: int) -> str:
    return " ".join(f"{name}{number}" for number in range(count))


async def fill(desk: Desk, talk: Talk, turns: int = 4) -> None:
    """About 800 tokens a turn, so that the trigger is near after four."""
    for turn in range(turns):
        desk.wire.reply(words(f"answer{turn}-", 190))
        assert (await talk.session.prompt(words(f"question{turn}-", 45))).reason == "done"


def small(desk: Desk, **env: str) -> Desk:
    desk.env.update({**SMALL, **env})
    return desk


def said(desk: Desk, body: Any) -> str:
    return "\n".join(desk.wire.texts(body))


async def test_by_trigger_the_older_part_becomes_a_summary_and_the_turn_goes_on(desk: Desk) -> None:
    async with small(desk).open() as talk:
        await fill(desk, talk, 5)
        before = desk.wire.flat(desk.bodies()[-1])
        desk.wire.reply(SUMMARY)
        desk.wire.reply("I go on.")
        request = words("request-", 300)
        assert (await talk.session.prompt(request)).reason == "done"
        (started,), (finished,) = talk.of(CompactionStarted), talk.of(CompactionFinished)
        assert started.trigger == "auto" and started.tokens_before >= TRIGGER
        assert finished.key is not None and finished.tokens_after < finished.tokens_before
        assert talk.session.gauge().used_tokens < TRIGGER
    summary_call, after = desk.bodies()[-2:]
    # The shared form: the conversation's own request, and one more message behind it.
    assert desk.wire.is_summary(summary_call) and is_prefix(before, desk.wire.flat(summary_call))
    text = desk.wire.texts(after)[0]
    assert "Goal of the work: the parser." in text
    for turn in range(4):
        assert words(f"question{turn}-", 45) in text
    assert request in desk.wire.texts(after)
    assert "answer0-7" not in said(desk, after)


async def test_by_hand_with_a_focus_and_a_second_one_brings_the_first_up_to_date(desk: Desk) -> None:
    async with small(desk, CLAW_AUTOCOMPACT_PCT="95").open() as talk:
        await fill(desk, talk)
        desk.wire.reply(SUMMARY)
        first = await talk.session.compact("the `parse` function")
        assert first.key is not None
        assert "the `parse` function" in desk.wire.texts(desk.bodies()[-1])[-1]
        await fill(desk, talk)
        desk.wire.reply(SUMMARY.replace("parser", "printer"))
        assert (await talk.session.compact()).key is not None
        update = desk.bodies()[-1]
        assert "An earlier summary exists" in desk.wire.texts(update)[-1]
        assert "Goal of the work: the parser." in desk.wire.texts(update)[0]
        desk.wire.reply("Here.")
        await talk.session.prompt("and now?")
    text = said(desk, desk.bodies()[-1])
    assert "the printer." in text and "the parser." not in text
    assert all(words(f"question{turn}-", 45) in text for turn in range(4))


async def test_nothing_to_compact_says_so_and_asks_nobody(desk: Desk) -> None:
    async with desk.open() as talk:
        assert (await talk.session.compact()).key is None
        desk.wire.reply("Hi.")
        await talk.session.prompt("hi")
        finished = await talk.session.compact()
        assert finished.key is None and "nothing to compact" in finished.message
    assert len(desk.bodies()) == 1


@pytest.mark.parametrize("restart", [False, True])
async def test_undone_also_after_more_talk_and_a_restart(desk: Desk, restart: bool) -> None:
    async with small(desk, CLAW_AUTOCOMPACT_PCT="95").open() as talk:
        await fill(desk, talk)
        before = desk.last_flat()
        desk.wire.reply(SUMMARY)
        assert (await talk.session.compact()).key is not None
        desk.wire.reply("More.")
        await talk.session.prompt("more talk")
        if not restart:
            assert "undone" in await talk.session.undo_compaction()
            desk.wire.reply("Back.")
            await talk.session.prompt("again")
    if restart:
        async with desk.open(talk.path) as later:
            assert "undone" in await later.session.undo_compaction()
            desk.wire.reply("Back.")
            await later.session.prompt("again")
            assert await later.session.undo_compaction() == "There is no compaction to undo."
    after = desk.last_flat()
    messages = [block for role, block in before if role not in ("tool", "system")]
    assert is_prefix(messages, [block for role, block in after if role not in ("tool", "system")])
    assert "more talk" in said(desk, desk.bodies()[-1]) and "the parser." not in said(desk, desk.bodies()[-1])


# --------------------------------------------------------------------------- when it fails


def _call(wire: Wire) -> None:
    wire.reply(SUMMARY, tools=[("read", {"path": "a"})])


def _server_error(wire: Wire) -> None:
    for _ in range(2):
        wire.overloaded()


def _stall(wire: Wire) -> None:
    for _ in range(2):
        wire.unfinished("## Goal\nand then")


def _cut(wire: Wire) -> None:
    wire.reply(SUMMARY, cut=True)


FAILURES: dict[str, Callable[[Wire], None]] = {
    "empty": lambda wire: wire.reply(" \n"),
    "cut": _cut,
    "tool call": _call,
    "longer": lambda wire: wire.reply(SUMMARY + words("more-", 6000)),
    "provider error": _server_error,
    "stall": _stall,
    "cancelled": lambda wire: wire.unfinished("## Goal"),
}
QUICK = RetryPolicy(max_attempts=2, base_delay_s=0.001, idle_timeout_s=1.0)


async def _next_request(desk: Desk, fail: str | None) -> tuple[Any, Talk]:
    """The request that comes after a failed compaction, or after none."""
    async with desk.open(
        retry_policy=QUICK if fail == "stall" else RetryPolicy(max_attempts=2, base_delay_s=0.001)
    ) as talk:
        await fill(desk, talk)
        if fail is not None:
            asked = len(desk.bodies())
            FAILURES[fail](desk.wire)
            compacting = asyncio.ensure_future(talk.session.compact())
            if fail == "cancelled":
                await talk.requested(asked + 1)
                talk.session.interrupt()
            finished = await compacting
            assert finished.key is None and "nothing was changed" in finished.message
            assert talk.of(CompactionFinished) == [finished]
            assert desk.wire.server.queued(desk.wire.requests[0].path) == 0
        desk.wire.reply("Here.")
        assert (await talk.session.prompt("and now?")).reason == "done"
    return desk.bodies()[-1], talk


@pytest.mark.parametrize("fail", FAILURES)
async def test_a_failed_one_changes_neither_transcript_nor_the_next_request(
    fail: str, desk: Desk, tmp_path: Path
) -> None:
    small(desk, CLAW_AUTOCOMPACT_PCT="95")
    body, talk = await _next_request(desk, fail)
    twin = small(Desk(desk.wire, desk.project, tmp_path / "other"), CLAW_AUTOCOMPACT_PCT="95")
    expected, other = await _next_request(twin, None)
    assert body.pop("prompt_cache_key", "") != expected.pop("prompt_cache_key", None)
    assert body == expected
    mine, others = desk.entries(talk.session.id), twin.entries(other.session.id)
    assert [(e.key, e.parent, e.payload) for e in mine] == [(e.key, e.parent, e.payload) for e in others]


async def test_a_failed_automatic_one_warns_and_goes_on_up_to_the_blocking_limit(desk: Desk) -> None:
    async with small(desk, CLAW_BLOCKING_LIMIT="7500").open() as talk:
        await fill(desk, talk)
        desk.wire.otherwise(lambda body: " " if desk.wire.is_summary(body) else "Yes.")
        ended = TurnEnded("done")
        while ended.reason == "done":
            ended = await talk.session.prompt(words("request-", 150))
        assert ended.reason == "context_full"
        assert "context window is full" in ended.error and "/compact" in ended.error
        failed = talk.of(CompactionFinished)
        assert len(failed) == 3 and all(event.key is None for event in failed)
        assert sum("failed 3 times" in text for text in talk.notices) == 1
    assert desk.payloads(Compaction) == []


# --------------------------------------------------------------------------- overflow and the floor


async def test_an_overflow_gives_one_compaction_and_one_retry(desk: Desk) -> None:
    async with desk.open() as talk:
        await fill(desk, talk)
        desk.wire.overflow()
        desk.wire.reply(SUMMARY)
        desk.wire.reply("Made it.")
        request = words("request-", 200)
        assert (await talk.session.prompt(request)).reason == "done"
        assert talk.answer == "Made it."
        assert [event.trigger for event in talk.of(CompactionStarted)] == ["overflow"]
        assert len(talk.of(StepStarted)) == 4 + 2
    summary_call, after = desk.bodies()[-2:]
    # The provider found it too long, so the transcript is rendered, without tools.
    assert "tools" not in summary_call
    assert said(desk, after).count(request) == 1


async def test_B1_an_overflow_that_stays_ends_as_full_after_one_summary(desk: Desk) -> None:
    async with desk.open() as talk:
        await fill(desk, talk)
        asked = len(desk.bodies())
        desk.wire.overflow()
        desk.wire.reply(SUMMARY)
        desk.wire.overflow()
        ended = await talk.session.prompt("go on")
        assert ended.reason == "context_full"
        assert len(desk.bodies()) == asked + 3
        # What is left is valid, and usable when there is room again.
        desk.wire.reply("Here.")
        assert (await talk.session.prompt("again")).reason == "done"
    assert "go on" in said(desk, desk.bodies()[-1])


async def test_B1_a_server_with_a_smaller_window_than_known_is_coped_with(desk: Desk) -> None:
    async with desk.open() as talk:
        await fill(desk, talk, 6)
        desk.wire.limit(6_000)
        desk.wire.reply(SUMMARY)
        desk.wire.reply("Made it.")
        request = words("request-", 300)
        assert (await talk.session.prompt(request)).reason == "done"
    assert said(desk, desk.bodies()[-1]).count(request) == 1
    assert talk.of(MessageCompleted)[-1].blocks


async def test_B1_a_floor_over_the_trigger_asks_for_no_summary_and_names_what_fills_it(desk: Desk) -> None:
    (desk.project / "CLAUDE.md").write_text(words("rule-", 2_500))
    desk.env.update(CLAW_CONTEXT_WINDOW="8192", CLAW_AUTOCOMPACT_PCT="40", CLAW_BLOCKING_LIMIT="4200")
    async with desk.open() as talk:
        desk.wire.reply(words("answer-", 60))
        assert (await talk.session.prompt("hello")).reason == "done"
        ended = await talk.session.prompt(words("question-", 500))
        assert ended.reason == "context_full"
        told = [event.message for event in talk.of(CompactionFinished) if event.message]
        assert "instructions" in told[0] and "CLAUDE.md" in told[0] and "tools" in told[0]
    assert not any(map(desk.wire.is_summary, desk.bodies()))
    assert len(desk.bodies()) == 1


async def test_B2_the_request_in_progress_survives_a_compaction_in_the_middle_of_its_turn(desk: Desk) -> None:
    (desk.project / "big.txt").write_text("\n".join(words(f"line{n}-", 12) for n in range(60)))
    request = words("request-", 120)
    async with small(desk).open() as talk:
        await fill(desk, talk, 2)
        desk.wire.reply(tools=[("read", {"path": "big.txt"})])
        desk.wire.reply(SUMMARY)
        desk.wire.reply(tools=[("glob", {"pattern": "*"})])
        desk.wire.reply("Done.")
        ended = await talk.session.prompt(request)
        assert ended.reason == "done"
        assert len(talk.of(CompactionFinished)) == 1
    after = desk.bodies()[-1]
    assert said(desk, after).count(request) == 1
    assert "The user's request in progress, word for word" in desk.wire.texts(after)[0]

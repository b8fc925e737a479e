"""Compaction where there is hardly room for it, and where it is switched off: small windows, long wishes, what is advised."""

import pytest

from agent.events import CompactionFinished, CompactionProgress, CompactionStarted
from agent.transcript import Clearing, Compaction
from providers.types import Usage
from tests.agent.test_session_compaction import SUMMARY, fill, small, words
from tests.fakes.session_kit import Desk, Talk

LARGE = {"CLAW_AUTOCOMPACT_PCT": "95"}


def sized(desk: Desk, window_tokens: int, **env: str) -> Desk:
    """The desk with a window that the server holds to as well."""
    desk.env.update(CLAW_CONTEXT_WINDOW=str(window_tokens), **env)
    desk.wire.limit(window_tokens)
    desk.wire.otherwise(lambda body: SUMMARY if desk.wire.is_summary(body) else words("answer-", 60))
    return desk


async def until_full(talk: Talk, most_turns: int = 40) -> str:
    """Talk until it goes no further; what was said then."""
    for turn in range(most_turns):
        ended = await talk.session.prompt(words(f"question{turn}-", 60))
        if ended.reason != "done":
            assert ended.reason == "context_full"
            return ended.error
    raise AssertionError("it never became full")


async def test_K11_the_calls_for_a_summary_are_never_compacted_themselves(desk: Desk) -> None:
    async with small(desk, **LARGE).open() as talk:
        await fill(desk, talk)
        entries = len(desk.entries())
        # Both would start a compaction if the conversation had said them: a report over every limit, and an overflow.
        desk.wire.overflow()
        desk.wire.reply(SUMMARY, usage=Usage(90_000, output_tokens=4_000))
        finished = await talk.session.compact()
        assert finished.key is not None
        kinds = [type(e) for e in talk.events if isinstance(e, CompactionStarted | CompactionFinished)]
        assert kinds == [CompactionStarted, CompactionFinished]
        assert talk.session.gauge().used_tokens == finished.tokens_after < finished.tokens_before
        desk.wire.reply("Here.")
        await talk.session.prompt("and now?")
        assert len(talk.of(CompactionStarted)) == 1
    added = desk.entries()[entries:]
    assert isinstance(added[0].payload, Compaction)
    assert not any(isinstance(entry.payload, Clearing) for entry in added)
    assert talk.of(CompactionProgress)[-1].done == 1


@pytest.mark.parametrize("window_tokens", [8_192, 32_768])
async def test_C4b_a_wish_as_long_as_the_window_is_cut_and_does_not_hinder_the_summary(
    one_desk: Desk, window_tokens: int
) -> None:
    desk = sized(one_desk, window_tokens)
    with (desk.home / "config" / "config.toml").open("a") as file:
        file.write('[hooks]\nPreCompact = ["seq 2000 5000"]\n')
    async with desk.open() as talk:
        for turn in range(8):
            assert (await talk.session.prompt(words(f"question{turn}-", 60))).reason == "done"
        finished = await talk.session.compact(words("wish-", 9_000))
        assert finished.key is not None, finished.message
    asked = "\n".join(desk.wire.texts(next(body for body in desk.bodies() if desk.wire.is_summary(body))))
    assert "wish-0 wish-1 " in asked and "tokens are left out here" in asked
    assert talk.session.id and len(desk.payloads(Compaction)[0].focus) < 4 * window_tokens // 8


async def test_B1_what_is_advised_can_be_done_where_compaction_is_switched_off(one_desk: Desk) -> None:
    desk = sized(one_desk, 8_192, CLAW_DISABLE_COMPACT="1")
    async with desk.open() as talk:
        told = await until_full(talk)
        assert "/compact" not in told and "/new" in told
        assert (await talk.session.compact()).key is None
    assert not any(map(desk.wire.is_summary, desk.bodies()))


async def test_B1_with_automatic_compaction_off_a_full_window_is_compacted_by_hand_and_goes_on(one_desk: Desk) -> None:
    desk = sized(one_desk, 8_192, CLAW_DISABLE_AUTO_COMPACT="1")
    async with desk.open() as talk:
        assert "/compact" in await until_full(talk)
        assert (await talk.session.compact()).key is not None
        assert (await talk.session.prompt("and now?")).reason == "done"


async def test_B1_a_window_smaller_than_tools_and_system_names_them_and_not_files_that_are_not_there(
    one_desk: Desk,
) -> None:
    desk = sized(one_desk, 2_048)
    async with desk.open() as talk:
        told = await until_full(talk)
    assert "tools" in told and "--tools" in told and "instruction files" not in told
    assert desk.bodies() == []


@pytest.mark.parametrize("window_tokens", [8_192, 32_768])
async def test_B1_a_small_window_is_compacted_again_and_again_and_never_refused(desk: Desk, window_tokens: int) -> None:
    sized(desk, window_tokens, CLAW_AUTOCOMPACT_PCT="75")
    async with desk.open() as talk:
        turns = 30 if window_tokens < 10_000 else 12
        for turn in range(turns):
            length = 60 if window_tokens < 10_000 else 600
            ended = await talk.session.prompt(words(f"question{turn}-", length))
            assert ended.reason == "done", ended.error
        compacted = [event for event in talk.of(CompactionFinished) if event.key is not None]
        assert compacted and len(talk.of(CompactionFinished)) == len(compacted)

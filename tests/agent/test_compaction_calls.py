"""The calls that a compaction makes start no compaction of their own, whatever they are told of their size."""

import pytest

from agent.context.attachments import Attachment, reattached
from agent.context.clearing import CLEARED_TEXT
from agent.context.tokens import estimate
from agent.events import CompactionFinished, CompactionStarted
from agent.transcript import Compaction
from providers.types import Usage
from tests.agent.test_session_compaction import SUMMARY, fill, small, words
from tests.fakes.session_kit import Desk


@pytest.mark.parametrize("by_hand", [True, False])
async def test_K11_a_summary_call_over_every_limit_starts_no_second_compaction(desk: Desk, by_hand: bool) -> None:
    huge = Usage(input_tokens=19_500, output_tokens=400)
    async with small(desk, **({"CLAW_AUTOCOMPACT_PCT": "95"} if by_hand else {})).open() as talk:
        await fill(desk, talk, 4 if by_hand else 5)
        before = len(desk.bodies())
        desk.wire.reply(SUMMARY, usage=huge)
        if by_hand:
            await talk.session.compact()
            assert len(desk.bodies()) == before + 1
        desk.wire.reply("I go on.")
        assert (await talk.session.prompt(words("request-", 300))).reason == "done"
        assert len(talk.of(CompactionStarted)) == len(talk.of(CompactionFinished)) == 1
        assert len(desk.bodies()) == before + 2
        assert talk.session.gauge().used_tokens < 5_440
    assert len(desk.payloads(Compaction)) == 1


def test_K9_what_stands_in_place_of_a_cleared_result_is_the_published_text() -> None:
    assert CLEARED_TEXT == "[Old tool result content cleared]"


def test_K13_everything_that_comes_back_is_50000_tokens_at_most_however_much_room_there_is() -> None:
    files = [Attachment("file", f"/p/{n}", "a line of text\n" * 4_000) for n in range(8)]
    plans = [Attachment("plan", f"plan {n}", "a step\n" * 20_000) for n in range(3)]
    found = reattached([*files, *plans], 7, 1_000_000, estimate)
    assert 49_000 < sum(estimate(reminder.text) for reminder in found) <= 50_000

"""What of a window the provider's cache covers, and what it costs to lose it."""

import pytest

from agent.context.cache_cost import cached_request, cost_of_lost, covered_messages
from agent.context.pipeline import CACHE_COLD_MS
from agent.transcript import Drop, Prefix, Setting
from providers.models import Price
from providers.types import PromptSection
from tests.agent.context.talk import TOOLS, Talk

PRICE = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)


def covered(talk: Talk, now_ms: int = 0) -> int:
    return covered_messages(cached_request(talk.branch, now_ms), talk.window)


def test_what_the_newest_answered_request_had_is_covered_up_to_the_first_change() -> None:
    talk = Talk()
    talk.user("one")
    assert covered(talk) == 0, "nothing was sent yet"
    _, result = talk.step("a", "first")
    talk.step("b", "second")
    talk.reply("done")
    assert covered(talk) == 5, "the newest reply was in no request"
    talk.user("two")
    assert covered(talk) == 5
    talk.append(Drop((result,)))
    assert covered(talk) == 1
    talk.reply("after the drop")
    assert covered(talk) == len(talk.window.messages) - 1


@pytest.mark.parametrize(
    "change",
    [Setting(model="n"), Setting(provider="q"), Prefix((PromptSection("identity", "You are new.", True),), TOOLS)],
)
def test_another_model_provider_or_prefix_leaves_nothing(change: Setting | Prefix) -> None:
    talk = Talk()
    talk.user("one")
    talk.reply("done")
    assert covered(talk) == 1
    talk.append(change)
    assert covered(talk) == 0


def test_an_expired_cache_covers_nothing() -> None:
    talk = Talk()
    talk.user("one")
    talk.reply("done")
    assert (covered(talk, CACHE_COLD_MS - 1), covered(talk, CACHE_COLD_MS)) == (1, 0)


def test_the_cost_is_writing_or_sending_anew_less_reading() -> None:
    assert cost_of_lost(None, 1_000, 1_000) is None
    assert cost_of_lost(PRICE, 1_000_000, 1_000) == pytest.approx(3.45)
    assert cost_of_lost(Price(input=3.0, output=15.0, cache_read=0.3), 1_000_000, 1_000) == pytest.approx(2.7)
    assert cost_of_lost(Price(input=3.0, output=15.0), 1_000_000, 1_000) == 0
    long = Price(input=3.0, output=15.0, long_above_tokens=10, long=Price(input=6.0, output=15.0, cache_read=1.0))
    assert cost_of_lost(long, 1_000_000, 11) == pytest.approx(5.0)
    assert cost_of_lost(long, 1_000_000, 10) == 0

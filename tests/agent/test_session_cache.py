"""The prompt cache as a session sees it: a server that really caches what it gets, prefix by prefix."""

from typing import Any

import pytest

from agent.costs import left_in_cache
from agent.events import Notice
from providers.types import Usage
from tests.agent.test_session_compaction import SUMMARY
from tests.fakes.anthropic_wire import MESSAGES, MessageStream
from tests.fakes.model_server import RecordedRequest, Reply
from tests.fakes.responses_wire import RESPONSES, ResponseStream
from tests.fakes.session_kit import Desk
from tests.fakes.wires import AnthropicSide, Flat

LONG = "".join(f"line {n} of a long file\n" for n in range(200))


class CachingServer:
    """Reads from its cache what the request has in common with the one before; 50 tokens a block, or a quarter of its text."""

    def __init__(self, desk: Desk) -> None:
        self.wire = desk.wire
        self.before: Flat = []
        self.steps = 4
        self.asked = 0
        for path in (MESSAGES, RESPONSES):
            desk.wire.server.always(path, self.answer)

    def forget(self) -> None:
        self.before = []

    def answer(self, request: RecordedRequest) -> Reply:
        body = request.json
        flat = self.wire.flat(body)
        same = next((n for n, (a, b) in enumerate(zip(flat, self.before, strict=False)) if a != b), None)
        common = min(len(flat), len(self.before)) if same is None else same
        read, whole = (sum(_tokens(block) for block in part) for part in (flat[:common], flat))
        summary = self.wire.is_summary(body)
        if not summary:
            self.before = flat
            self.asked += 1
        calls = [] if summary or self.asked % self.steps == 0 else [{"path": "a.txt", "limit": 150 + self.asked}]
        text = SUMMARY if summary else "On it."
        if isinstance(self.wire, AnthropicSide):
            usage = {
                "input_tokens": 5,
                "cache_read_input_tokens": read,
                "cache_creation_input_tokens": whole - read,
                "output_tokens": 9,
            }
            stream = MessageStream(self.wire.model, usage).text(text)
            for call in calls:
                stream.tool("read", call)
            return stream.stop("tool_use" if calls else "end_turn").reply_at_once()
        cached = read // 128 * 128
        answer = ResponseStream(
            self.wire.model,
            {"input_tokens": whole, "input_tokens_details": {"cached_tokens": cached}, "output_tokens": 9},
        ).text(text)
        for call in calls:
            answer.tool("read", call)
        return answer.complete().reply_at_once()


def _tokens(block: Any) -> int:
    return 50 + len(str(block)) // 4


async def test_K15_a_long_session_with_compaction_undo_and_steering_gives_no_false_alarm(desk: Desk) -> None:
    (desk.project / "a.txt").write_text(LONG)
    CachingServer(desk)
    async with desk.open() as talk:
        for turn in range(3):
            await talk.session.prompt(f"turn {turn}")
            (desk.project / "a.txt").write_text(LONG + f"{turn}\n")
        assert (await talk.session.compact()).key is not None
        await talk.session.prompt("go on")
        await talk.session.undo_compaction()
        await talk.session.prompt("go on")
        assert talk.session.cache_breaks() == ()
        costs = talk.session.costs()
        assert costs.breaks == 0
        assert costs.compactions == 1
        assert costs.cached_share > 0.5
        assert costs.saved_usd == pytest.approx(talk.usage.cache_read_tokens * 2.7 / 1e6)


async def test_a_provider_that_forgets_is_found_out_and_the_loss_has_a_price(desk: Desk) -> None:
    (desk.project / "a.txt").write_text(LONG)
    server = CachingServer(desk)
    async with desk.open() as talk:
        await talk.session.prompt("first")
        server.forget()
        await talk.session.prompt("second")
        (lost,) = talk.session.cache_breaks()
        assert lost.cause == "provider"
        costs = talk.session.costs()
        assert costs.breaks == 1
        assert lost.cost_usd == pytest.approx(costs.lost_usd)
        assert lost.missing_tokens > 1_024


async def test_what_a_break_cost_is_told_when_it_happens(desk: Desk) -> None:
    (desk.project / "a.txt").write_text(LONG * 8)
    server = CachingServer(desk)
    async with desk.open() as talk:
        await talk.session.prompt("first " + LONG * 8)
        assert [event for event in talk.events if isinstance(event, Notice)] == []
        server.forget()
        await talk.session.prompt("second")
        [notice] = [event for event in talk.events if isinstance(event, Notice)]
        (lost,) = talk.session.cache_breaks()
        assert f"{lost.missing_tokens:,} tokens were read anew" in notice.text and lost.reason in notice.text


async def test_another_effort_is_named(desk: Desk) -> None:
    (desk.project / "a.txt").write_text(LONG)
    server = CachingServer(desk)
    async with desk.open() as talk:
        await talk.session.prompt("first")
        talk.session.set_effort("high")
        server.forget()
        await talk.session.prompt("second")
        (lost,) = talk.session.cache_breaks()
        assert (lost.cause, lost.name) == ("effort", "default → high")


def test_what_is_left_in_a_cache_is_what_the_api_tells() -> None:
    assert left_in_cache(Usage(5, 4_000, 1_000, 9), "anthropic", False) == 5_000
    assert left_in_cache(Usage(1_000, 4_000, 0, 9), "responses", True) == 4_992

"""What servers report of tokens, and what the gauge makes of it."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from agent.events import CompactionStarted, GaugeChanged
from providers.types import Usage
from tests.agent.test_session_compaction import SUMMARY
from tests.fakes.anthropic_wire import MessageStream
from tests.fakes.model_server import ModelServer, RecordedRequest, Reply, stream_reply
from tests.fakes.responses_wire import ResponseStream
from tests.fakes.session_kit import Desk
from tests.fakes.wires import AnthropicSide


async def test_B5_cached_tokens_are_counted_once_and_priced_apart(desk: Desk) -> None:
    desk.wire.reply("Yes.", usage=Usage(100, 60_000, 500, 40))
    async with desk.open() as talk:
        await talk.session.prompt("hi")
        gauge = talk.session.gauge()
        assert gauge.used_tokens == 60_600 + 40 and not gauge.is_estimate
        assert gauge.cost_usd == pytest.approx((100 * 3 + 60_000 * 0.3 + 500 * 3.75 + 40 * 15) / 1e6)


def silent(desk: Desk, text: str = "Yes.") -> bytes:
    """A whole reply that says nothing about tokens."""
    if isinstance(desk.wire, AnthropicSide):
        return re.sub(rb'"usage": {[^}]*}', b'"usage": null', MessageStream().text(text).stop().data)
    stream = ResponseStream().text(text)
    stream.add("response.completed", response={"id": "r", "status": "completed", "output": stream.items, "usage": None})
    return stream.data


async def test_B7_without_any_report_the_gauge_estimates_and_says_so_and_compaction_still_comes(desk: Desk) -> None:
    desk.env.update(CLAW_CONTEXT_WINDOW="20000", CLAW_AUTOCOMPACT_PCT="40")
    story = "這是一個關於編譯器的長故事。" * 60

    def answer(request: RecordedRequest) -> Reply:
        return stream_reply(silent(desk, SUMMARY if desk.wire.is_summary(request.json) else story))

    for path in ("/v1/messages", "/v1/responses"):
        desk.wire.server.always(path, answer)
    async with desk.open() as talk:
        turns = 0
        while not talk.of(CompactionStarted):
            assert turns < 20
            assert (await talk.session.prompt(f"question {turns}")).reason == "done"
            gauge = talk.session.gauge()
            assert gauge.is_estimate and gauge.cost_usd is None
            turns += 1
        # About 700 tokens a turn: a count by characters would have come three times as late.
        assert 4 <= turns <= 9, turns


USAGE_EVENTS: dict[str, Callable[[MessageStream], MessageStream]] = {
    "in every event": lambda s: s.text("Yes.").raw(delta(5)).raw(delta(9)).stop(usage={"output_tokens": 12}),
    "null at the end": lambda s: s.text("Yes.").raw(delta(12)).raw(delta(None)).stop(),
    "only at the end": lambda s: s.text("Yes.").stop(usage={"input_tokens": 2000, "output_tokens": 12}),
    "negative": lambda s: s.text("Yes.").stop(usage={"output_tokens": -5}),
}


def delta(output: int | None) -> bytes:
    usage = "null" if output is None else f'{{"output_tokens": {output}}}'
    return (
        b'event: message_delta\ndata: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": '
        + usage.encode()
        + b"}\n\n"
    )


@pytest.mark.parametrize("case", USAGE_EVENTS)
async def test_B7_reports_in_odd_places_are_never_doubled_and_never_negative(
    model_server: ModelServer, case: str, tmp_path: Any
) -> None:
    (tmp_path / "p").mkdir()
    desk = Desk(AnthropicSide(model_server), tmp_path / "p", tmp_path / "home")
    stream = USAGE_EVENTS[case](MessageStream(usage={"input_tokens": 2000}))
    if case == "only at the end":
        stream.events[0] = re.sub(rb'"usage": {[^}]*}', b'"usage": null', stream.events[0])
    model_server.anthropic.stream(stream)
    async with desk.open() as talk:
        assert (await talk.session.prompt("hi")).reason == "done"
        assert talk.usage.input_tokens == 2000
        assert 0 <= talk.usage.output_tokens <= 12
        assert all(event.used_tokens >= 0 for event in talk.of(GaugeChanged))
        assert 2000 <= talk.session.gauge().used_tokens <= 2020

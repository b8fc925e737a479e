"""The loop against a host that notes what it is asked for: the order of things, and how a turn ends."""

import asyncio
from collections.abc import Sequence

import pytest

from agent.events import Event, StepStarted, TurnEnded, TurnStarted
from agent.loop import ContextFullError, run_turn
from agent.reactions import CUT_CALL_TEXT, CUT_RESULT, MAX_CUT_CALLS
from agent.transcript import Assistant
from providers.base import ModelRequest
from providers.errors import BadRequestError, ContextOverflowError, ProviderError, ServerError
from providers.types import StopReason, TextBlock, ToolCall, Usage

STARTED = TurnStarted("s", 1)
CALL = ToolCall("a", "read", "{}")


def reply(*blocks: TextBlock | ToolCall, stop: StopReason = "end_turn") -> Assistant:
    return Assistant(blocks, "p", "m", "anthropic", "m", None, Usage(1), stop)


TEXT = reply(TextBlock("Done."))
CALLS = reply(CALL, stop="tool_use")
CUT_CALLS = reply(CALL, stop="max_tokens")


class Host:
    model = "m"

    def __init__(self, *replies: Assistant | BaseException) -> None:
        self.replies = list(replies)
        self.did: list[str] = []
        self.steering = 0
        self.can_compact = True
        self.attachments = 0
        self.over = False
        self.full = False
        self.on_calls: BaseException | None = None

    async def prepare(self) -> ModelRequest:
        self.did.append("prepare")
        if self.full:
            raise ContextFullError("It is full.\nMake room.")
        return ModelRequest("m", (), (), [], 0, 0, 1)

    async def reply(self, request: ModelRequest) -> Assistant:
        self.did.append("reply")
        answer = self.replies.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def run_calls(self, calls: Sequence[ToolCall]) -> None:
        self.did.append("run")
        if self.on_calls is not None:
            raise self.on_calls

    def refuse_calls(self, calls: Sequence[ToolCall], text: str) -> None:
        self.did.append(f"refuse {text}")

    def go_on(self, text: str) -> None:
        self.did.append(f"go on {text}")

    def raise_output_cap(self) -> None:
        self.did.append("cap")

    async def compact_overflow(self) -> bool:
        self.did.append("compact")
        return self.can_compact

    def take_out_attachment(self, error: ProviderError) -> bool:
        if self.attachments and isinstance(error, BadRequestError):
            self.attachments -= 1
            self.did.append("take out")
            return True
        return False

    def deliver_steering(self) -> bool:
        self.did.append("steering")
        self.steering -= 1
        return self.steering >= 0

    def over_budget(self) -> bool:
        return self.over

    def close_calls(self) -> None:
        self.did.append("close calls")

    async def settle(self) -> None:
        self.did.append("settle")


async def play(host: Host, max_steps: int | None = None) -> tuple[TurnEnded, list[Event]]:
    events: list[Event] = []
    ended = await run_turn(host, STARTED, events.append, max_steps)
    assert events[0] == STARTED and events[-1] == ended
    assert sum(isinstance(event, TurnEnded) for event in events) == 1
    return ended, events


async def test_a_turn_asks_runs_delivers_and_ends_when_everything_is_on_disk() -> None:
    host = Host(CALLS, TEXT)
    ended, events = await play(host)
    assert ended == TurnEnded("done")
    assert host.did == [
        "prepare", "reply", "run", "steering",
        "prepare", "reply", "close calls", "settle", "steering",
    ]  # fmt: skip
    assert events == [STARTED, StepStarted(1, "m"), StepStarted(2, "m"), ended]


async def test_a_message_that_came_in_meanwhile_keeps_the_turn_going() -> None:
    host = Host(TEXT, TEXT)
    host.steering = 1
    assert (await play(host))[0] == TurnEnded("done")
    assert host.did.count("reply") == 2


@pytest.mark.parametrize("reason", ["max_turns", "max_cost"])
async def test_limits_are_looked_at_before_each_call(reason: str) -> None:
    host = Host(CALLS, CALLS)
    host.over = reason == "max_cost"
    ended, _ = await play(host, 2 if reason == "max_turns" else None)
    assert ended.reason == reason
    assert host.did.count("reply") == (2 if reason == "max_turns" else 0)
    assert host.did[-1] == "settle"


async def test_an_overflow_is_compacted_and_tried_again_once() -> None:
    host = Host(ContextOverflowError("too long"), TEXT)
    assert (await play(host))[0] == TurnEnded("done")
    assert host.did[:4] == ["prepare", "reply", "compact", "prepare"]


@pytest.mark.parametrize("can_compact", [True, False])
async def test_B1_an_overflow_that_stays_ends_the_turn_as_full(can_compact: bool) -> None:
    host = Host(ContextOverflowError("too long"), ContextOverflowError("too long"))
    host.can_compact = can_compact
    ended, _ = await play(host)
    assert ended.reason == "context_full" and ended.error.startswith("too long\n")
    assert host.did.count("compact") == 1
    assert host.did.count("reply") == (2 if can_compact else 1)


async def test_a_later_overflow_of_the_same_turn_is_another_one() -> None:
    host = Host(ContextOverflowError("too long"), CALLS, ContextOverflowError("too long"), TEXT)
    assert (await play(host))[0] == TurnEnded("done")
    assert host.did.count("compact") == 2


async def test_an_attachment_that_is_too_large_is_taken_out_and_the_request_sent_once_more() -> None:
    host = Host(BadRequestError("image too large"), TEXT)
    host.attachments = 5
    assert (await play(host))[0] == TurnEnded("done")
    assert host.did[:4] == ["prepare", "reply", "take out", "prepare"]
    host = Host(BadRequestError("image too large"), BadRequestError("image too large"), TEXT)
    host.attachments = 5
    assert (await play(host))[0].reason == "provider_error"
    assert host.did.count("take out") == 1


async def test_a_window_that_cannot_fit_says_what_to_do() -> None:
    host = Host()
    host.full = True
    assert (await play(host))[0] == TurnEnded("context_full", "It is full.\nMake room.")


async def test_a_providers_failure_ends_the_turn_with_its_words() -> None:
    host = Host(ServerError("It broke.", remedy="Wait."))
    assert (await play(host))[0] == TurnEnded("provider_error", "It broke.\nWait.")
    assert host.did[-2:] == ["close calls", "settle"]


async def test_T67_an_interruption_answers_the_calls_and_is_not_raised_again() -> None:
    host = Host(CALLS)
    host.on_calls = asyncio.CancelledError()
    assert (await play(host))[0] == TurnEnded("interrupted")
    assert host.did[-3:] == ["run", "close calls", "settle"]


async def test_a_defect_in_the_host_still_ends_the_turn_for_those_who_watch() -> None:
    host, events = Host(CALLS), list[Event]()
    host.on_calls = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await run_turn(host, STARTED, events.append)
    assert events[-1] == TurnEnded("interrupted")


async def test_a_model_that_is_always_cut_off_inside_calls_comes_to_an_end() -> None:
    host = Host(*[CUT_CALLS] * 20)
    ended, _ = await play(host)
    assert ended == TurnEnded("done")
    assert host.did.count("reply") == 2 + MAX_CUT_CALLS
    assert host.did.count(f"refuse {CUT_RESULT}") == 1 + MAX_CUT_CALLS
    assert host.did.count(f"go on {CUT_CALL_TEXT}") == 1
    assert host.did[-3] == "close calls"

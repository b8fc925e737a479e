"""A side question sees the conversation and leaves nothing in it."""

import asyncio

import pytest

from agent.events import GaugeChanged, RetryScheduled, ToolStarted
from agent.retry import RetryPolicy
from providers.errors import ProviderError
from tests.fakes.session_kit import Desk

pytestmark = pytest.mark.usefixtures("desk")


def ignore(retry: RetryScheduled) -> None:
    raise AssertionError(retry)


async def test_a_side_question_sees_the_conversation_and_leaves_no_trace(desk: Desk) -> None:
    async with desk.open() as talk:
        desk.wire.reply("The answer is blue.")
        await talk.session.prompt("What colour?")
        entries, before = desk.entries(), desk.last_flat()
        pieces: list[str] = []
        desk.wire.reply("You asked for a colour.")
        answer = await talk.session.ask_aside("What did I ask?", pieces.append, ignore)
        assert answer.text == "".join(pieces) == "You asked for a colour." and not answer.wanted_tool
        asked = desk.last_flat()
        assert asked[: len(before)] == before and "What did I ask?" in str(asked[-1]) and "blue" in str(asked[-2])
        assert desk.bodies()[-1]["model"] == desk.wire.model
        assert desk.entries() == entries
        desk.wire.reply("Green then.")
        await talk.session.prompt("And now?")
        after = desk.last_flat()
        assert after[: len(before)] == before and "What did I ask?" not in str(after)
        assert "You asked for a colour." not in str(after)


async def test_what_it_costs_is_counted(desk: Desk) -> None:
    async with desk.open() as talk:
        desk.wire.reply("hello")
        await talk.session.prompt("hi")
        before = talk.session.gauge()
        desk.wire.reply("x")
        answer = await talk.session.ask_aside("?", lambda text: None, ignore)
        after = talk.of(GaugeChanged)[-1]
        assert (
            answer.cost_usd and before.cost_usd and after.cost_usd == pytest.approx(before.cost_usd + answer.cost_usd)
        )
        assert after.used_tokens == before.used_tokens


async def test_it_can_be_asked_before_the_first_message(desk: Desk) -> None:
    async with desk.open() as talk:
        desk.wire.reply("A coding agent.")
        answer = await talk.session.ask_aside("What are you?", lambda text: None, ignore)
        assert answer.text == "A coding agent." and not list(desk.folder.glob("*.db"))
        first = desk.last_flat()
        desk.wire.reply("hello")
        await talk.session.prompt("hi")
        assert desk.last_flat()[: len(first) - 1] == first[:-1], "the same tools and system"


async def test_a_tool_that_it_wants_does_not_run(desk: Desk) -> None:
    async with desk.open() as talk:
        desk.wire.reply("Let me look.", tools=[("write", {"path": "x.txt", "content": "no"})])
        answer = await talk.session.ask_aside("What is in it?", lambda text: None, ignore)
        assert answer.text == "Let me look." and answer.wanted_tool == "write"
        assert not (desk.project / "x.txt").exists() and talk.results == []


async def test_it_can_be_asked_while_a_turn_runs_and_disturbs_nothing(desk: Desk) -> None:
    async with desk.open() as talk:
        desk.wire.reply(tools=[("bash", {"command": "while [ ! -e go ]; do sleep 0.02; done"})])
        turn = asyncio.create_task(talk.session.prompt("Wait for it."))
        await talk.seen(ToolStarted)
        desk.wire.reply("It waits.")
        answer = await talk.session.ask_aside("What happens?", lambda text: None, ignore)
        assert answer.text == "It waits." and talk.session.running
        desk.wire.reply("Done.")
        (desk.project / "go").write_text("")
        assert (await turn).reason == "done"
        assert talk.answer == "Done." and "What happens?" not in str(desk.last_flat())


async def test_cancelling_it_ends_the_call_and_the_session_goes_on(desk: Desk) -> None:
    async with desk.open() as talk:
        desk.wire.silence()
        asking = asyncio.create_task(talk.session.ask_aside("?", lambda text: None, ignore))
        await talk.requested(1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        desk.wire.reply("hello")
        assert (await talk.session.prompt("hi")).reason == "done"


async def test_a_failure_is_the_providers_own(desk: Desk) -> None:
    async with desk.open(retry_policy=RetryPolicy(max_attempts=2, base_delay_s=0.0)) as talk:
        told: list[RetryScheduled] = []
        desk.wire.overloaded()
        desk.wire.overloaded()
        with pytest.raises(ProviderError):
            await talk.session.ask_aside("?", lambda text: None, told.append)
        assert len(told) == 1
        desk.wire.reply("hello")
        assert (await talk.session.prompt("hi")).reason == "done"

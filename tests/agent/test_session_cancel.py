"""Interrupting a turn at every place where it can wait: what came is kept, all calls are answered, the next request is valid."""

import asyncio
import os
from pathlib import Path

import pytest

from agent.calls import NOT_STARTED
from agent.events import MessageCompleted, RetryScheduled, TextStreamed, ToolCallStreamed, ToolProgress, TurnEnded
from agent.retry import RetryPolicy
from agent.transcript import Assistant, Result
from providers.types import TextBlock, ToolCall
from tests.fakes.session_kit import Approver, Desk, Talk

INTERRUPTED = TurnEnded("interrupted")


async def then_go_on(desk: Desk, talk: Talk) -> None:
    """The session works afterwards: in this process, and in the next."""
    desk.wire.reply("Here I am.")
    assert (await talk.session.prompt("go on")).reason == "done"
    assert talk.answer == "Here I am."
    assert talk.of(TurnEnded)[0] == INTERRUPTED


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


async def test_T67_while_waiting_for_the_first_byte(desk: Desk) -> None:
    desk.wire.silence()
    async with desk.open() as talk:
        turn = asyncio.ensure_future(talk.session.prompt("hi"))
        await talk.requested(1)
        talk.session.interrupt()
        assert await turn == INTERRUPTED
        assert talk.of(MessageCompleted)[0].blocks == ()
        await asyncio.to_thread(desk.wire.requests[0].client_left.wait, 40)
        assert desk.wire.requests[0].client_left.is_set()
        await then_go_on(desk, talk)
    first, _ = desk.payloads(Assistant)
    assert first.interrupted and first.blocks == ()


async def test_T67_in_the_middle_of_a_text(desk: Desk) -> None:
    desk.wire.unfinished("This is half of")
    async with desk.open() as talk:
        turn = asyncio.ensure_future(talk.session.prompt("hi"))
        await talk.seen(TextStreamed)
        talk.session.interrupt()
        assert await turn == INTERRUPTED
        await then_go_on(desk, talk)
    first, _ = desk.payloads(Assistant)
    (text,) = first.blocks
    assert first.interrupted and isinstance(text, TextBlock) and "This is half of".startswith(text.text)
    assert text.text and any(text.text in str(block) for role, block in desk.last_flat() if role == "assistant")


async def test_T67_in_the_middle_of_a_calls_arguments(desk: Desk) -> None:
    desk.wire.unfinished("I write.", ("write", {"path": "a.txt", "content": "x" * 200}))
    async with desk.open() as talk:
        turn = asyncio.ensure_future(talk.session.prompt("hi"))
        await talk.seen(ToolCallStreamed, lambda event: event.arguments_chars > 20)
        talk.session.interrupt()
        assert await turn == INTERRUPTED
        await then_go_on(desk, talk)
    first, _ = desk.payloads(Assistant)
    assert [b.finished for b in first.blocks if isinstance(b, ToolCall)] == [False]
    assert not (desk.project / "a.txt").exists()
    assert desk.payloads(Result) == []
    assert "write" not in [block.get("name") for role, block in desk.last_flat() if role == "assistant"]


async def test_T67_T93_after_a_whole_call_in_a_reply_that_goes_on(desk: Desk) -> None:
    desk.wire.unfinished("and more", calls=[("write", {"path": "a.txt", "content": "x"})])
    async with desk.open() as talk:
        turn = asyncio.ensure_future(talk.session.prompt("hi"))
        await talk.seen(TextStreamed)
        talk.session.interrupt()
        assert await turn == INTERRUPTED
        assert [result.text for result in talk.results] == [NOT_STARTED]
        await then_go_on(desk, talk)
    assert not (desk.project / "a.txt").exists()


async def test_T67_while_a_command_runs_its_processes_end_and_its_output_stays(desk: Desk) -> None:
    command = "sleep 60 & echo $! $$; wait"
    desk.wire.reply(tools=[("bash", {"command": command}), ("glob", {"pattern": "*"})])
    async with desk.open() as talk:
        turn = asyncio.ensure_future(talk.session.prompt("hi"))
        output = await talk.seen(ToolProgress)
        pids = [int(word) for word in output.text.split()]
        assert all(map(alive, pids))
        talk.session.interrupt()
        assert await turn == INTERRUPTED
        assert not any(map(alive, pids))
        running, behind = talk.results
        assert running.is_error and running.text.startswith(output.text.strip()) and "Interrupted" in running.text
        assert behind.text == NOT_STARTED
        await then_go_on(desk, talk)
    assert any("Interrupted" in text for text in desk.wire.texts(desk.bodies()[-1]))


async def test_T67_while_a_person_is_asked(desk: Desk) -> None:
    desk.wire.reply(tools=[("write", {"path": "a.txt", "content": "x"})])
    approver = Approver(None)
    async with desk.open(approver=approver, mode="ask") as talk:
        turn = asyncio.ensure_future(talk.session.prompt("hi"))
        await approver.asked.wait()
        talk.session.interrupt()
        assert await turn == INTERRUPTED
        assert [result.text for result in talk.results] == [NOT_STARTED]
        await then_go_on(desk, talk)
    assert not (desk.project / "a.txt").exists()


async def test_T67_while_waiting_for_another_try(desk: Desk) -> None:
    desk.wire.overloaded()
    async with desk.open(retry_policy=RetryPolicy(base_delay_s=1e6, max_delay_s=1e6)) as talk:
        turn = asyncio.ensure_future(talk.session.prompt("hi"))
        await talk.seen(RetryScheduled)
        talk.session.interrupt()
        assert await turn == INTERRUPTED
        await then_go_on(desk, talk)


async def test_interrupting_twice_ends_the_turn_once(desk: Desk) -> None:
    desk.wire.reply(tools=[("bash", {"command": "trap '' TERM; echo up; sleep 60"})])
    async with desk.open() as talk:
        turn = asyncio.ensure_future(talk.session.prompt("hi"))
        await talk.seen(ToolProgress)
        talk.session.interrupt()
        await asyncio.sleep(0)
        talk.session.interrupt()
        assert await turn == INTERRUPTED
        assert len(talk.of(TurnEnded)) == 1
        await then_go_on(desk, talk)


async def test_closing_a_session_interrupts_what_runs(desk: Desk) -> None:
    desk.wire.unfinished("half")
    async with desk.open() as talk:
        turn = asyncio.ensure_future(talk.session.prompt("hi"))
        await talk.seen(TextStreamed)
        await talk.session.close()
        assert await turn == INTERRUPTED
    assert desk.payloads(Assistant)[0].interrupted


async def test_a_cancelled_caller_cancels_the_turn_and_leaves_it_valid(desk: Desk) -> None:
    desk.wire.unfinished("half")
    async with desk.open() as talk:
        turn = asyncio.ensure_future(talk.session.prompt("hi"))
        await talk.seen(TextStreamed)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert talk.ended == INTERRUPTED
        assert not talk.session.running
        await then_go_on(desk, talk)


async def test_a_reply_that_breaks_off_for_good_is_kept_and_its_call_never_runs(desk: Desk) -> None:
    desk.wire.unfinished("half of", ("write", {"path": "a.txt", "content": "x"}), end="rst")
    async with desk.open(retry_policy=RetryPolicy(max_attempts=1)) as talk:
        ended = await talk.session.prompt("hi")
        assert ended.reason == "provider_error"
        desk.wire.reply("Again.")
        assert (await talk.session.prompt("again")).reason == "done"
    first, _ = desk.payloads(Assistant)
    assert first.interrupted and isinstance(first.blocks[0], TextBlock)
    assert not (desk.project / "a.txt").exists()


async def test_a_reply_that_breaks_off_is_asked_for_again_and_kept_once(desk: Desk) -> None:
    desk.wire.unfinished("half of", ("write", {"path": "a.txt", "content": "x"}), end="rst")
    desk.wire.reply("Whole.")
    async with desk.open(retry_policy=RetryPolicy(base_delay_s=0.001)) as talk:
        assert (await talk.session.prompt("hi")).reason == "done"
        assert talk.of(RetryScheduled)
    (only,) = desk.payloads(Assistant)
    assert only.blocks == (TextBlock("Whole."),) and not only.interrupted

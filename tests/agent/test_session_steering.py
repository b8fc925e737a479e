"""Messages that come while the agent works: when they are delivered, and that none is lost or told twice."""

import asyncio
import sqlite3
import threading

from agent.events import MessageCompleted, QueueChanged, TextStreamed, ToolProgress, TurnEnded, UserMessageAdded
from agent.transcript import User
from tests.fakes.session_kit import Desk


def waiting(desk: Desk, session_id: str) -> list[str]:
    with sqlite3.connect(f"file:{desk.folder / session_id}.db?mode=ro", uri=True) as connection:
        rows = connection.execute("SELECT text FROM queue ORDER BY id").fetchall()
    connection.close()
    return [text for (text,) in rows]


async def test_a_message_sent_while_a_tool_runs_comes_behind_the_results_of_the_step(desk: Desk) -> None:
    fifo = desk.project / "go"
    desk.wire.reply(tools=[("bash", {"command": f"mkfifo {fifo}; echo up; read line < {fifo}; echo over"})])
    desk.wire.reply("Both done.")
    async with desk.open() as talk:
        turn = asyncio.ensure_future(talk.session.prompt("first"))
        await talk.seen(ToolProgress)
        talk.session.steer("second")
        assert list(talk.session.queued) == ["second"]
        await asyncio.to_thread(fifo.write_text, "\n")
        assert (await turn).reason == "done"
        assert list(talk.session.queued) == []
    texts = desk.wire.texts(desk.bodies()[-1])
    assert [text for text in texts if text in ("first", "second")] == ["first", "second"]
    assert "over" in texts[-2] and texts[-1] == "second"
    assert [e.texts for e in talk.of(QueueChanged)] == [("second",), ()]
    assert [(e.text, e.steering) for e in talk.of(UserMessageAdded)] == [("first", False), ("second", True)]
    assert len(talk.of(TurnEnded)) == 1


async def test_on_a_step_without_calls_the_turn_goes_on(desk: Desk) -> None:
    gate = threading.Event()
    desk.wire.reply("First answer.", after=gate)
    desk.wire.reply("Second answer.")
    async with desk.open() as talk:
        turn = asyncio.ensure_future(talk.session.prompt("first"))
        await talk.requested(1)
        talk.session.steer("second")
        talk.session.steer("third")
        gate.set()
        assert (await turn).reason == "done"
        assert talk.answer == "Second answer."
    assert desk.wire.texts(desk.bodies()[-1])[-2:] == ["second", "third"]
    assert len(talk.of(TurnEnded)) == 1


async def test_what_was_not_delivered_waits_on_disk_and_goes_out_once_after_a_resume(desk: Desk) -> None:
    desk.wire.unfinished("half")
    async with desk.open() as talk:
        turn = asyncio.ensure_future(talk.session.prompt("first"))
        await talk.seen(TextStreamed)
        talk.session.steer("second")
        talk.session.interrupt()
        await turn
        assert list(talk.session.queued) == ["second"]
    assert waiting(desk, talk.session.id) == ["second"]
    desk.wire.reply("Here.")
    async with desk.open(talk.path) as later:
        assert list(later.session.queued) == ["second"]
        await later.session.prompt("third")
        assert list(later.session.queued) == []
    assert waiting(desk, talk.session.id) == []
    assert [text for text in desk.wire.texts(desk.bodies()[-1]) if text in ("second", "third")] == ["second", "third"]
    desk.wire.reply("Still here.")
    async with desk.open(talk.path) as last:
        await last.session.prompt("fourth")
    assert desk.wire.texts(desk.bodies()[-1]).count("second") == 1


async def test_a_message_that_comes_at_the_very_end_is_still_answered_in_the_turn(one_desk: Desk) -> None:
    one_desk.wire.reply("First answer.")
    one_desk.wire.reply("Second answer.")
    async with one_desk.open() as talk:
        turn = asyncio.ensure_future(talk.session.prompt("first"))
        await talk.seen(MessageCompleted)
        talk.session.steer("second")
        assert (await turn).reason == "done"
    assert len(one_desk.payloads(User)) == 2
    assert talk.answer == "Second answer."

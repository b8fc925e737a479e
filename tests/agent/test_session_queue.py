"""Messages that wait for the end of the turn: each delivered once, in order, also after claw was killed."""

import asyncio
import io
import sqlite3
import threading
from pathlib import Path

from PIL import Image

from agent.events import QueueChanged, TextStreamed, TurnEnded
from agent.store import sessions
from agent.store.base import QueuedMessage
from agent.transcript import AttachmentBlock, User
from providers.types import ImageBlock, TextBlock
from tests.agent.test_session_images import pictures, save_picture
from tests.agent.test_session_steering import waiting
from tests.fakes.session_kit import Desk


def said(desk: Desk) -> list[str]:
    return [block.text for user in desk.payloads(User) for block in user.blocks if isinstance(block, TextBlock)]


async def test_each_has_a_turn_of_its_own_in_order(desk: Desk) -> None:
    gate = threading.Event()
    desk.wire.reply("One.", after=gate)
    for answer in ("Steered.", "Two.", "Three."):
        desk.wire.reply(answer)
    async with desk.open() as talk:
        turn = asyncio.ensure_future(talk.session.prompt("first"))
        await talk.requested(1)
        talk.session.steer("second", after_turn=True)
        talk.session.steer("third", after_turn=True)
        talk.session.steer("now")
        assert talk.of(QueueChanged)[-1] == QueueChanged(("now", "second", "third"), 2)
        gate.set()
        assert (await turn).reason == "done"
        assert talk.session.queued == ("second", "third")
        assert (await talk.session.prompt_next()) is not None
        assert (await talk.session.prompt_next()) is not None
        assert await talk.session.prompt_next() is None
        assert len(talk.of(TurnEnded)) == 3 and talk.of(QueueChanged)[-1] == QueueChanged((), 0)
        assert waiting(desk, talk.session.id) == []
    assert said(desk) == ["first", "now", "second", "third"]


async def test_the_newest_can_be_taken_back_and_is_not_delivered(desk: Desk) -> None:
    gate = threading.Event()
    desk.wire.reply("One.", after=gate)
    desk.wire.reply("Two.")
    async with desk.open() as talk:
        assert talk.session.take_back() is None
        turn = asyncio.ensure_future(talk.session.prompt("first"))
        await talk.requested(1)
        for text in ("second", "third"):
            talk.session.steer(text, after_turn=True)
        assert talk.session.take_back() == "third"
        talk.session.steer("third, better", after_turn=True)
        assert talk.session.take_back() == "third, better"
        gate.set()
        await turn
        await talk.session.prompt_next()
        assert await talk.session.prompt_next() is None
        assert waiting(desk, talk.session.id) == []
    assert said(desk) == ["first", "second"]


async def test_after_an_interruption_and_a_restart_it_still_waits_and_runs_behind_the_next_turn(desk: Desk) -> None:
    desk.wire.unfinished("Half")
    for answer in ("Go on.", "Later."):
        desk.wire.reply(answer)
    async with desk.open() as talk:
        turn = asyncio.ensure_future(talk.session.prompt("first"))
        await talk.seen(TextStreamed)
        talk.session.steer("for later", after_turn=True)
        talk.session.interrupt()
        assert (await turn).reason == "interrupted"
        path = talk.path
    async with desk.open(path) as talk:
        assert list(talk.session.queued) == ["for later"]
        await talk.session.prompt("go on")
        assert list(talk.session.queued) == ["for later"]
        await talk.session.prompt_next()
        assert list(talk.session.queued) == []
    assert said(desk) == ["first", "go on", "for later"]


async def test_what_it_names_is_kept_as_it_was_when_it_was_sent(desk: Desk) -> None:
    (desk.project / "a.txt").write_text("then\n")
    desk.wire.unfinished("Half")
    desk.wire.reply("Seen.")
    async with desk.open() as talk:
        turn = asyncio.ensure_future(talk.session.prompt("first"))
        await talk.seen(TextStreamed)
        talk.session.steer(await talk.session.prepare("see @a.txt", ("a.txt",)), after_turn=True)
        (desk.project / "a.txt").write_text("now\n")
        talk.session.interrupt()
        await turn
        path = talk.path
    async with desk.open(path) as talk:
        await talk.session.prompt_next()
    assert desk.payloads(User)[-1].blocks == (TextBlock("see @a.txt"), AttachmentBlock("a.txt", "then\n"))
    assert '<attachment path="a.txt">\nthen\n\n</attachment>' in desk.wire.texts(desk.bodies()[-1])


def test_a_file_of_the_first_layout_is_read_and_brought_up_when_it_is_written(tmp_path: Path) -> None:
    store = sessions.new_session(tmp_path, tmp_path, lambda text: None)
    store.enqueue(QueuedMessage(1, "old"))
    store.close()
    with sqlite3.connect(store.path) as connection:
        connection.execute("DROP TABLE queue")
        connection.execute("CREATE TABLE queue (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
        connection.execute("INSERT INTO queue VALUES (1, 'old')")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    assert sessions.load(store.path).queue == (QueuedMessage(1, "old"),)
    again, loaded = sessions.open_session(store.path, lambda text: None)
    assert loaded.queue == (QueuedMessage(1, "old"),)
    user = User((TextBlock("new"), ImageBlock("image/png", "ab")))
    again.enqueue(QueuedMessage(2, "new", "turn", user))
    again.close()
    assert sessions.load(store.path).queue == (QueuedMessage(1, "old"), QueuedMessage(2, "new", "turn", user))


def test_a_damaged_row_is_delivered_as_its_text(tmp_path: Path) -> None:
    store = sessions.new_session(tmp_path, tmp_path, lambda text: None)
    store.enqueue(QueuedMessage(1, "text", "turn", User((TextBlock("text"),))))
    store.close()
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE queue SET delivery = 'whenever', user = x'00'")
    connection.close()
    assert sessions.load(store.path).queue == (QueuedMessage(1, "text"),)


async def test_an_attached_image_waits_in_the_session_file_and_is_sent_after_a_restart(desk: Desk) -> None:
    save_picture(desk, (300, 100))
    desk.wire.unfinished("Half")
    desk.wire.reply("It is blue.")
    async with desk.open() as talk:
        turn = asyncio.ensure_future(talk.session.prompt("first"))
        await talk.seen(TextStreamed)
        talk.session.steer(await talk.session.prepare("see @shot.png", ("shot.png",)), after_turn=True)
        assert talk.notices == ["Attached: shot.png (300×100 pixels)"]
        talk.session.interrupt()
        await turn
        path = talk.path
    (desk.project / "shot.png").unlink()
    async with desk.open(path) as talk:
        assert await talk.session.prompt_next() is not None
    (data,) = pictures(desk.bodies()[-1])
    assert Image.open(io.BytesIO(data)).size == (300, 100)


async def test_what_a_stopped_turn_left_begins_the_next_one_in_order_before_what_waits_for_its_end(
    one_desk: Desk,
) -> None:
    one_desk.wire.unfinished("Half")
    for answer in ("Both.", "Later."):
        one_desk.wire.reply(answer)
    async with one_desk.open() as talk:
        turn = asyncio.ensure_future(talk.session.prompt("first"))
        await talk.seen(TextStreamed)
        talk.session.steer("second")
        talk.session.steer("for later", after_turn=True)
        talk.session.steer("third")
        talk.session.interrupt()
        assert (await turn).reason == "interrupted"
        await talk.session.prompt_next()
        assert one_desk.wire.texts(one_desk.bodies()[-1])[-2:] == ["second", "third"]
        assert talk.session.queued == ("for later",)
        await talk.session.prompt_next()
        assert await talk.session.prompt_next() is None and waiting(one_desk, talk.session.id) == []
    assert said(one_desk) == ["first", "second", "third", "for later"]

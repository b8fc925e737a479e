"""Going on with a session whose file was damaged: what the user is told, and what the model is sent."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent.results import LOST_SPILL
from agent.store import sessions
from agent.store.damaged import FOLDER
from agent.store.mending import LOST_MESSAGE
from agent.transcript import Result, User
from agent.window import MISSING_RESULT
from tests.fakes.model_server import ModelServer
from tests.fakes.session_kit import Desk, Talk, make_project
from tests.fakes.wires import AnthropicSide

CALLS = [("read", {"path": "a"}), ("bash", {"command": "echo one"}), ("read", {"path": "nothing"})]


@pytest.fixture
def strict_desk(model_server: ModelServer, project: Path, tmp_path: Path) -> Desk:
    """The API that demands most of a history: who begins it, and each result beside its call."""
    return Desk(AnthropicSide(model_server), project, tmp_path / "home")


async def talked(desk: Desk) -> Talk:
    make_project(desk.project, {"a": "one\n"})
    async with desk.open() as talk:
        for number in range(3):
            desk.wire.reply("I look.", tools=CALLS)
            desk.wire.reply("And again.", tools=CALLS[:1])
            desk.wire.reply(f"Answer {number}.")
            await talk.session.prompt(f"question {number}")
    return talk


def change(path: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(sql, values)
        connection.commit()


def lose(path: Path, keys: list[int]) -> None:
    for key in keys:
        change(path, "UPDATE entry SET payload = ? WHERE key = ?", b"\0" * 40, key)


async def go_on(desk: Desk, path: Path, text: str = "go on") -> Talk:
    async with desk.open(path) as later:
        desk.wire.reply("Yes.")
        await later.session.prompt(text)
        assert later.answer == "Yes."
    return later


def keys_of(path: Path, kind: str) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [key for (key,) in connection.execute("SELECT key FROM entry WHERE kind = ? ORDER BY key", (kind,))]


async def test_T92_a_damaged_session_is_saved_told_once_and_gone_on_with(one_desk: Desk) -> None:
    talk = await talked(one_desk)
    damaged = talk.path.read_bytes()[:100].replace(b"SQLite", b"sqlite") + talk.path.read_bytes()[100:]
    talk.path.write_bytes(damaged)
    later = await go_on(one_desk, talk.path)
    (notice,) = [text for text in later.notices if "damaged" in text]
    (kept,) = (talk.path.parent / FOLDER).iterdir()
    assert str(kept) in notice and "could be saved" in notice
    assert kept.read_bytes() == damaged and kept.stat().st_mode & 0o077 == 0
    again = await go_on(one_desk, talk.path)
    assert not any("damaged" in text for text in again.notices)
    assert [path.name for path in (talk.path.parent / FOLDER).iterdir()] == [kept.name]
    assert "question 0" in str(one_desk.bodies()[-1]) and "Answer 2." in str(one_desk.bodies()[-1])


@pytest.mark.parametrize(
    "lost", ["calls", "results", "partial batch", "users", "first", "prefix", "everything but one"]
)
async def test_T93_whatever_entries_are_lost_the_next_request_is_valid(strict_desk: Desk, lost: str) -> None:
    path = (await talked(strict_desk)).path
    replies, results, users = keys_of(path, "assistant"), keys_of(path, "result"), keys_of(path, "user")
    gone = {
        "calls": replies[:2],
        "results": results,
        "partial batch": [results[1], results[5]],
        "users": users,
        "first": list(range(1, replies[0])),
        "prefix": keys_of(path, "prefix") + keys_of(path, "setting"),
        "everything but one": list(range(1, max(replies)))
    }[lost]  # fmt: skip
    lose(path, gone)
    later = await go_on(strict_desk, path)  # the servers refuse what the real ones do
    assert any("damaged" in text for text in later.notices)
    said = str(strict_desk.bodies()[-1])
    assert (MISSING_RESULT in said) == (lost in ("results", "partial batch"))
    assert (LOST_MESSAGE in said) == (lost in ("users", "first", "everything but one"))


async def test_T93_entries_lost_at_random_with_parents_that_lead_anywhere(one_desk: Desk) -> None:
    path = (await talked(one_desk)).path
    whole = path.read_bytes()
    for seed in range(5):
        chance = random.Random(seed)
        path.write_bytes(whole)
        keys = list(range(1, 25))
        lose(path, chance.sample(keys, chance.randrange(1, 20)))
        for key in chance.sample(keys, 6):
            change(
                path,
                "UPDATE entry SET parent = ? WHERE key = ?",
                chance.choice((key, key + 3, 999, -1, None, "x")),
                key,
            )
        await go_on(one_desk, path, f"question {seed}")
        loaded = sessions.load(path)
        assert not loaded.damage and [e.key for e in loaded.entries] == sorted(e.key for e in loaded.entries)


async def test_T92_a_lost_output_says_so_and_a_lost_image_stops_nothing(one_desk: Desk) -> None:
    make_project(one_desk.project, {"long": "".join(f"line {n}\n" for n in range(30_000))})
    one_desk.wire.reply(tools=[("bash", {"command": "cat long"})])
    one_desk.wire.reply("Seen.")
    async with one_desk.open() as talk:
        await talk.session.prompt("look")
    change(talk.path, "UPDATE blob SET data = zeroblob(100)")  # the file's structure is whole: only the bytes are not
    spills = one_desk.home / "cache"
    for file in spills.rglob("entry-*.txt"):
        file.unlink()
    await go_on(one_desk, talk.path)
    (made,) = spills.rglob("entry-*.txt")
    assert made.read_bytes() == LOST_SPILL
    assert any(result.spill for result in one_desk.payloads(Result))


async def test_a_mark_of_what_was_lost_is_no_word_of_the_users(one_desk: Desk) -> None:
    path = (await talked(one_desk)).path
    lose(path, keys_of(path, "user")[:1])
    later = await go_on(one_desk, path)
    marks = [user for user in one_desk.payloads(User) if user.synthetic]
    assert len(marks) == 1
    assert later.session.title == "question 1"

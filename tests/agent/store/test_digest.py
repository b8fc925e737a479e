"""What the index keeps of a session, and when it begins anew."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent.recall import TOOL
from agent.store import sessions
from agent.store.base import SessionMeta
from agent.store.digest import MOST_SESSION_CHARS, digest
from agent.store.index import SessionIndex
from agent.store.session_file import SessionFile
from agent.transcript import Assistant, Compaction, Entry, Payload, Result, Setting, User
from providers.types import TextBlock, Usage
from tests.agent.store.test_lock import ignore


def user(text: str) -> User:
    return User((TextBlock(text),))


def reply(text: str, cost: float | None = None, tokens: int = 0) -> Assistant:
    return Assistant(
        (TextBlock(text),), "p", "m", "anthropic", "f", None, Usage(tokens, output_tokens=1), "end_turn", cost_usd=cost
    )


def result(text: str, tool: str = "bash") -> Result:
    return Result("c", tool, (TextBlock(text),))


def made(folder: Path, *payloads: Payload, created_ms: int = 5, times: tuple[int, ...] = (), name: str = "x") -> Path:
    store = SessionFile(folder / f"{name}.db", SessionMeta(name, "/p", created_ms))
    rows = [
        Entry(key, key - 1 or None, times[key - 1] if times else 10 + key, payload)
        for key, payload in enumerate(payloads, 1)
    ]
    store.append(rows)
    store.close()
    return store.path


def go_on(path: Path, *payloads: Payload) -> None:
    store, loaded = sessions.open_session(path, ignore)
    for key, payload in enumerate(payloads, len(loaded.entries) + 1):
        store.append([Entry(key, key - 1, 10 + key, payload)])
    store.close()


@pytest.mark.parametrize(
    ("created_ms", "times", "updated_ms"), [(5, (8, 7), 8), (900, (8, 7), 8), (900, (0, -4), 900), (5, (2**60, 7), 7)]
)
def test_a_session_was_changed_with_its_latest_entry_and_not_when_it_was_begun(
    tmp_path: Path, created_ms: int, times: tuple[int, ...], updated_ms: int
) -> None:
    path = made(tmp_path, user("a"), user("b"), created_ms=created_ms, times=times)
    assert digest(path).facts.updated_ms == updated_ms


def test_sums_grow_with_what_is_new_and_titles_win_that_came_last(tmp_path: Path) -> None:
    path = made(tmp_path, user("first"), reply("free", None, 10), Setting(title="One"), Setting(mode="ask"))
    known = digest(path)
    assert known.whole and known.facts.cost_usd is None and known.facts.tokens == 11
    assert [page.body for page in known.pages] == ["first", "free"]
    paid = Compaction("record", "a summary", 1, "manual", 9, 1, usage=Usage(5), cost_usd=0.25)
    go_on(path, user("second"), reply("paid", 0.5, 1), paid, Setting(title="Two"))
    later = digest(path, known.facts)
    assert not later.whole and [page.body for page in later.pages] == ["second", "paid", "a summary"]
    assert later.facts == digest(path).facts
    facts = later.facts
    assert (facts.title, facts.first_line, facts.entries) == ("Two", "first", 8)
    assert (facts.cost_usd, facts.tokens, facts.last_key, facts.last_time_ms) == (0.75, 18, 8, 18)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE meta SET value = '/elsewhere' WHERE name = 'project'",
        "UPDATE entry SET time_ms = 99 WHERE key = 2",
        "DELETE FROM entry WHERE key = 2",
    ],
)
def test_what_is_another_session_by_now_is_read_from_its_beginning(tmp_path: Path, change: str) -> None:
    path = made(tmp_path, user("a"), user("b"))
    known = digest(path).facts
    assert not digest(path, known).whole
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(change)
    found = digest(path, known)
    assert found.whole and found.facts == digest(path).facts and found.pages[0].body == "a"


def test_a_session_that_was_damaged_since_it_was_known_is_read_whole_and_again_when_it_is_mended(
    tmp_path: Path,
) -> None:
    path = made(tmp_path / "sessions", user("a walrus"), user("an ocelot"))
    index = SessionIndex(tmp_path / "sessions", tmp_path / "index.db")
    index.complete()
    with path.open("r+b") as file:
        file.write(b"A" * 100)
    os.utime(path, (99, 99))
    for _ in range(2):
        ((info,), problems) = index.complete()
        assert info.entries == 2 and len(problems) == 1 and "damaged" in problems[0]
        assert [hit.key for hit in index.search("walrus")] == [1]
    go_on(path, user("a zebra"))
    ((info,), problems) = index.complete()
    assert info.entries == 3 and problems == []
    assert [[hit.key for hit in index.search(word)] for word in ("walrus", "ocelot", "zebra")] == [[1], [2], [3]]
    index.close()


def test_what_was_lost_since_it_was_known_is_known_no_more(tmp_path: Path) -> None:
    path = made(tmp_path, user("a"), user("b"), user("c"))
    known = digest(path).facts
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE entry SET payload = 'garbage' WHERE key = 2")
    with path.open("r+b") as file:
        file.write(b"A" * 100)
    found = digest(path, known)
    assert found.whole and found.facts.entries == 2 and [page.body for page in found.pages] == ["a", "c"]
    assert "at least 1 is lost" in found.facts.damage


@pytest.mark.parametrize(
    ("payload", "body"),
    [
        (result("x" * 3_999), "\n" + "x" * 3_999),
        (result("a" * 3_000 + "b" * 1_000), "\n" + "a" * 2_999 + "\n…\n" + "b" * 1_000),
        (user("x" * 4_001), "x" * 4_001),
        (user("x" * 64_001), "x" * 64_000),
        (user("a\0b"), "a b"),
        (user(" \n "), None),
        (User((TextBlock("claw's own"),), synthetic=True), None),
        (result("what an earlier search found", TOOL), None),
        (Setting(title="a title"), None),
    ],
)
def test_of_an_entry_so_much_can_be_searched(tmp_path: Path, payload: Payload, body: str | None) -> None:
    assert [page.body for page in digest(made(tmp_path, payload)).pages] == ([] if body is None else [body])


def test_an_endless_session_adds_but_its_user_s_words(tmp_path: Path) -> None:
    full = [reply("x" * 64_000)] * (MOST_SESSION_CHARS // 64_000) + [reply("x" * (MOST_SESSION_CHARS % 64_000))]
    path = made(tmp_path, *full, reply("more of the same"), user("a walrus"), result("more output"))
    found = digest(path)
    assert len(found.pages) == len(full) + 1 and found.pages[-1].body == "a walrus"
    assert found.facts.chars == MOST_SESSION_CHARS + len("a walrus") and found.facts.entries == len(full) + 3


def test_what_cannot_be_read_costs_only_itself(tmp_path: Path) -> None:
    path = made(tmp_path, user("a"), user("b"), user("c"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE entry SET payload = 'garbage' WHERE key = 1")
        connection.execute("UPDATE entry SET kind = 'dream' WHERE key = 2")
    found = digest(path)
    assert [page.body for page in found.pages] == ["c"] and found.facts.entries == 3 and found.facts.first_line == "c"


def test_a_session_that_goes_while_the_list_is_read_is_no_problem(tmp_path: Path) -> None:
    path = made(tmp_path / "sessions", user("a walrus"))
    made(tmp_path / "sessions", user("an ocelot"), name="y")
    broken = tmp_path / "sessions" / "z.db"
    broken.write_bytes(b"no session")
    index = SessionIndex(tmp_path / "sessions", None)
    listing = index.listing()
    path.unlink()
    (refreshed,) = index.refresh(listing)
    assert [info.id for info in refreshed.sessions] == ["y"] and set(refreshed.unreadable) == {"x", "z"}
    assert len(refreshed.problems) == 1 and str(broken) in refreshed.problems[0]
    index.close()

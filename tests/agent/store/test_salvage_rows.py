"""Which rows that are found in a damaged file count, and what is known to be lost."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from agent.store.base import Blob
from agent.store.mending import LOST_MESSAGE, MOST_KEY
from agent.store.salvage_rows import Saved
from agent.store.schema import create_tables
from agent.transcript import Assistant, Payload, Rewind, Setting, User, encode_payload
from providers.types import TextBlock, Usage

USER = encode_payload(User((TextBlock("x"),)))
REPLY = Assistant((TextBlock("x"),), "p", "m", "anthropic", "f", None, Usage(), "end_turn")


@pytest.fixture
def target() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create_tables(connection)
        yield connection


@pytest.mark.parametrize(
    ("rows", "kept", "unreadable"),
    [
        ([(1, None, "user", 7, USER)], [(1, "user", 7)], set()),
        ([(1, None, "nonsense", None, USER)], [(1, "user", 0)], set()),
        ([(1, None, "dream", 7, b'{"type":"dream","of":"sheep"}')], [(1, "dream", 7)], set()),
        ([(1, None, "user", 7, USER), (1, 5, "user", 9, USER)], [(1, "user", 7)], set()),
        ([(MOST_KEY, None, "user", 7, USER)], [(MOST_KEY, "user", 7)], set()),
        ([(2, 1, "user", 7, b"garbage"), (3, 2, "user", 7, None), (3, 2, "user", 7, USER)], [(3, "user", 7)], {2, 3}),
        ([(key, None, "user", 7, USER) for key in (True, 0, -1, MOST_KEY + 1, "1", 1.0, None)], [], set()),
    ],
)
def test_an_entry_counts_where_it_decodes_and_the_first_of_a_key_wins(
    target: sqlite3.Connection, rows: list[tuple[object, ...]], kept: list[tuple[object, ...]], unreadable: set[int]
) -> None:
    saved = Saved(target, "x")
    for row in rows:
        saved.entry(*row)
    assert target.execute("SELECT key, kind, time_ms FROM entry").fetchall() == kept
    assert list(saved.entries) == [row[0] for row in kept] and saved.unreadable == unreadable


def test_a_blob_counts_that_has_its_hash_and_each_once(target: sqlite3.Connection) -> None:
    saved, blob = Saved(target, "x"), Blob.of(b"data")
    for name, data in ((blob.sha256, "data"), (blob.sha256, b"other"), (blob.sha256, b"data"), (blob.sha256, b"data")):
        saved.blob(name, data)
    saved.blob(None, b"data")
    assert target.execute("SELECT * FROM blob").fetchall() == [(blob.sha256, b"data")]


def test_counts_and_messages_are_taken_that_can_be_ours(target: sqlite3.Connection) -> None:
    saved = Saved(target, "x")
    for row in ((1, "t", 5), (MOST_KEY, "t", 6), (1, "t", 9)):
        saved.count(*row)
    for odd in ((True, "t", 5), (2, "t", True), (2, 3, 5), (0, "t", 5), (MOST_KEY + 1, "t", 5), (2, "t", "5")):
        saved.count(*odd)
    assert target.execute("SELECT * FROM count").fetchall() == [(1, "t", 5), (MOST_KEY, "t", 6)]
    for id_, text, delivery in (
        (1, "first", "step"),
        (2, "second", "turn"),
        (MOST_KEY, "last", "x"),
        (1, "again", "step"),
    ):
        saved.message(id_, text, delivery)
    for odd_message in ((True, "x"), (0, "x"), (MOST_KEY + 1, "x"), (3, b"x"), ("3", "x")):
        saved.message(*odd_message)
    found = target.execute("SELECT id, text, delivery FROM queue").fetchall()
    assert found == [(1, "first", "step"), (2, "second", "turn"), (MOST_KEY, "last", "step")]


@pytest.mark.parametrize(
    ("named", "meta"),
    [
        ([], {"id": "x", "project": "/b", "created_ms": "7"}),
        (
            [("id", "first"), ("id", "second"), ("project", "/mine")],
            {"id": "first", "project": "/mine", "created_ms": "7"},
        ),
        ([("id", "a\ufffd"), ("project", None), (5, "x")], {"id": "x", "project": "/b", "created_ms": "7"}),
        ([("created_ms", "9")], {"id": "x", "project": "/b", "created_ms": "9"}),
    ],
)
def test_what_is_lost_of_the_session_s_own_facts_is_taken_from_its_entries(
    target: sqlite3.Connection, named: list[tuple[object, object]], meta: dict[str, str]
) -> None:
    saved = Saved(target, "x")
    payloads: tuple[Payload, ...] = (User((TextBlock("x"),)), Setting(cwd=""), Setting(cwd="/b"), Setting(cwd="/c"))
    for key, payload in enumerate(payloads, 1):
        saved.entry(key, key - 1 or None, "", 6 + key, encode_payload(payload))
    for name, value in named:
        saved.named(name, value)
    saved.finish(is_queue_lost=False, missing_bytes=0)
    assert dict(target.execute("SELECT name, value FROM meta")) == meta


@pytest.mark.parametrize(
    ("meta", "keys", "unreadable", "lost"),
    [
        ({"id": "x"}, (1, 2, 5), (), 2),  # 3 and 4
        ({"id": "x", "forked_from": "y"}, (1, 2, 5), (), 1),  # a fork has gaps; 4 must have been there
        ({}, (1, 2, 5), (), 1),
        ({}, (1, 2), (4, 9), 2),
        ({}, (1, 4), (4, 9), 2),
        ({"id": "x"}, (1, 2), (), 0),
        ({"id": "x"}, (2,), (), 1),
    ],
)
def test_so_many_are_lost_at_least(
    target: sqlite3.Connection, meta: dict[str, str], keys: tuple[int, ...], unreadable: tuple[int, ...], lost: int
) -> None:
    saved = Saved(target, "x")
    for key in unreadable:
        saved.entry(key, None, "user", 7, b"garbage")
    for key in keys:
        saved.entry(key, key - 1 or None, "user", 7, USER)
    for name, value in meta.items():
        saved.named(name, value)
    found = saved.finish(is_queue_lost=True, missing_bytes=3)
    assert (found.entries, found.lost_entries, found.is_queue_lost, found.missing_bytes) == (len(keys), lost, True, 3)


def test_nothing_is_saved_without_an_entry(target: sqlite3.Connection) -> None:
    saved = Saved(target, "x")
    saved.named("id", "x")
    assert saved.finish(is_queue_lost=False, missing_bytes=4).missing_bytes == 4
    assert target.execute("SELECT COUNT(*) FROM meta").fetchone() == (0,)


def test_parents_times_and_marks_are_written(target: sqlite3.Connection) -> None:
    saved = Saved(target, "x")
    found: tuple[tuple[int, object, object, Payload], ...] = (
        (2, 1, 7, REPLY),
        (3, 99, "x", User((TextBlock("x"),))),
        (4, 2, 8, Rewind()),
    )
    for key, parent, time_ms, payload in found:
        saved.entry(key, parent, "", time_ms, encode_payload(payload))
    saved.finish(is_queue_lost=False, missing_bytes=0)
    rows = target.execute("SELECT key, parent, kind, time_ms FROM entry ORDER BY key").fetchall()
    assert rows == [(1, None, "user", 0), (2, 1, "assistant", 7), (3, 2, "user", 7), (4, 2, "rewind", 8)]
    (mark,) = target.execute("SELECT payload FROM entry WHERE key = 1").fetchone()
    assert LOST_MESSAGE in mark.decode()

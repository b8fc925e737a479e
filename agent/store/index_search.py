"""Searches the text in the index: by trigrams where SQLite has them, otherwise by looking at every text.

Decisions: case does not count; "quoted words" are one; the newest come first, since a ranking by word statistics would
have to look at every hit. Words of one or two characters have no trigram: they narrow down what the longer ones found,
and alone they are looked for in every text.
"""

import re
import sqlite3
import time

from msgspec import Struct

_WORD = re.compile(r'"([^"]+)"|(\S+)')
_MOST_WORDS = 16
_AROUND_CHARS = 120
_TRIGRAM = 3
_CHECK_EVERY = 20_000
"""Steps of SQLite's machine between two looks at the clock; a fraction of a millisecond."""


class Found(Struct, frozen=True):
    """An entry that holds what was looked for."""

    session: str
    key: int
    kind: str
    time_ms: int
    excerpt: str
    """One line of foreign text around it."""


def words_of(text: str) -> list[str]:
    """The words that are looked for, lower-case, each once."""
    found = (quoted or plain for quoted, plain in _WORD.findall(text.lower().replace("\0", " ")))
    return list(dict.fromkeys(word for word in found if word.strip()))[:_MOST_WORDS]


def search(
    connection: sqlite3.Connection, text: str, limit: int, each: int | None, deadline: float | None, full_text: bool
) -> list[Found]:
    """See `SessionIndex.search`. `deadline`: of the monotonic clock.

    Raises:
        sqlite3.OperationalError: the deadline has passed.
    """
    words = [word.encode("utf-8", "replace").decode() for word in words_of(text)]
    if not words or limit < 1:
        return []
    if deadline is not None:
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _CHECK_EVERY)
    try:
        connection.create_function("holds", 2, lambda body, word: word in body.lower(), deterministic=True)
        rows = _pages(connection, words, full_text)
        if not rows and len(words) > 1:
            rows = _scattered(connection, words, full_text)
        return [_found(connection, number, words) for number in _newest(rows, limit, each)]
    finally:
        connection.set_progress_handler(None, 0)


_Hit = tuple[int, int, int]
"""Number of the page, number of its session, time."""


def _pages(connection: sqlite3.Connection, words: list[str], full_text: bool) -> list[_Hit]:
    """Pages that hold all the words."""
    indexed = [word for word in words if len(word) >= _TRIGRAM] if full_text else []
    sql, values = "SELECT page.number, page.session, page.time_ms FROM page", []
    conditions: list[str] = []
    if indexed:
        sql += " JOIN words ON words.rowid = page.number"
        conditions.append("words MATCH ?")
        values.append(" AND ".join('"' + word.replace('"', '""') + '"' for word in indexed))
    for word in words:
        if word not in indexed:
            conditions.append("holds(page.body, ?)")
            values.append(word)
    return connection.execute(f"{sql} WHERE {' AND '.join(conditions)}", values).fetchall()


def _scattered(connection: sqlite3.Connection, words: list[str], full_text: bool) -> list[_Hit]:
    """Pages with the rarest word, of the sessions that hold each word somewhere."""
    by_word = [_pages(connection, [word], full_text) for word in words]
    common = set.intersection(*({session for _, session, _ in rows} for rows in by_word))
    return [row for row in min(by_word, key=len) if row[1] in common]


def _newest(rows: list[_Hit], limit: int, each: int | None) -> list[int]:
    numbers: list[int] = []
    taken: dict[int, int] = {}
    for number, session, _ in sorted(rows, key=lambda row: (row[2], row[0]), reverse=True):
        if len(numbers) == limit:
            break
        taken[session] = taken.get(session, 0) + 1
        if each is None or taken[session] <= each:
            numbers.append(number)
    return numbers


def _found(connection: sqlite3.Connection, number: int, words: list[str]) -> Found:
    session, key, kind, time_ms, body = connection.execute(
        "SELECT session.id, page.key, page.kind, page.time_ms, page.body FROM page "
        "JOIN session ON session.number = page.session WHERE page.number = ?",
        (number,),
    ).fetchone()
    return Found(session, key, kind, time_ms, excerpt(body, words))


def excerpt(body: str, words: list[str]) -> str:
    """One line around the first of the words that is there, an ellipsis where it was cut."""
    folded = body.lower()
    places = [(place, len(word)) for word in words if (place := folded.find(word)) >= 0]
    at, length = min(places, default=(0, 0))
    # Lower case can be longer than the text it comes from, so the place may be off by a little.
    start, end = max(0, at - _AROUND_CHARS), at + length + _AROUND_CHARS
    text = " ".join(body[start:end].split())
    return f"{'…' if start else ''}{text}{'…' if end < len(body) else ''}"

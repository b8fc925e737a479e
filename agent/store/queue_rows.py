"""Waiting messages as rows of a session file. Since layout 2 a row says when it is to be delivered and holds the message as
it will be appended; what an older claw left waiting is delivered after a step."""

import contextlib
import sqlite3

import msgspec

from agent.store.base import Delivery, QueuedMessage
from agent.transcript import User, decode_payload, encode_payload


def insert_message(connection: sqlite3.Connection, message: QueuedMessage) -> None:
    user = encode_payload(message.user) if message.user is not None else None
    values = (message.id, message.text, message.delivery, user)
    connection.execute("INSERT OR REPLACE INTO queue (id, text, delivery, user) VALUES (?, ?, ?, ?)", values)


def read_messages(connection: sqlite3.Connection) -> tuple[QueuedMessage, ...]:
    """In the order in which they were sent. A row whose message cannot be read is delivered as its text."""
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    wanted = "id, text, delivery, user" if layout > 1 else "id, text, 'step', NULL"
    rows = connection.execute(f"SELECT {wanted} FROM queue ORDER BY id")
    return tuple(message_of(*row) for row in rows if isinstance(row[1], str))


def message_of(id_: int, text: str, delivery: object, raw: object) -> QueuedMessage:
    """A row's message, whatever stands in the columns that say more than its text."""
    when: Delivery = "step"
    user: User | None = None
    with contextlib.suppress(msgspec.DecodeError, TypeError, ValueError, RecursionError):
        when = msgspec.convert(delivery, Delivery)
        payload = decode_payload(raw) if isinstance(raw, bytes | str) else None
        user = payload if isinstance(payload, User) else None
    return QueuedMessage(id_, text, when, user)

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
    connection.execute("INSERT INTO queue (id, text, delivery, user) VALUES (?, ?, ?, ?)", values)


def read_messages(connection: sqlite3.Connection) -> tuple[QueuedMessage, ...]:
    """In the order in which they were sent. A row whose message cannot be read is delivered as its text."""
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    wanted = "id, text, delivery, user" if layout > 1 else "id, text, 'step', NULL"
    rows = connection.execute(f"SELECT {wanted} FROM queue ORDER BY id")
    return tuple(_message(*row) for row in rows)


def _message(id_: int, text: str, delivery: str, raw: bytes | None) -> QueuedMessage:
    when: Delivery = "step"
    user: User | None = None
    with contextlib.suppress(msgspec.DecodeError, TypeError):
        when = msgspec.convert(delivery, Delivery)
        payload = decode_payload(raw) if raw is not None else None
        user = payload if isinstance(payload, User) else None
    return QueuedMessage(id_, text, when, user)

"""What a session is called: the title its user gave it, else the first line of their first message. Also gives titles."""

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from agent.redaction import without_secrets
from agent.store.damaged import make_whole
from agent.store.lock import SessionLock
from agent.store.schema import check_version, connect
from agent.transcript import Entry, Setting, User, encode_payload, of_kinds
from providers.types import TextBlock

MOST_CHARS = 80
"""Of a title that is taken from a message."""
MOST_GIVEN_CHARS = 200
_LOOKED_AT_CHARS = 10_000


def first_line(user: User, most_chars: int = MOST_CHARS, clean: Callable[[str], str] = without_secrets) -> str:
    """The first line with something in it, cut; empty for a message of claw's own or without text. `clean` takes secrets out."""
    if user.synthetic:
        return ""
    text = next((b.text for b in user.blocks if isinstance(b, TextBlock) and b.text.strip()), "")
    # A title stands in lists that others may see; a part of a secret would not be known for one, so it is cut last.
    return clean(text.strip().split("\n", 1)[0].strip()[:_LOOKED_AT_CHARS])[:most_chars]


def title_of(
    entries: Iterable[Entry], most_chars: int = MOST_CHARS, clean: Callable[[str], str] = without_secrets
) -> str:
    """The newest title that was given, else the first line of the first message that has one, cut to `most_chars`."""
    given, first = "", ""
    for entry in of_kinds(entries, Setting, User):
        match entry.payload:
            case Setting(title=str(title)):
                given = title
            case User() as user if not first:
                first = first_line(user, most_chars, clean)
    return given or first


def as_title(text: str) -> str:
    """What a user typed, as one line of bearable length; empty takes the title away."""
    return " ".join(text.encode("utf-8", "replace").decode("utf-8").split())[:MOST_GIVEN_CHARS]


def rename(path: Path, title: str) -> None:
    """Append the title to a session that nobody has open.

    Raises:
        SessionBusyError: it is open in another claw, or this one.
        SchemaError, sqlite3.Error: it cannot be read or written.
    """
    lock = SessionLock(path.with_suffix(".lock"))
    try:
        make_whole(path)
        with contextlib.closing(connect(path)) as connection:
            check_version(connection, path, to_write=True)
            connection.execute("BEGIN IMMEDIATE")
            (head,) = connection.execute("SELECT MAX(key) FROM entry").fetchone()
            payload = encode_payload(Setting(title=as_title(title)))
            row = ((head or 0) + 1, head, "setting", int(time.time() * 1000), payload)
            connection.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", row)
            connection.execute("COMMIT")
    finally:
        lock.release()

"""Session files of many shapes, ways to damage them, and what must be found in them afterwards.

What is intact is computed from the undamaged file: a row counts if no page that holds any of it was touched.
"""

import asyncio
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from agent.store import salvage_pages as pages
from agent.store import sessions
from agent.store.base import Blob, QueuedMessage, SessionStore
from agent.store.salvage import opened
from agent.store.salvage_log import FRAME_HEADER_BYTES
from agent.transcript import (
    Assistant,
    Entry,
    Payload,
    Prefix,
    Result,
    Rewind,
    Setting,
    Spill,
    User,
    decode_payload,
)
from providers.types import PromptSection, StopReason, TextBlock, ToolCall, ToolSpec, Usage

Row = tuple[str, int | str]
"""The table, and the row's key there: of an entry or a message its number, of a blob its hash."""
Touched = list[tuple[str, int, int]]
"""Which file ("db" or "wal"), the first byte and the one behind the last."""


class Original(NamedTuple):
    """An undamaged session, and where its rows are."""

    path: Path
    entries: dict[int, bytes]
    blobs: frozenset[str]
    messages: frozenset[int]
    places: dict[Row, Touched]


def make(folder: Path, seed: int) -> Original:
    """A session of a few hundred entries with outputs, images and messages that wait; every other one was not closed."""
    chance = random.Random(seed)
    folder.mkdir(parents=True)
    store = sessions.new_session(folder / "open", Path("/p"), _fail)
    head, parts = 0, 3 + chance.randrange(5)
    for part in range(parts):
        for entries, blobs in _talk(chance, head, chance.randrange(10, 60)):
            store.append(entries, blobs)
            head = entries[-1].key
        store.save_counts("o200k_base", {key: key % 500 for key in range(max(1, head - 40), head)})
        if part == 0:
            for number in range(1, chance.randrange(2, 6)):
                store.enqueue(QueuedMessage(number, "later " * chance.choice((1, 50, 2_000))))
        if part == 1:
            store.dequeue([1])
        _wait(store, head)
    path = folder / f"{store.meta.id}.db"
    if seed % 2:
        _copy(store.path, path)
        store.close()
    else:
        store.close()
        _copy(store.path, path)
    return _described(path)


def _fail(text: str) -> None:
    raise AssertionError(text)


def _wait(store: SessionStore, key: int) -> None:
    asyncio.run(asyncio.wait_for(store.durable(key), 30))


def _copy(source: Path, target: Path) -> None:
    for ending in ("", "-wal"):
        file = source.with_name(source.name + ending)
        if file.exists():
            shutil.copyfile(file, target.with_name(target.name + ending))


def _talk(chance: random.Random, head: int, count: int) -> Iterator[tuple[list[Entry], list[Blob]]]:
    """Turns with and without tools; the first begins the session."""
    payloads: list[tuple[Payload, list[Blob]]] = []
    if not head:
        payloads += [(Setting("anthropic", "m", "claude", "anthropic", cwd="/p"), [])]
        payloads += [
            (Prefix((PromptSection("s", _text(chance), True),), (ToolSpec("bash", "d", {"type": "object"}),)), [])
        ]
    while len(payloads) < count:
        payloads += [(User((TextBlock(_text(chance)),)), [])]
        for _ in range(chance.randrange(3)):
            calls = tuple(ToolCall(f"c{chance.getrandbits(40):x}", "bash", "{}") for _ in range(chance.randrange(1, 4)))
            payloads += [(_reply(chance, *calls), [])]
            for call in calls:
                blob = Blob.of(chance.randbytes(chance.choice((100, 3_000, 60_000))))
                spill = Spill(blob.sha256, len(blob.data)) if chance.random() < 0.3 else None
                text = (TextBlock(_text(chance)),)
                payloads += [(Result(call.id, "bash", text, spill=spill), [blob] if spill else [])]
        payloads += [(_reply(chance), [])]
        if head and chance.random() < 0.1:
            payloads += [(Rewind(), [])]
    for payload, blobs in payloads:
        parent = max(1, head - chance.randrange(1, 9)) if isinstance(payload, Rewind) else head or None
        head += 1
        yield [Entry(head, parent, 1_790_000_000_000 + head, payload)], blobs


def _reply(chance: random.Random, *calls: ToolCall) -> Assistant:
    reason: StopReason = "tool_use" if calls else "end_turn"
    usage = Usage(100, 0, 0, 10)
    blocks: tuple[TextBlock | ToolCall, ...] = (TextBlock(_text(chance)), *calls)
    return Assistant(blocks, "anthropic", "m", "anthropic", "claude", None, usage, reason)


def _text(chance: random.Random) -> str:
    return f"{chance.getrandbits(64):x} " * chance.choice((1, 5, 30, 200, 200, 1_000))


def _described(path: Path) -> Original:
    copy = path.with_name("as-sqlite-sees-it.db")
    _copy(path, copy)
    with closing(sqlite3.connect(copy)) as connection:
        entries = dict(connection.execute("SELECT key, payload FROM entry"))
        blobs = frozenset(name for (name,) in connection.execute("SELECT sha256 FROM blob"))
        messages = frozenset(number for (number,) in connection.execute("SELECT id FROM queue"))
    places = _places(path)
    wanted = {("entry", key) for key in entries} | {("blob", name) for name in blobs}
    assert wanted | {("queue", number) for number in messages} <= set(places), "the map of the pages is not whole"
    return Original(path, entries, blobs, messages, places)


def _places(path: Path) -> dict[Row, Touched]:
    """Where each row is, of the newest version of each page."""
    found: dict[Row, Touched] = {}
    with opened(path) as file:
        logged = {frame.page: frame for frame in file.frames}

        def place(page: int) -> tuple[str, int, int]:
            if page in logged:
                at = logged[page].at
                return ("wal", at - FRAME_HEADER_BYTES, at + file.page_bytes)
            return ("db", (page - 1) * file.page_bytes, page * file.page_bytes)

        for number in range(1, max([file.count, *logged]) + 1):
            content = file.newest(number)
            for cell in pages.page_cells(content, file.usable, pages.TABLE_LEAF, is_first=number == 1):
                record = file.whole(cell)
                types = pages.serial_types(record) if record else None
                values = pages.values(record, types) if record and types else None
                if values is None or number == 1:
                    continue
                row: Row
                if len(values) == 5:
                    row = ("entry", cell.rowid or 0)
                elif len(values) == 4:
                    row = ("queue", cell.rowid or 0)
                else:
                    row = ("blob", str(values[0]))
                chain, page = [number], cell.overflow
                left = cell.size - len(cell.local)
                while left > 0:
                    chain.append(page)
                    page = int.from_bytes(file.newest(page)[:4], "big")
                    left -= file.usable - 4
                found[row] = [place(page) for page in chain]
    return found


# --------------------------------------------------------------------------- damage


def damage(original: Original, path: Path, kind: str, seed: int) -> set[Row]:
    """Make a damaged copy of a session at `path`; the rows that must still be found there."""
    chance = random.Random(f"{kind} {seed}")
    _copy(original.path, path)
    touched, gone = KINDS[kind](path, chance)
    if touched is None:
        return set()
    wanted: set[Row] = {("entry", key) for key in original.entries} | {("blob", name) for name in original.blobs}
    wanted |= {("queue", number) for number in original.messages}
    return {row for row in wanted - gone if not _is_touched(original.places[row], touched)}


def _is_touched(places: Touched, touched: Touched) -> bool:
    return any(
        file == other and start < last and first < end for file, start, end in places for other, first, last in touched
    )


Damage = tuple[Touched | None, set[Row]]
"""What was touched (None: everything) and rows that are not what they were for another reason."""


def _log(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _write(path: Path, file: str, at: int, data: bytes) -> tuple[str, int, int]:
    with (path if file == "db" else _log(path)).open("r+b") as opened_file:
        opened_file.seek(at)
        opened_file.write(data)
    return file, at, at + len(data)


def _noise(chance: random.Random, size: int) -> bytes:
    return chance.choice((chance.randbytes(size), b"\0" * size, b"\xff" * size, b"A" * size))


def _truncated(path: Path, chance: random.Random) -> Damage:
    size = path.stat().st_size
    cut = chance.randrange(1, size)
    with path.open("r+b") as file:
        file.truncate(cut)
    return [("db", cut, size)], set()


def _pages(path: Path, chance: random.Random) -> Damage:
    count = max(1, path.stat().st_size // pages.PAGE_BYTES)
    some = [chance.randrange(count) for _ in range(chance.choice((1, 1, 2, 5, 12)))]
    return [_write(path, "db", page * pages.PAGE_BYTES, _noise(chance, pages.PAGE_BYTES)) for page in some], set()


def _header_byte(path: Path, chance: random.Random) -> Damage:
    at = chance.randrange(100)
    before = path.read_bytes()[at]
    return [_write(path, "db", at, bytes([chance.choice([b for b in range(256) if b != before])]))], set()


def _header(path: Path, chance: random.Random) -> Damage:
    return [_write(path, "db", 0, _noise(chance, chance.choice((16, 100, 512, 4096))))], set()


def _bits(path: Path, chance: random.Random) -> Damage:
    data = path.read_bytes()
    places = [chance.randrange(len(data)) for _ in range(chance.choice((1, 3, 20)))]
    return [_write(path, "db", at, bytes([data[at] ^ 1 << chance.randrange(8)])) for at in places], set()


def _nul_tail(path: Path, chance: random.Random) -> Damage:
    size = path.stat().st_size
    if chance.random() < 0.3:
        with path.open("ab") as file:
            file.write(b"\0" * chance.randrange(1, 20_000))
        return [], set()
    at = chance.randrange(size // 2, size)
    return [_write(path, "db", at, b"\0" * (size - at))], set()


def _by_sql(change: Callable[[sqlite3.Connection, random.Random], set[Row]]) -> Callable[[Path, random.Random], Damage]:
    """A change that leaves all other rows where they are to be found, if on other pages."""

    def apply(path: Path, chance: random.Random) -> Damage:
        with closing(sqlite3.connect(path)) as connection:
            gone = change(connection, chance)
            connection.commit()
        return [], gone

    return apply


def _keys(connection: sqlite3.Connection, chance: random.Random) -> list[int]:
    keys = [key for (key,) in connection.execute("SELECT key FROM entry")]
    return chance.sample(keys, min(len(keys), chance.choice((1, 3, 20))))


def _garbage_rows(connection: sqlite3.Connection, chance: random.Random) -> set[Row]:
    keys = _keys(connection, chance)
    for key in keys:
        garbage = chance.choice(
            (b"", b"\0" * 300, 5, 2.5, "text", b"[" * 5_000, b'{"type":"user"}', b'{"type":"user","blocks":4}')
        )
        connection.execute("UPDATE entry SET payload = ? WHERE key = ?", (garbage, key))
    return {("entry", key) for key in keys}


def _parents(connection: sqlite3.Connection, chance: random.Random) -> set[Row]:
    for key in _keys(connection, chance):
        other = chance.choice((key, key + 1, key + 2, 10**6, -4, "x", b"\0", None, 2**62, 1.5))
        connection.execute("UPDATE entry SET parent = ? WHERE key = ?", (other, key))
    return set()


def _odd_columns(connection: sqlite3.Connection, chance: random.Random) -> set[Row]:
    for key in _keys(connection, chance):
        connection.execute(
            "UPDATE entry SET time_ms = ? WHERE key = ?", (chance.choice(("x", 2**62, -5, 1e300, b"")), key)
        )
    connection.execute("INSERT INTO count VALUES ('x', 1, 'y')")
    connection.execute("INSERT OR IGNORE INTO entry VALUES (?, 1, 'user', 0, ?)", (chance.choice((-7, 2**62)), b"{}"))
    return set()


def _meta(connection: sqlite3.Connection, chance: random.Random) -> set[Row]:
    match chance.randrange(5):
        case 0:
            connection.execute("DELETE FROM meta")
        case 1:
            connection.execute("UPDATE meta SET value = ?", (chance.choice((b"\0\xff", 7, "", "²")),))
        case 2:
            connection.execute("UPDATE meta SET name = name || 'x'")
        case 3:
            connection.execute(f"PRAGMA user_version = {chance.choice((0, -5, 123_456_789))}")
        case _:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'meta'", ("CREATE TABLE meta (a, b",))
    return set()


def _huge_row(path: Path, chance: random.Random) -> Damage:
    """The length that a row's first byte on its page begins to tell becomes a gigabyte."""
    data = path.read_bytes()
    leaves = [n for n in range(1, len(data) // pages.PAGE_BYTES) if data[n * pages.PAGE_BYTES] == pages.TABLE_LEAF]
    if not leaves:
        return [], set()
    start = chance.choice(leaves) * pages.PAGE_BYTES
    cell = int.from_bytes(data[start + 8 : start + 10], "big")
    huge = bytes((0x84, 0x80, 0x80, 0x80, 0x00))
    return [_write(path, "db", start + min(cell, pages.PAGE_BYTES - 5), huge)], set()


def _log_gone(path: Path, chance: random.Random) -> Damage:
    size = _log(path).stat().st_size if _log(path).exists() else 0
    _log(path).unlink(missing_ok=True)
    return [("wal", 0, size)], set()


def _log_torn(path: Path, chance: random.Random) -> Damage:
    if not _log(path).exists() or not _log(path).stat().st_size:
        return _truncated(path, chance)
    size = _log(path).stat().st_size
    cut = chance.randrange(size)
    begun = _transaction_at(path, cut)
    with _log(path).open("r+b") as file:
        file.truncate(cut)
    return [("wal", begun, size)], set()


def _transaction_at(path: Path, cut: int) -> int:
    """Where the transaction begins that is not whole when the log ends there: such a one was never made, for SQLite and for
    who waited for it."""
    data = _log(path).read_bytes()
    step, begun = pages.PAGE_BYTES + FRAME_HEADER_BYTES, 32
    for end in range(32 + step, cut + 1, step):
        if any(data[end - step + 4 : end - step + 8]):
            begun = end
    return min(begun, cut)


def _log_pages(path: Path, chance: random.Random) -> Damage:
    if not _log(path).exists():
        return _pages(path, chance)
    step = pages.PAGE_BYTES + FRAME_HEADER_BYTES
    count = max(1, (_log(path).stat().st_size - 32) // step)
    touched: Touched = []
    for _ in range(chance.choice((1, 1, 3))):
        at = 32 + chance.randrange(count) * step + chance.choice((0, 0, 24, 500))
        touched.append(_write(path, "wal", at, _noise(chance, chance.choice((4, 24, 4096)))))
    return touched, set()


def _log_header(path: Path, chance: random.Random) -> Damage:
    if not _log(path).exists():
        return _header(path, chance)
    return [_write(path, "wal", chance.randrange(28), _noise(chance, 4))], set()


def _mixed(path: Path, chance: random.Random) -> Damage:
    touched: Touched = []
    for name in chance.sample(("pages", "header byte", "bits", "log pages", "log torn", "nul tail"), 2):
        some, _ = KINDS[name](path, chance)
        touched += some or []
    return touched, set()


def _empty(path: Path, chance: random.Random) -> Damage:
    path.write_bytes(b"")
    _log(path).unlink(missing_ok=True)
    return None, set()


def _foreign(path: Path, chance: random.Random) -> Damage:
    path.write_bytes(_noise(chance, chance.choice((1, 99, 5_000, 70_000))))
    _log(path).unlink(missing_ok=True)
    return None, set()


def _odd_index(path: Path, chance: random.Random) -> Damage:
    path.with_name(path.name + "-shm").write_bytes(_noise(chance, 32_768))
    return [], set()


KINDS: dict[str, Callable[[Path, random.Random], Damage]] = {
    "truncated": _truncated,
    "pages": _pages,
    "header byte": _header_byte,
    "header": _header,
    "bits": _bits,
    "nul tail": _nul_tail,
    "garbage rows": _by_sql(_garbage_rows),
    "parents": _by_sql(_parents),
    "odd columns": _by_sql(_odd_columns),
    "meta": _by_sql(_meta),
    "huge row": _huge_row,
    "log gone": _log_gone,
    "log torn": _log_torn,
    "log pages": _log_pages,
    "log header": _log_header,
    "log index": _odd_index,
    "mixed": _mixed,
    "empty": _empty,
    "foreign": _foreign,
}


def same_payload(raw: bytes, payload: Payload) -> bool:
    return decode_payload(raw) == payload

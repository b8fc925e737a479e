"""A process that writes a session, for tests that kill, starve or trace it. Run as a module: `SESSION ENTRIES`, and it prints a
line for each entry that is on the disk and for each failure, then waits for its standard input to end."""

import asyncio
import sys
from pathlib import Path

from agent.store import sessions
from agent.store.base import SessionMeta
from agent.store.session_file import SessionFile
from agent.transcript import Entry, User
from providers.types import TextBlock


def entry(key: int, text: str = "hello") -> Entry:
    return Entry(key, key - 1 or None, 1_000 + key, User((TextBlock(text),)))


def written(path: Path, entries: int) -> Path:
    """A session of so many entries, written and closed in this process."""
    store = SessionFile(path, SessionMeta(path.stem, "/project", 0))
    store.append([entry(key) for key in range(1, entries + 1)])
    store.close()
    return path


def _say(*words: object) -> None:
    print(*words, flush=True)


def _failed(text: str) -> None:
    _say("failed", text.partition("\n")[0])


async def _write(path: Path, count: int) -> None:
    if path.exists():
        store, loaded = sessions.open_session(path, _failed, on_recovery=lambda: _say("recovered"))
        first = loaded.entries[-1].key + 1
    else:
        meta = SessionMeta(path.stem, "/project", 0)
        store = SessionFile(path, meta, None, _failed, on_recovery=lambda: _say("recovered"), retry_s=0.1)
        first = 1
    for key in range(first, first + count):
        store.append([entry(key)])
        await store.durable(key)
        _say("kept" if store.unwritten else "written", key)
    await asyncio.to_thread(sys.stdin.read)
    store.close()
    _say("unwritten", store.unwritten)


if __name__ == "__main__":
    asyncio.run(_write(Path(sys.argv[1]), int(sys.argv[2])))

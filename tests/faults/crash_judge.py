"""Holds what a killed claw left against what it had promised, and goes on with the session as a user would."""

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agent.session import Session
from agent.store import sessions
from agent.store.base import QueuedMessage
from agent.transcript import Assistant, Compaction, Entry, Pin, Setting, ShellBlock, Transcript, Undo, User
from agent.window import Window
from providers.anthropic_encoding import AnthropicEncoder
from providers.base import ModelRequest
from providers.chat_encoding import ChatEncoder
from providers.chat_quirks import ChatQuirks
from providers.responses_encoding import RequestEncoder
from providers.scripted import Item, Say
from providers.types import TextBlock, ToolCall
from tests.fakes import anthropic_rules, chat_rules, responses_rules
from tests.fakes.kill_points import Ended
from tests.faults.crash_scripts import RAN, SIDE, SOURCE, SUMMARY, Place, allow, digest, opener

Found = tuple[Sequence[Entry], Sequence[QueuedMessage]]
_STATES = {f"count = {count}\n{SOURCE.partition(chr(10))[2]}": count for count in range(4)}


def read_all(place: Place) -> dict[Path, Sequence[Entry]]:
    """The entries of every session."""
    return {path: sessions.load(path).entries for path in place.sessions.glob("*.db")}


async def judge(place: Place, ended: Ended, before: Mapping[Path, Sequence[Entry]]) -> list[str]:
    """Everything that is not as it was promised; empty: all is well. `before`: what there was when it was started."""
    problems = [f"left running: {line}" for line in ended.survivors]
    if not ended.killed_at and ended.exit_code:
        problems.append(f"it failed by itself: {ended.exit_code}")
    found: dict[Path, Found] = {}
    for path in sorted(place.sessions.glob("*.db")):
        try:
            loaded = sessions.load(path)
            problems += [f"{path.name}: {loaded.damage}"] if loaded.damage else []
            problems += _integrity(path)
            found[path] = loaded.entries, loaded.queue
            if not _begins_with(loaded.entries, before.get(path, ())):
                problems.append(f"{path.name}: what there was before is gone")
        except Exception as error:
            problems.append(f"unreadable: {error!r}")
    problems += [f"gone: {path.name}" for path in before if not path.exists()]
    problems += _lost(_notes(place), list(found.values()))
    problems += _files(place, [entry for entries, _ in found.values() for entry in entries])
    for path, (entries, _) in found.items():
        try:
            problems += await _go_on(place, path, entries)
        except Exception as error:
            problems.append(f"cannot be gone on with: {error!r}")
    if strays(place):  # what was to become a session is swept away when the next one is made
        problems += await _go_on(place, None, ())
    problems += [f"stray after the next start: {path.name}" for path in strays(place)]
    return problems


def strays(place: Place) -> list[Path]:
    """Temporary files in the project, and whatever claw's own places hold that has no business there."""
    known = ("config.toml", "state.toml", "index.db", "index.db-wal", "index.db-shm", "index.db-journal", "history")
    own = [path for path in place.home.rglob("*") if path.is_file() and path.parent != place.sessions]
    beside = [
        path for path in place.sessions.glob("*") if not path.name.endswith((".db", ".db-wal", ".db-shm", ".lock"))
    ]
    return [
        *place.project.rglob(".claw-*"),
        *beside,
        *(path for path in own if path.name not in known and "spills" not in path.parts),
        *(path for path in (Path(place.root) / "tmp").glob("*") if not _is_probe(path)),
    ]


def _is_probe(path: Path) -> bool:
    """Python's own look at whether the folder for temporary files can be written."""
    return path.is_file() and path.read_bytes() in (b"", b"blat")


def _integrity(path: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (said,) = connection.execute("PRAGMA integrity_check").fetchone()
    return [] if said == "ok" else [f"{path.name}: {said}"]


# ------------------------------------------------------------------ what was promised


def _notes(place: Place) -> list[dict[str, Any]]:
    side = Path(place.root) / SIDE
    return [json.loads(line) for line in side.read_text().splitlines()] if side.exists() else []


def _lost(notes: Sequence[dict[str, Any]], found: Sequence[Found]) -> Iterator[str]:
    """Of every request that left, all that stood in it is on the disk, and so is what was done before it."""
    kept = {seen for entries, _ in found for seen in _windows(entries)}
    for number, note in enumerate(notes):
        if note["sent"] and note["sent"] not in kept:
            yield f"request {number} of {len(notes)} cannot be made again from the disk"
    for done in notes[-1]["done"] if notes else ():
        if not any(_KEPT[done](entries, queue) for entries, queue in found):
            yield f"lost: {done}"


def _windows(entries: Sequence[Entry]) -> Iterator[str]:
    """What was sent, or would have been, after each entry."""
    transcript, window = Transcript(), Window()
    for entry in entries:
        transcript.add(entry)
        window.apply(transcript.branch, entry)
        yield digest(window.sealed())


def _any(kind: type, condition: Callable[[Any], bool] = lambda payload: True) -> Callable[..., bool]:
    def holds(entries: Sequence[Entry], queue: Sequence[QueuedMessage]) -> bool:
        return any(isinstance(entry.payload, kind) and condition(entry.payload) for entry in entries)

    return holds


def _shell(entries: Sequence[Entry], queue: Sequence[QueuedMessage]) -> bool:
    users = [entry.payload for entry in entries] + [message.user for message in queue]
    return any(isinstance(user, User) and any(isinstance(b, ShellBlock) for b in user.blocks) for user in users)


def _queued(entries: Sequence[Entry], queue: Sequence[QueuedMessage]) -> bool:
    """Both messages that were sent into a turn are there once, and the one that was taken back is not."""
    said = [message.text for message in queue]
    for entry in entries:
        if isinstance(entry.payload, User):
            said += [block.text for block in entry.payload.blocks if isinstance(block, TextBlock)]
    return [said.count(text) for text in ("and this", "later that", "not this")] == [1, 1, 0]


_KEPT: dict[str, Callable[..., bool]] = {
    "pin": _any(Pin, lambda pin: bool(pin.text)),
    "manual": _any(Compaction, lambda compaction: compaction.trigger == "manual"),
    "undo": _any(Undo),
    "title": _any(Setting, lambda setting: bool(setting.title)),
    "effort": _any(Setting, lambda setting: setting.effort == "high"),
    "mode": _any(Setting, lambda setting: setting.mode == "edits"),
    "shell": _shell,
    "queue": _queued,
}


def _files(place: Place, entries: Sequence[Entry]) -> Iterator[str]:
    """Files are whole, and what tools did rests on calls that are on the disk."""
    calls = {
        b.id for e in entries if isinstance(e.payload, Assistant) for b in e.payload.blocks if isinstance(b, ToolCall)
    }
    count = _STATES.get((place.project / "count.py").read_text())
    if count is None:
        yield "count.py is torn"
    effects = [f"e{number}" for number in range(1, (count or 0) + 1)]
    for note in place.project.glob("note_*.txt"):
        number = note.stem.removeprefix("note_")
        effects.append(f"w{number}")
        if note.read_text() != f"note {number}\n" * 200:
            yield f"{note.name} is torn"
    ran = Path(place.root) / RAN
    effects += ran.read_text().split() if ran.exists() else []
    yield from (f"{effect} was run, but its call is not on the disk" for effect in effects if effect not in calls)


# ------------------------------------------------------------------ going on


async def _go_on(place: Place, path: Path | None, before: Sequence[Entry]) -> list[str]:
    """Resume, or begin, and send a message: it is answered, nothing of before is gone, and every wire's rules accept the
    request."""
    requests: list[ModelRequest] = []

    def reply(request: ModelRequest) -> list[Item]:
        requests.append(msgspec.structs.replace(request, messages=tuple(request.messages)))
        return [Say(SUMMARY if not request.tools or request.extra else "Here I am.")]

    session: Session = opener(place, reply).open(lambda event: None, allow, path)
    try:
        ended = await session.prompt("go on")
        problems = [] if ended.reason == "done" else [f"the next turn ended so: {ended.reason} {ended.error}"]
    finally:
        await session.close()
    if path is not None and not _begins_with(sessions.load(path).entries, before):
        problems.append("what was recorded is not the beginning of what is recorded now")
    return [*problems, *(f"refused: {text}" for request in requests for text in _refusals(request))]


def _begins_with(entries: Sequence[Entry], before: Sequence[Entry]) -> bool:
    return list(entries[: len(before)]) == list(before)


def _refusals(request: ModelRequest) -> Iterator[str]:
    found = (
        anthropic_rules.refusal(AnthropicEncoder().body(request)),
        responses_rules.refusal(RequestEncoder().body(request)),
        chat_rules.refusal(ChatEncoder(ChatQuirks()).body(request)),
    )
    return (str(text) for text in found if text is not None)

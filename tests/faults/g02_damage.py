"""Session files damaged in every way that is known, a thousand of them: what is left is read, saved and gone on with.

Each runs in another process, so that what never comes back, and what kills it, is counted too.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agent.store import sessions
from agent.store.base import SessionStore
from agent.store.damaged import FOLDER
from agent.store.index import SessionIndex
from agent.store.preview import last_messages
from agent.store.schema import SchemaError
from agent.transcript import Transcript
from agent.window import Window
from providers.types import AssistantMessage, ToolCall, ToolResultMessage
from tests.faults.damage import KINDS, Original, Row, damage, make, same_payload
from tests.faults.gate import Gate, Reading

TRIALS = 1_000
ORIGINALS = 12
MOST_S, MOST_WAITED_S = 2.0, 15.0
"""More computing for one look at a file, or more by the clock, is a hang; a busy machine's disk may be waited for."""
_GIVEN_UP_S = 30.0
_ROOT = Path(__file__).parents[2]


def run(original: Original, folder: Path, kind: str, seed: int) -> dict[str, Any]:
    """One file, damaged and looked at in every way; what came of it."""
    folder.mkdir()
    path = folder / original.path.name
    wanted = damage(original, path, kind, seed)
    before = _bytes(path)
    clock, found, notes = _Clock(), set[Row](), list[str]()
    looks: dict[str, Callable[[], object]] = {
        "list": lambda: _listed(path),
        "preview": lambda: last_messages(path),
        "load": lambda: _fold(sessions.load(path)),
        "view": lambda: _fold(sessions.view(path)[1]),
    }
    for name, look in looks.items():
        with clock, contextlib.suppress(SchemaError):
            look()
        if _bytes(path) != before:
            notes.append(f"{name} wrote")
    told = ""
    try:
        with clock:
            store, loaded = sessions.open_session(path, notes.append)
        told = loaded.told
        _fold(loaded)
        found = _rows(original, store, loaded)
        store.close()
    except SchemaError as error:
        told = str(error)
        with contextlib.suppress(SchemaError):  # a bit that turned can look like what a newer claw writes: it is read
            viewed, loaded = sessions.view(path)
            found = _rows(original, viewed, loaded)
            viewed.close()
        if _bytes(path) != before:
            notes.append("it was changed though nothing was saved")
    else:
        notes += _judged(path, before, told, loaded)
    lost = wanted - found
    return {
        "kind": kind,
        "seed": seed,
        "slowest_s": round(clock.slowest_s, 3),
        "waited_s": round(clock.waited_s, 3),
        "wanted": len(wanted),
        "found": len(wanted & found),
        "lost": sorted(map(str, lost))[:5],
        "notes": notes,
        "told": told,
    }


class _Clock:
    """The longest of what it was put around."""

    slowest_s = waited_s = 0.0
    """Of the processor, and by the clock."""

    def __enter__(self) -> None:
        self._start = time.process_time(), time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.slowest_s = max(self.slowest_s, time.process_time() - self._start[0])
        self.waited_s = max(self.waited_s, time.monotonic() - self._start[1])


def _bytes(path: Path) -> dict[str, bytes]:
    files = {ending: path.with_name(path.name + ending) for ending in ("", "-wal")}
    return {ending: file.read_bytes() for ending, file in files.items() if file.exists() and file.stat().st_size}


def _listed(path: Path) -> None:
    with contextlib.closing(SessionIndex(path.parent, None)) as index:
        index.complete()


def _rows(original: Original, store: SessionStore, loaded: sessions.LoadedSession) -> set[Row]:
    """Those of the original that came back as they were."""
    entries = {entry.key: entry.payload for entry in loaded.entries}
    found: set[Row] = {
        ("entry", key) for key, raw in original.entries.items() if key in entries and same_payload(raw, entries[key])
    }
    for name in original.blobs:
        with contextlib.suppress(KeyError):
            store.blob(name)
            found.add(("blob", name))
    return found | {("queue", message.id) for message in loaded.queue}


def _fold(loaded: sessions.LoadedSession) -> None:
    """The window of what was read, which has to be one that a provider takes."""
    transcript = Transcript(loaded.entries)
    messages = Window(transcript.branch).sealed()
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        if isinstance(message, ToolResultMessage):
            assert open_calls and message.call_id == open_calls.pop(0), "a result without its call"
            continue
        assert not open_calls, "a call without its result"
        if isinstance(message, AssistantMessage):
            assert number, "a reply to nothing"
            open_calls = [block.id for block in message.blocks if isinstance(block, ToolCall)]
    assert not open_calls, "a call without its result"


def _judged(path: Path, before: dict[str, bytes], told: str, loaded: sessions.LoadedSession) -> Iterator[str]:
    """What is wrong with how the file was left."""
    kept = [_bytes(file) for file in sorted((path.parent / FOLDER).glob("*.db"))]
    if told and before not in kept:
        yield "the damaged file was not kept as it was"
    if not told and (kept or _bytes(path).get("") != before.get("")):
        yield "a whole file was changed in silence"
    if not {file.suffix for file in path.parent.iterdir()} <= {".db", ".lock", ".viewing", ".db-wal", ".db-shm", ""}:
        yield "something was left behind"
    for file in path.parent.rglob("*.db*"):
        if told and file.stat().st_mode & 0o077:
            yield f"{file.name} is not private"
    store, again = sessions.open_session(path, lambda text: None)
    store.close()
    if again.told or again.damage or again.entries != loaded.entries or again.queue != loaded.queue:
        yield "the next opening is no ordinary one"


def trials(share: float) -> list[tuple[str, int]]:
    kinds = [kind for kind in KINDS if kind not in ("empty", "foreign", "log index")] * 6 + [
        "empty",
        "foreign",
        "log index",
    ]
    count = max(len(KINDS), round(TRIALS * share))
    order = [*KINDS, *(kinds[number * 7 % len(kinds)] for number in range(count - len(KINDS)))]
    return [(kind, seed) for seed, kind in enumerate(order)]


def _work(first: int, step: int, share: float) -> None:
    """The other process: a line of JSON for each trial."""
    with tempfile.TemporaryDirectory() as folder:
        originals: dict[int, Original] = {}
        for kind, seed in trials(share)[first::step]:
            which = seed % (ORIGINALS if share > 0.1 else 2)
            if which not in originals:
                originals[which] = make(Path(folder) / f"original {which}", which)
            here = Path(folder) / f"{seed}"
            try:
                line = run(originals[which], here, kind, seed)
            except Exception as error:
                line = {"kind": kind, "seed": seed, "crash": f"{type(error).__name__}: {error}"}
            print(json.dumps(line), flush=True)


def lines(share: float) -> Iterator[dict[str, Any]]:
    """The results, with a "crash" for a trial that never came to an end."""
    left = dict.fromkeys(trials(share))
    first = 0
    while left:
        command = [sys.executable, "-m", "tests.faults.g02_damage", str(first), str(share)]
        with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            try:
                for line in _read(process.stdout.fileno()):
                    result = json.loads(line)
                    del left[result["kind"], result["seed"]]
                    yield result
            finally:
                process.kill()
        if left:
            kind, seed = next(iter(left))
            del left[kind, seed]
            first = seed + 1
            yield {"kind": kind, "seed": seed, "crash": "it never came back, or killed its process"}


def _read(fd: int) -> Iterator[bytes]:
    rest = b""
    while select.select([fd], [], [], _GIVEN_UP_S)[0] and (data := os.read(fd, 1 << 16)):
        *whole, rest = (rest + data).split(b"\n")
        yield from whole


def measure(share: float) -> Reading:
    results = list(lines(share))
    crashes = [result for result in results if "crash" in result]
    done = [result for result in results if "crash" not in result]
    slow = [result for result in done if result["slowest_s"] > MOST_S or result["waited_s"] > MOST_WAITED_S]
    noted = [result for result in done if result["notes"]]
    slowest_s = max((result["slowest_s"] for result in done), default=0.0)
    wanted, found = sum(result["wanted"] for result in done), sum(result["found"] for result in done)
    part = found / wanted if wanted else 0.0
    reached = (
        f"{len(results):,} files, {len(KINDS)} kinds: {len(crashes)} crashes, {len(slow)} hangs (slowest {slowest_s:.2f} s), "
        f"{part:.2%} of {wanted:,} intact records back, {len(noted)} not kept or not left as they should be"
    )
    faults = Counter(f"{r['kind']}: {r.get('crash') or r['notes']}" for r in (*crashes, *noted))
    holds = not crashes and not slow and not noted and part >= 0.99
    return Reading(reached + "".join(f"; {fault} ({count})" for fault, count in faults.most_common(3)), holds)


GATE = Gate(
    "G2",
    "Damaged session files",
    f"{TRIALS:,} files: 0 crashes, 0 hangs over 2 s, at least 99 % of intact records back, originals kept",
    "other agents load none to one of seven kinds of damage",
    measure,
)

if __name__ == "__main__":
    _work(int(sys.argv[1]), 1, float(sys.argv[2]))

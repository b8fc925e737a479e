"""Two thousand sessions: the index made anew, a listing, a search, the command line, and the picker's first screen."""

import asyncio
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from agent.config.layers import load_config
from agent.config.paths import Paths
from agent.store.base import SessionMeta
from agent.store.index import SessionIndex
from agent.store.session_file import SessionFile
from agent.transcript import Assistant, Entry, Result, User
from providers.types import TextBlock, Usage
from tests.benchmarks.kit import CLAW, clean_env, compile_all, median, quantile, show, spread
from tests.tui.harness import press, running, screen_text, until
from tui.bridge import SessionSummary
from tui.launch.arguments import Arguments
from tui.launch.sessions_on_disk import SessionsOnDisk
from tui.launch.startup import Startup

SESSIONS = 2_000
TEMPLATES = 40
ENTRIES = 12
WORDS = [f"{a}{b}" for a in ("par", "lex", "tok", "ren", "que", "mor") for b in ("ser", "ing", "ise", "der", "ues")]


def main() -> bool:
    compile_all()
    with tempfile.TemporaryDirectory() as scratch:
        home, project = Path(scratch) / "home", Path(scratch) / "project"
        project.mkdir()
        env = clean_env(home)
        paths = Paths.from_env(env)
        make_sessions(paths.sessions, project)
        good = [_index(paths), _command_line(env, project), asyncio.run(_picker(paths, env, project))]
    return all(good)


def make_sessions(folder: Path, project: Path) -> None:
    """Small sessions with ids, times and words of their own; a third of them of the project."""
    folder.mkdir(parents=True, mode=0o700)
    rng = random.Random(5)
    for number in range(SESSIONS):
        day, minute = number % 28 + 1, number // 28
        id_ = f"202511{day:02}-{minute // 60:02}{minute % 60:02}00-{number:04x}"
        path = folder / f"{id_}.db"
        if number >= TEMPLATES:
            shutil.copy(folder / f"{_template_id(number % TEMPLATES)}.db", path)
        else:
            of = project if number % 3 == 0 else Path(f"/elsewhere/{number % 7}")
            store = SessionFile(path, SessionMeta(id_, str(of), number * 1000))
            store.append([_entry(key, rng) for key in range(1, ENTRIES + 1)])
            store.close()
        os.utime(path, (1_760_000_000 + number * 60,) * 2)


def _template_id(number: int) -> str:
    return f"202511{number % 28 + 1:02}-{number // 28 // 60:02}{number // 28 % 60:02}00-{number:04x}"


def _entry(key: int, rng: random.Random) -> Entry:
    text = TextBlock(" ".join(rng.choices(WORDS, k=60)))
    if key % 3 == 1:
        return Entry(key, key - 1 or None, 1_760_000_000_000 + key, User((text,)))
    if key % 3 == 2:
        reply = Assistant((text,), "anthropic", "claude", "anthropic", "claude", None, Usage(900, 0, 0, 60), "end_turn")
        return Entry(key, key - 1, 1_760_000_000_000 + key, reply)
    return Entry(key, key - 1, 1_760_000_000_000 + key, Result(f"c{key}", "read", (text,)))


def _timed(work: object) -> float:
    started = time.perf_counter()
    assert callable(work)
    work()
    return (time.perf_counter() - started) * 1000


def _index(paths: Paths) -> bool:
    index = SessionIndex(paths.sessions, paths.index_file)
    good = [show("cold: all sessions by name and time", _timed(index.listing), "ms", 200)]
    good.append(show("cold: the whole index", _timed(index.complete) / 1000, "s", 15))
    size = sum(file.stat().st_size for file in paths.data.glob("index.db*"))
    show("  its size", size / 1e6, "MB")
    good.append(show("2,000 sessions listed", median(lambda: _timed(index.complete), 9), "ms", 200))
    times = [_timed(lambda words=words: index.search(words, each=1)) for words in (*WORDS, "parser tokens", "zzz yyy")]
    good.append(show("search in all of them (p95)", quantile(times, 0.95), "ms", 200))
    return all(good)


def _command_line(env: dict[str, str], project: Path) -> bool:
    def run(*words: str) -> float:
        return _timed(
            lambda: subprocess.run([CLAW, *words], env=env, cwd=project, check=True, stdout=subprocess.DEVNULL)
        )

    bare = median(lambda: run("--version"), 5)
    whole = median(lambda: run("sessions", "list", "--all"), 5)
    return show("claw sessions list --all", whole, "ms", 600, f"--version {bare:.0f} ms")


async def _picker(paths: Paths, env: dict[str, str], project: Path) -> bool:
    """From the key to the first rows on the screen: with an index, and without one."""
    startup = Startup(Arguments(), env, paths, project, project, load_config(paths, project, env, ()), {}, "")
    warm = [await _opened(SessionsOnDisk(startup)) for _ in range(6)][1:]
    cold = []
    for _ in range(5):
        for file in paths.data.glob("index.db*"):
            file.unlink()
        cold.append(await _opened(SessionsOnDisk(startup)))
    good = show("the picker over 2,000 sessions, first rows", quantile(warm, 0.5), "ms", 200, spread(warm))
    return show("  without an index", quantile(cold, 0.5), "ms", 200, spread(cold)) and good


async def _opened(stored: SessionsOnDisk) -> float:
    """Milliseconds."""

    async def listed() -> Sequence[SessionSummary]:
        return await asyncio.to_thread(stored.list_now)

    async with running(list_sessions=listed, stored_sessions=lambda: stored) as (app, _):
        started = time.perf_counter()
        app.overlays.pick_session()
        await until(lambda: "▸" in screen_text(app))
        taken = (time.perf_counter() - started) * 1000
        await press(app, "escape")
    return taken


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

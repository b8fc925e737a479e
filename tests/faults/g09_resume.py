"""Going on with long sessions: time, memory and how both grow, each in a fresh process that opens the session as claw does."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from agent.store import sessions
from agent.transcript import Assistant, Entry, Payload, Prefix, Result, Setting, User
from providers.types import PromptSection, TextBlock, ToolCall, ToolSpec, Usage
from tests.faults.gate import Gate, Reading

ENTRIES, MEGABYTES = 20_000, 50
FACTOR = 4
"""The longer session is so many times as long."""
MOST_S, MOST_MB = 2.0, 300.0
MOST_RATIO = FACTOR * 1.5
_TRIES = 3
_ROOT = Path(__file__).parents[2]


class Resume(NamedTuple):
    seconds: float
    """From the start of the process to when the next request could be sent and the screen drawn."""
    cpu_s: float
    """Of that what it computed; a machine that does other things does not change it."""
    peak_mb: float
    """Of the whole process, the interpreter and claw's modules included."""
    events: int
    """That are drawn again."""


def make(folder: Path, entries: int, megabytes: float) -> Path:
    """A session of that many entries: questions, replies with a call, and their results, which are most of it."""
    store = sessions.new_session(folder, Path("/p"), _fail)
    each = int(megabytes * 1_000_000 / entries)
    payloads: list[Payload] = [
        Setting("anthropic", "m", "claude", "anthropic", cwd="/p"),
        Prefix((PromptSection("s", "x" * 8_000, True),), (ToolSpec("bash", "d", {"type": "object"}),)),
    ]
    for key in range(1, entries + 1):
        payload = payloads[key - 1] if key <= len(payloads) else _payload(key, each)
        store.append([Entry(key, key - 1 or None, key, payload)])
        if key % 500 == 0:
            asyncio.run(store.durable(key))
    store.save_counts("o200k_base", dict.fromkeys(range(1, entries + 1), 400))
    store.close()
    return store.path


def _payload(key: int, size: int) -> Payload:
    text = f"{key}: " + "some words of a long session, and 你好\n" * (size * 9 // 10 // 42 + 1)
    match key % 4:
        case 3:
            return User((TextBlock(text[: size // 4]),))
        case 0:
            blocks = (TextBlock(text[: size // 4]), ToolCall(f"c{key}", "bash", '{"command":"make"}'))
            return Assistant(blocks, "anthropic", "m", "anthropic", "claude", None, Usage(100, 0, 0, 10), "tool_use")
        case 1:
            return Result(f"c{key - 1}", "bash", (TextBlock(text * 2),))
        case _:
            blocks_ = (TextBlock(text),)
            return Assistant(blocks_, "anthropic", "m", "anthropic", "claude", None, Usage(100, 0, 0, 10), "end_turn")


def _fail(text: str) -> None:
    raise AssertionError(text)


def resume(path: Path, tries: int) -> Resume:
    """The best of some tries: the rest of the machine only makes it slower."""
    found: list[Resume] = []
    home = path.parents[2]
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "CLAW_HOME": str(home), "ANTHROPIC_API_KEY": "none"}
    command = [sys.executable, "-m", "tests.faults.g09_resume", str(path)]
    for _ in range(tries):
        start = time.perf_counter()
        with subprocess.Popen(command, cwd=_ROOT, env=env, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            seconds = time.perf_counter() - start
        assert process.returncode == 0, "it did not come up"
        found.append(Resume(seconds, *json.loads(line)))
    seconds, cpu_s = min(f.seconds for f in found), min(f.cpu_s for f in found)
    return Resume(seconds, cpu_s, statistics.median(f.peak_mb for f in found), found[0].events)


async def _work(path: Path) -> None:
    """The other process: what it prints, it prints when the next request could be sent and the screen drawn."""
    from tui.launch.arguments import Arguments
    from tui.launch.startup import starting
    from tui.launch.wiring import Opener

    with starting(Arguments(model="anthropic/claude-sonnet-4-5"), os.environ, "test") as startup:
        session = Opener(startup).open(lambda event: None, None, path)
        events = sum(1 for _ in session.replay())
        assert session.gauge().used_tokens and events
        print(json.dumps([time.process_time(), _peak_mb(), events]), flush=True)
        await session.close()


def _peak_mb() -> float:
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _sessions(folder: str, name: str) -> Path:
    return Path(folder) / name / "data" / "sessions"


def _words(found: Resume) -> str:
    return f"{found.seconds:.2f} s ({found.cpu_s:.2f} s computing), {found.peak_mb:.0f} MB"


def measure(share: float) -> Reading:
    """A share makes the sessions shorter; what they may take is then the same, and the growth is judged as ever."""
    part = max(share, 0.02)
    tries = _TRIES if share > 0.1 else 1
    with tempfile.TemporaryDirectory() as folder:
        short = resume(make(_sessions(folder, "short"), round(ENTRIES * part), MEGABYTES * part), tries)
        long = resume(make(_sessions(folder, "long"), round(ENTRIES * part * FACTOR), MEGABYTES * part * FACTOR), tries)
    ratio = long.cpu_s / short.cpu_s
    reached = (
        f"{MEGABYTES * part:.0f} MB, {round(ENTRIES * part):,} entries: {_words(short)}; {FACTOR} times that: {_words(long)}, "
        f"{ratio:.1f} times the computing"
    )
    return Reading(reached, short.seconds <= MOST_S and short.peak_mb <= MOST_MB and ratio <= MOST_RATIO)


GATE = Gate(
    "G9",
    "Going on with a long session",
    f"{MEGABYTES} MB, {ENTRIES:,} entries: at most {MOST_S:.0f} s and {MOST_MB:.0f} MB; linear up to {MEGABYTES * FACTOR} MB",
    "others were quadratic until they mended it",
    measure,
)

if __name__ == "__main__":
    asyncio.run(_work(Path(sys.argv[1])))

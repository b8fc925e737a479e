"""Commands that write without end: one line of 100 MB, a gigabyte of `yes`, a gigabyte to standard error; and the same from
a model's call to the next request, for which the output has been searched for secrets and stands in the session's file.

What is measured is claw's own process with its event loop, and every process between it and the command.
"""

import asyncio
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agent.events import Event, ToolFinished
from agent.processes import RunOutcome, Spawner
from agent.transcript import Result
from tests.agent.processes.marks import children_of
from tests.fakes.model_server import ModelServer
from tests.fakes.session_kit import Desk, Talk
from tests.fakes.wires import ResponsesSide
from tests.faults.gate import Gate, Reading

MB = 1_000_000
MOST_MB = 16.0
MOST_LAG_S = 0.1
MOST_WAIT_S = 1.0
REPEATS = 5
_STEP_S = 0.005
_LINE = "import sys; data = b'x' * 65536\nfor _ in range({blocks}): sys.stdout.buffer.write(data)"


class Flood(NamedTuple):
    name: str
    command: str
    total_bytes: int
    in_session: bool = False
    """By the `bash` tool of a whole session."""


class Trial(NamedTuple):
    name: str
    total_bytes: int
    wanted_bytes: int
    here_mb: float
    """How much this process grew, at most."""
    between_mb: float
    """How much spawner and supervisor together grew, at most, over what they have when they only wait."""
    lags: tuple[float, ...]
    """How late the event loop came to each of its timers, in seconds."""
    waited_s: float
    """From the command's end to its result; in a session until the turn goes on with the next request."""
    took_s: float
    shown_s: float | None = None
    """From the command's end until its result is shown, in a session."""

    @property
    def fault(self) -> str:
        faults = []
        if self.total_bytes != self.wanted_bytes:
            faults.append(f"{self.total_bytes:,} of {self.wanted_bytes:,} bytes were counted")
        if max(self.here_mb, self.between_mb) >= MOST_MB:
            faults.append(f"{self.here_mb:.1f} and {self.between_mb:.1f} MB more")
        if self.waited_s >= MOST_WAIT_S:
            faults.append(f"result {self.waited_s:.2f} s after the end")
        return ", ".join(faults)


def floods(share: float) -> list[Flood]:
    """All kinds; with a small share they are smaller too."""
    size = min(1.0, max(0.02, share))
    blocks, gigabyte = int(size * 100 * MB) // 65_536, int(size * 1_000 * MB)
    line = f"{shlex.quote(sys.executable)} -S -c {shlex.quote(_LINE.format(blocks=blocks))}"
    return [
        Flood("one line", line, blocks * 65_536),
        Flood("yes", f"yes | head -c {gigabyte}", gigabyte),
        Flood("standard error", f"yes | head -c {gigabyte} >&2", gigabyte),
        Flood("one line in a session", line, blocks * 65_536, in_session=True),
        Flood("yes in a session", f"yes | head -c {gigabyte}", gigabyte, in_session=True),
    ]


class _Watch:
    """How late the event loop comes, and how much the processes grow, until something is done."""

    def __init__(self, below_mb: Callable[[], float] = lambda: 0.0) -> None:
        self.here_mb = 0.0
        self.between_mb = 0.0
        self.lags: list[float] = []
        self._here = _rss_mb(os.getpid())
        self._below_mb = below_mb

    async def until(self, running: "asyncio.Future[Any]") -> None:
        while not running.done():
            before = time.monotonic()
            await asyncio.sleep(_STEP_S)
            self.lags.append(max(0.0, time.monotonic() - before - _STEP_S))
            if len(self.lags) % 4 == 0:
                self.here_mb = max(self.here_mb, _rss_mb(os.getpid()) - self._here)
                self.between_mb = max(self.between_mb, self._below_mb())


async def one_trial(flood: Flood, folder: Path) -> Trial:
    return await (_in_session if flood.in_session else _alone)(flood, folder)


async def _alone(flood: Flood, folder: Path) -> Trial:
    spawner = Spawner()
    try:
        idle = await _between_mb(spawner, folder)
        watch, begun = _Watch(lambda: _below_mb(spawner) - idle), time.monotonic()
        running = asyncio.ensure_future(
            spawner.run(
                ["bash", "-c", _marking_its_end(flood, folder)], cwd=folder, timeout_s=600, on_output=lambda text: None
            )
        )
        await watch.until(running)
        outcome: RunOutcome = await running
        waited_s = time.time() - float((folder / "ended").read_text())
    finally:
        await spawner.aclose()
    total, took_s = outcome.total_bytes, time.monotonic() - begun
    return Trial(
        flood.name, total, flood.total_bytes, watch.here_mb, watch.between_mb, tuple(watch.lags), waited_s, took_s
    )


class _Timed(Talk):
    """Knows when the newest result was shown, by the monotonic clock."""

    finished_s = 0.0

    def take(self, event: Event) -> None:
        if isinstance(event, ToolFinished):
            self.finished_s = time.monotonic()
        super().take(event)


async def _in_session(flood: Flood, folder: Path) -> Trial:
    (folder / "project").mkdir()
    with ModelServer() as server:
        desk = Desk(ResponsesSide(server), folder / "project", folder / "home")
        desk.wire.reply("I warm up.", tools=[("bash", {"command": "seq 1 100000"})])
        desk.wire.reply("Done.")
        desk.wire.reply("I flood.", tools=[("bash", {"command": _marking_its_end(flood, folder), "timeout_s": 600})])
        desk.wire.reply("Done.")
        async with desk.open(listener=_Timed) as talk:
            await talk.session.prompt("warm up")
            watch, begun = _Watch(), time.monotonic()
            running = asyncio.ensure_future(talk.session.prompt("flood"))
            await watch.until(running)
            took_s = time.monotonic() - begun
        ended_s = float((folder / "ended").read_text()) - time.time() + time.monotonic()
        waited_s = desk.wire.requests[-1].arrived_s - ended_s
        assert isinstance(talk, _Timed)
        shown_s = talk.finished_s - ended_s
        result = desk.payloads(Result)[-1]
    assert result.spill is not None
    # The marker in the middle of a capped file counts too.
    total = result.spill.missing_bytes + result.spill.size_bytes
    total = flood.total_bytes if flood.total_bytes <= total < flood.total_bytes + 100 else total
    return Trial(flood.name, total, flood.total_bytes, watch.here_mb, 0.0, tuple(watch.lags), waited_s, took_s, shown_s)


def _marking_its_end(flood: Flood, folder: Path) -> str:
    return f'{flood.command}; date +%s.%N > "{folder}/ended"'


async def _between_mb(spawner: Spawner, folder: Path) -> float:
    """What spawner and supervisor have while a command runs that says nothing."""
    quiet = asyncio.ensure_future(spawner.run(["sleep", "60"], cwd=folder, timeout_s=60))
    end = time.monotonic() + 10
    while not (spawner.pid and children_of(spawner.pid) and children_of(children_of(spawner.pid)[0])):
        assert time.monotonic() < end, "the command did not start"
        await asyncio.sleep(_STEP_S)
    used = _below_mb(spawner)
    quiet.cancel()
    await asyncio.wait({quiet})
    return used


def _below_mb(spawner: Spawner) -> float:
    """Of the spawner and its supervisors."""
    assert spawner.pid is not None
    return sum(_rss_mb(pid) for pid in (spawner.pid, *children_of(spawner.pid)))


def _rss_mb(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MB
    except (OSError, IndexError):
        return 0.0


def run_trials(wanted: Sequence[Flood]) -> list[Trial]:
    async def all_of_them() -> list[Trial]:
        done = []
        for flood in wanted:
            with tempfile.TemporaryDirectory(prefix="claw-gate-") as folder:
                done.append(await one_trial(flood, Path(folder)))
        return done

    return asyncio.run(all_of_them())


def percentile_99(lags: Sequence[float]) -> float:
    return sorted(lags)[int(len(lags) * 0.99)] if lags else 0.0


def measure(share: float) -> Reading:
    done = run_trials(floods(share) * max(1, round(share * REPEATS)))
    bad = [f"{trial.name}: {trial.fault}" for trial in done if trial.fault]
    lag_s = max(
        # A short trial has too few for one of its own.
        percentile_99([lag for trial in done if (trial.shown_s is None) == alone for lag in trial.lags])
        for alone in (True, False)
    )
    if lag_s >= MOST_LAG_S:
        bad.append(f"lag {lag_s * 1000:.0f} ms")
    grown = max(max(trial.here_mb, trial.between_mb) for trial in done)
    alone_s = max(trial.waited_s for trial in done if trial.shown_s is None)
    shown_s = max(trial.shown_s for trial in done if trial.shown_s is not None)
    turn_s = max(trial.waited_s for trial in done if trial.shown_s is not None)
    good, gigabytes = sum(not trial.fault for trial in done), sum(trial.total_bytes for trial in done) / 1e9
    reached = (
        f"{good} of {len(done)} floods, {gigabytes:.1f} GB: +{grown:.1f} MB, lag p99 {lag_s * 1000:.0f} ms,"
        f" result {alone_s:.2f} s after the end;"
        f" in a session, searched for secrets, {shown_s:.2f} s and the next request {turn_s:.2f} s after it"
    )
    return Reading(reached + "".join(f"; {each}" for each in bad[:5]), not bad)


GATE = Gate(
    id="G8",
    title="Output: 100 MB in one line, 1 GB of yes, 1 GB to standard error",
    goal="RSS +< 16 MB, event loop's lag p99 < 100 ms, result at most 1 s after the end",
    reference="collecting it all: 260 MB for 100 MB",
    measure=measure,
    needs=lambda: "" if sys.platform == "linux" else "Linux",
)

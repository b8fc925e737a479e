"""A signal, or a terminal that goes away, in whatever the program is doing: it ends in time, in order and with everything.

Each trial is one run of the real program in a pseudo-terminal, forked from a warm one, against a server on loopback.
"""

import asyncio
import itertools
import os
import random
import signal
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.agent.processes.marks import children_of, marked, new_mark, runs
from tests.fakes.model_server import ModelServer
from tests.fakes.session_kit import Desk
from tests.fakes.wires import ResponsesSide
from tests.faults.gate import Gate, Reading
from tests.tui.program import Program

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)
LOSS = 0
"""Stands where a signal's number would: the terminal goes away, and the signal that tells of it is ignored."""
STATES = ("idle", "streaming", "tool", "prompt", "elsewhere")
REPEATS = 20
LIMIT_S = 2.0
ORPHAN_S = 1.0
"""How long after the program something that it started may still be there."""
_GONE_S = 25.0
_AT_ONCE = 2
_resuming = threading.Lock()


class Trial(NamedTuple):
    what: str
    code: int | None
    """None: it had to be killed."""
    wanted_code: int
    took_s: float
    cpu_s: float
    """From the signal to the end."""
    restored: str
    """What is not as it was before; empty: all is."""
    left: tuple[str, ...]
    """Command lines of what survived it by `ORPHAN_S`."""
    resumed: str
    """Why the session does not go on; empty: it does."""

    @property
    def fault(self) -> str:
        """What is wrong, in words; empty: nothing."""
        faults = []
        if self.code != self.wanted_code:
            faults.append(f"code {self.code}, not {self.wanted_code}")
        if self.took_s > LIMIT_S:
            faults.append(f"took {self.took_s:.2f} s")
        faults.extend(filter(None, (self.restored, self.resumed)))
        faults.extend(f"left behind: {each}" for each in self.left)
        return "; ".join(faults)


def one_trial(number: int, state: str, seed: int) -> Trial:
    """Bring the program into the state, where "elsewhere" is one of several places, send the signal, and look at what is left."""
    chance = random.Random(seed)
    place = chance.choice(_elsewhere(number)) if state == "elsewhere" else state
    with _desk() as desk, _in_state(desk, place, number) as claw:
        claw.read_for(chance.random() * 0.05)
        below = _below(claw.pid)
        cpu = claw.cpu_s()
        begun = time.monotonic()
        if number == LOSS:
            claw.hang_up()
        else:
            os.kill(claw.pid, number)
        while not claw.ended() and time.monotonic() - begun < _GONE_S:
            used = _cpu_s(claw.pid) or cpu
            if number == LOSS:
                time.sleep(0.005)
            else:
                claw.read(0.005)
        took_s = time.monotonic() - begun
        code = claw.status
        left = _left(below)
        restored = ""
        if number != LOSS:
            claw.drain(0.02, 0.5)
            restored = _not_restored(claw)
        claw.close()
        resumed = _not_resumed(desk)
    wanted = 128 + (number or signal.SIGHUP)
    return Trial(f"{_name(number)} {place}", code, wanted, took_s, max(0.0, used - cpu), restored, left, resumed)


def trials(share: float) -> list[tuple[int, str, int]]:
    """Which runs are a share of all: every signal and every state at least once, or each pair equally often."""
    pairs = list(itertools.product((*SIGNALS, LOSS), STATES))
    wanted = round(share * REPEATS * len(pairs))
    if wanted < len(pairs):
        count = max(wanted, len(STATES))
        # Along the diagonals, so that each state and each signal comes equally often.
        width = len(STATES)
        pairs = [pairs[(each % width) * width + (each + each // width) % width] for each in range(count)]
        return [(number, state, seed) for seed, (number, state) in enumerate(pairs)]
    return [(number, state, seed) for seed in range(wanted // len(pairs)) for number, state in pairs]


def run_trials(wanted: Sequence[tuple[int, str, int]]) -> list[Trial]:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda each: _tried(*each), wanted))


def _tried(number: int, state: str, seed: int) -> Trial:
    try:
        return one_trial(number, state, seed)
    except AssertionError as error:
        return Trial(f"{_name(number)} {state}", None, 0, 0.0, 0.0, f"it could not be tried: {error}", (), "")


def measure(share: float) -> Reading:
    done = run_trials(trials(share))
    bad = [f"{trial.what}: {trial.fault}" for trial in done if trial.fault]
    slowest, busiest = max(trial.took_s for trial in done), max(trial.cpu_s for trial in done)
    reached = (
        f"{len(done) - len(bad):,} of {len(done):,} in order, slowest {slowest:.2f} s, {busiest:.2f} CPU-s at most"
    )
    return Reading(reached + "".join(f"; {each}" for each in bad[:5]), not bad)


# ------------------------------------------------------------------ the states


@contextmanager
def _desk() -> Iterator[Desk]:
    with tempfile.TemporaryDirectory(prefix="claw-gate-") as folder, ModelServer() as server:
        (Path(folder) / "project").mkdir()
        yield Desk(ResponsesSide(server), Path(folder) / "project", Path(folder) / "home")


@contextmanager
def _in_state(desk: Desk, place: str, number: int) -> Iterator[Program]:
    mark = new_mark()
    steps: dict[str, Callable[[Program], None]] = {
        "idle": lambda claw: _say(claw, "Hello."),
        "streaming": _stream,
        "tool": lambda claw: _use_tools(claw, mark),
        "prompt": _be_asked,
        "editor": lambda claw: _edit(claw, mark),
        "help": _help,
        "setup": _set_up,
    }
    _script(desk, place, mark)
    arguments = ["-m", desk.model, "--mode", "ask" if place == "prompt" else "auto"]
    if place == "setup":
        (desk.home / "config" / "config.toml").unlink()
        desk.env = {name: value for name, value in desk.env.items() if not name.endswith(("_KEY", "_URL"))}
        arguments = []
    editor = str(_editor(desk, mark)) if place == "editor" else ""
    ignored = (signal.SIGHUP,) if number == LOSS else ()
    claw = Program(desk, *arguments, ignored=ignored, VISUAL=editor)
    try:
        steps[place](claw)
        yield claw
    finally:
        claw.close()


def _script(desk: Desk, place: str, mark: str) -> None:
    """What the model says."""
    if place != "setup":
        desk.wire.reply("Hello.")
    if place == "streaming":
        desk.wire.unfinished("Half a sentence ")
    if place == "tool":
        job = f"(setsid sleep {mark} &); sleep {mark}"
        command = f"trap '' TERM HUP INT; (setsid sleep {mark} &); echo is-up; sleep {mark}; sleep {mark}"
        desk.wire.reply("A job.", tools=[("bash", {"command": job, "background": True})])
        desk.wire.reply("I work.", tools=[("bash", {"command": command})])
    if place == "prompt":
        desk.wire.reply("I ask.", tools=[("bash", {"command": "touch never"})])


def _elsewhere(number: int) -> tuple[str, ...]:
    """An editor that has the terminal has its Ctrl+C and Ctrl+\\ too."""
    return ("help", "setup") if number in (signal.SIGINT, signal.SIGQUIT) else ("editor", "help", "setup")


def _set_up(claw: Program) -> None:
    claw.wait_for("claw needs a model to talk to")


def _say(claw: Program, answer: str) -> None:
    claw.ready()
    claw.say("hello")
    claw.wait_for(answer)
    claw.idle()


def _stream(claw: Program) -> None:
    _say(claw, "Hello.")
    claw.say("go on")
    claw.wait_for("Half a sentence")


def _use_tools(claw: Program, mark: str) -> None:
    _say(claw, "Hello.")
    claw.say("work")
    claw.wait_for("   is-up")
    claw.wait_for(lambda text: len(marked(mark)) == 4)


def _be_asked(claw: Program) -> None:
    _say(claw, "Hello.")
    claw.say("ask")
    claw.wait_for("touch never")


def _editor(desk: Desk, mark: str) -> Path:
    path = desk.home / "editor"
    path.write_text(f"#!/bin/sh\nprintf in-editor\nsleep {mark}\n")
    path.chmod(0o755)
    return path


def _edit(claw: Program, mark: str) -> None:
    _say(claw, "Hello.")
    claw.type("\x07")
    claw.wait_for_bytes(b"in-editor")
    claw.wait_for(lambda text: bool(marked(mark)))


def _help(claw: Program) -> None:
    _say(claw, "Hello.")
    claw.say("/help")
    claw.wait_for("Keys")


# ------------------------------------------------------------------ what is left


def _below(pid: int) -> dict[int, str]:
    """Every process below this one with its command line."""
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for child in children_of(waiting.pop()):
            found[child] = _command_line(child)
            waiting.append(child)
    return found


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")[:120]
    except OSError:
        return ""


def _left(below: dict[int, str]) -> tuple[str, ...]:
    """What of these is still there when its time is over; killed here."""
    end = time.monotonic() + ORPHAN_S
    while (left := [pid for pid in below if runs(pid)]) and time.monotonic() < end:
        time.sleep(0.01)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return tuple(below[pid] for pid in left)


def _not_restored(claw: Program) -> str:
    try:
        claw.assert_restored()
    except AssertionError as error:
        return f"the terminal: {error}"
    flags = termios.tcgetattr(claw.fd)[3]
    wanted = termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN
    return "" if flags & wanted == wanted else "the terminal is left raw"


def _not_resumed(desk: Desk) -> str:
    """Whether the session on disk, if there is one, takes another turn; why not."""
    paths = list(desk.folder.glob("*.db"))
    if not paths:
        return ""
    desk.wire.otherwise(lambda body: "Here I am.")
    desk.wire.server.forget("/v1/responses")

    async def go_on() -> str:
        async with desk.open(paths[0]) as talk:
            ended = await talk.session.prompt("go on")
            return "" if ended.reason == "done" else f"the session does not go on: {ended}"

    with _resuming:
        return asyncio.run(go_on())


def _cpu_s(pid: int) -> float | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _name(number: int) -> str:
    return signal.Signals(number).name if number else "loss of the terminal"


GATE = Gate(
    id="G7",
    title="SIGTERM, SIGHUP, SIGQUIT, SIGINT and a vanished terminal in 5 states, 20 times each",
    goal="exit code 128 + n within 2 s, terminal restored, nothing left after 1 s, no spinning, session goes on: always",
    reference="Textual alone: 0 of 3 restored, 100 % of a core after the loss",
    measure=measure,
)

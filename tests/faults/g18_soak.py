"""A long life: many turns with tools through the real program in a terminal, against a server with a small window.

Turns read, edit, run commands (failing ones and jobs too), are interrupted in a reply and in a command, and are compacted
by themselves and by hand. Between turns the whole tree of processes is measured: a turn may leave blocks in the record on
disk and next to nothing in memory.
"""

import json
import os
import re
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.agent.processes.marks import children_of, runs
from tests.fakes.anthropic_wire import MESSAGES, MessageStream
from tests.fakes.model_server import ModelServer, RecordedRequest, Reply
from tests.fakes.session_kit import Desk
from tests.fakes.wires import AnthropicSide
from tests.faults.gate import Gate, Reading
from tests.tui.program import Program

TURNS = 2_000
WINDOW_TOKENS = 32_768
EVERY = 10
"""Turns between two measurements."""
JUDGED_TURNS = 1_000
"""A shorter run says nothing of memory: what is kept of the newest hundreds of blocks is not yet full."""
MOST_MB = 1.0
"""How much the program may grow in a hundred turns."""
PARTS = 12
_TURN = re.compile(r"Turn (\d+):")
_NUMBER = re.compile(r"\[job (\d+)")
Tool = tuple[str, dict[str, Any]]


class Sample(NamedTuple):
    """What the program and all below it have, between two turns."""

    turn: int
    rss_mb: float
    """Of the program alone."""
    below_mb: float
    """Of the processes below it, together."""
    descriptors: int
    threads: int
    processes: int
    zombies: int


class Life(NamedTuple):
    samples: Sequence[Sample]
    compactions: int
    refusals: Sequence[str]
    left: int
    """Processes that were still there when the program had ended."""

    def slope(self, of: Callable[[Sample], float]) -> float:
        """How much it grows in a hundred turns, over the second half."""
        half = self.samples[len(self.samples) // 2 :]
        if len(half) < 2:
            return 0.0
        return 100 * statistics.linear_regression([s.turn for s in half], [of(s) for s in half]).slope

    def is_steady(self) -> bool:
        """Whether the second half has no more of anything than the first, but for what comes and goes."""
        middle = len(self.samples) // 2
        first, second = self.samples[:middle], self.samples[middle:]
        kinds: tuple[tuple[Callable[[Sample], int], int], ...] = (
            (lambda s: s.descriptors, 2),
            (lambda s: s.threads, 2),
            (lambda s: s.processes, 0),
            (lambda s: s.zombies, 0),
        )
        return all(max(map(of, second)) <= max(map(of, first)) + spare for of, spare in kinds)


def measured(turn: int, pid: int) -> Sample:
    below = _below(pid)
    return Sample(
        turn,
        _rss_mb(pid),
        sum(map(_rss_mb, below)),
        _count(f"/proc/{pid}/fd"),
        _count(f"/proc/{pid}/task"),
        len(below),
        sum(not runs(each) for each in below),
    )


def _below(pid: int) -> list[int]:
    found = children_of(pid)
    return [*found, *(other for each in found for other in _below(each))]


def _count(folder: str) -> int:
    return sum(1 for _ in Path(folder).iterdir())


def _rss_mb(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:  # it has ended meanwhile
        return 0.0


# ------------------------------------------------------------------ the model


class Model:
    """Works through a turn by what the newest user message says and by how many results stand behind it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.summaries = 0

    def answer(self, request: RecordedRequest) -> Reply:
        body = request.json
        self._desk.wire.server.requests.clear()  # of thousands none is looked at again
        flat = self._desk.wire.flat(body)
        stream = MessageStream(usage={"input_tokens": len(request.body) // 4, "output_tokens": 40})
        if self._desk.wire.is_summary(body):
            self.summaries += 1
            return stream.text("all fine").stop().reply_at_once()
        asked = [
            (place, int(found[-1]))
            for place, (role, block) in enumerate(flat)
            if role == "user" and "text" in block and (found := _TURN.findall(block["text"]))
        ]
        place, turn = asked[-1]
        results = [block for role, block in flat[place:] if role == "result"]
        kind = kind_of(turn)
        if kind == "cut" and not results:
            stream.text(f"Half of turn {turn}, which never")
            return stream.reply_at_once("stall")
        steps = steps_of(turn, kind, results)
        done = len(results)
        for step in steps:
            if done == 0:
                stream.text(f"Turn {turn} goes on with {step[0][0]}. " + f"Word{turn} " * 12)
                for name, arguments in step:
                    stream.tool(name, json.dumps(arguments), piece_chars=200)
                return stream.stop("tool_use").reply_at_once()
            done -= len(step)
        answer = f"Part {turn % PARTS}:\n\n- **one**: `value_{turn}`\n- two\n\n```python\nx = {turn}\n```\n\n"
        return stream.text(f"{answer}Turn {turn} is done.").stop().reply_at_once()


def kind_of(turn: int) -> str:
    for every, rest, kind in ((40, 39, "job"), (23, 11, "cut"), (29, 17, "hang"), (7, 3, "fail")):
        if turn % every == rest:
            return kind
    return "work"


def steps_of(turn: int, kind: str, results: Sequence[Any]) -> list[list[Tool]]:
    """The calls of each step, side by side."""
    part = f"part_{turn % PARTS}.py"
    read: list[Tool] = [("read", {"path": part, "offset": 1 + turn % 50, "limit": 30}), ("glob", {"pattern": "*.py"})]
    edit: list[Tool] = [("edit", {"path": part, "edits": [{"old": "count = ", "new": "count = 1"}]})]
    if turn // PARTS % 2:
        edit = [("write", {"path": f"note_{turn % 5}.txt", "content": f"Note of turn {turn}.\n" * 5})]
    bash: list[Tool] = [("bash", {"command": f"echo detail_{turn}; seq 1 {turn % 60}; exit {turn % 2}"})]
    match kind:
        case "fail":
            missing: Tool = ("read", {"path": f"missing_{turn}.py"})
            return [
                [missing, ("edit", {"path": part, "edits": []})],
                [("no_such_tool", {}), ("grep", {"pattern": "("})],
            ]
        case "hang":
            return [read, [("bash", {"command": f"echo hanging {turn}; sleep 1000"})]]
        case "job":
            started = [
                ("bash", {"command": f"for i in 1 2 3; do echo tick {turn}; done; sleep 1000", "background": True})
            ]
            found = _NUMBER.search(json.dumps(results)) or re.search(r"job (\d+)", json.dumps(results))
            number = int(found[1]) if found else 0
            return [started, [("bash_output", {"id": number})], [("bash_kill", {"id": number})]]
    return [read, edit, bash]


# ------------------------------------------------------------------ the user


class Person(Program):
    """Types turns; looks at no more of the screen than it needs, and keeps none of it."""

    def forget(self) -> None:
        self.display()
        del self.raw[: self._fed]
        self._fed = 0

    def turn(self, number: int) -> None:
        kind = kind_of(number)
        self.say(f"Turn {number}: go on. The value of setting_{number} must stay {number * 7919 + 13}.")
        if kind in ("cut", "hang"):
            self.wait_for(f"Half of turn {number}," if kind == "cut" else f"hanging {number}", 60)
            self.type("\x1b")
            self.wait_for("Interrupted.", 60)
        else:
            self.wait_for(f"Turn {number} is done.", 60)
        self.idle()
        self.forget()


def live(turns: int, report: Callable[[Sample], None] = lambda sample: None) -> Life:
    """So many turns in one session, and what they leave."""
    with ModelServer() as server, tempfile.TemporaryDirectory() as folder:
        desk = Desk(AnthropicSide(server), Path(folder) / "project", Path(folder) / "home", WINDOW_TOKENS)
        _fill(desk.project)
        model = Model(desk)
        server.always(MESSAGES, model.answer)
        samples: list[Sample] = []
        with Person(desk, "--mode", "auto", "-m", desk.model, columns=90, rows=30, cold=True) as person:
            person.ready()
            person.type("\x1b")
            for number in range(turns):
                person.turn(number)
                if number % 100 == 60:
                    person.say("/compact")
                    person.idle()
                if number % EVERY == EVERY - 1:
                    samples.append(measured(number + 1, person.pid))
                    report(samples[-1])
            below = _below(person.pid)
            person.quit()
            left = sum(map(runs, below))
        return Life(samples, model.summaries, desk.wire.refusals, left)


def _fill(project: Path) -> None:
    project.mkdir()
    for part in range(PARTS):
        lines = "\n".join(f"count_{line} = {line * 31 + part}  # line {line} of part {part}" for line in range(120))
        (project / f"part_{part}.py").write_text(f"count = \n{lines}\n")


def measure(share: float) -> Reading:
    life = live(max(2 * EVERY, round(TURNS * share)))
    slope, below = life.slope(lambda s: s.rss_mb), life.slope(lambda s: s.below_mb)
    last = life.samples[-1]
    is_judged = last.turn >= JUDGED_TURNS
    reached = (
        f"{last.turn:,} turns, {life.compactions} summaries: {slope:+.2f} MB in 100 turns"
        f"{'' if is_judged else ' (caches still fill)'}, {last.rss_mb:.0f} MB at the end, below it {below:+.2f} MB; "
        f"{last.descriptors} descriptors, {last.threads} threads, {last.processes} processes, {last.zombies} zombies; "
        f"{life.left} left behind"
    )
    flat = not is_judged or (slope < MOST_MB and below < MOST_MB)
    return Reading(reached, flat and life.is_steady() and not life.left and not life.refusals)


GATE = Gate(
    "G18",
    "Long life: turns with tools through the real program",
    "the program grows by less than 1 MB in 100 turns; descriptors, threads, processes and zombies stay as they are",
    "-",
    measure,
    lambda: "" if Path("/proc/self/statm").exists() else "processes are measured by /proc",
)

if __name__ == "__main__":
    import sys
    import time

    began = time.monotonic()
    found = live(int(sys.argv[1]), lambda s: print(f"{time.monotonic() - began:6.1f} s", *s, flush=True))
    print(
        found.slope(lambda s: s.rss_mb),
        found.slope(lambda s: s.below_mb),
        found.compactions,
        found.refusals,
        found.left,
    )

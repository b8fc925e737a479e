"""Esc and Ctrl+C in the middle of a reply and of a command that ignores TERM: how long until the prompt is usable again.

Usable: the turn is over, what it had said stays on the screen, and a key that is pressed then appears. One program in a
pseudo-terminal is interrupted many times.
"""

import math
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.agent.processes.marks import marked, new_mark
from tests.fakes.model_server import ModelServer
from tests.fakes.session_kit import Desk
from tests.fakes.wires import ResponsesSide
from tests.faults.gate import Gate, Reading
from tests.tui.program import WORKING, Program
from tui.app import ClawApp

REPLIES = 200
COMMANDS = 20
REPLY_LIMIT_S = 0.2
COMMAND_LIMIT_S = 2.5
ESC, CTRL_C = "\x1b", "\x03"
_PATIENCE_S = 30.0


class Found(NamedTuple):
    replies_s: list[float]
    commands_s: list[float]
    left: int
    """Processes of commands that were still there when the prompt was usable."""
    refusals: list[str]
    """What the server found wrong with the requests."""


@contextmanager
def _program() -> Iterator[tuple[Desk, Program]]:
    with tempfile.TemporaryDirectory(prefix="claw-gate-") as folder, ModelServer() as server:
        (Path(folder) / "project").mkdir()
        desk = Desk(ResponsesSide(server), Path(folder) / "project", Path(folder) / "home")
        with Program(desk, "-m", desk.model, "--mode", "auto", rows=40) as claw:
            claw.ready()
            claw.type("\x1b]11;rgb:0000/0000/0000\x1b\\")  # as terminals answer what their background is
            yield desk, claw


def trials(replies: int, commands: int) -> Found:
    """Interrupt so many of each, one in four by Ctrl+C."""
    found = Found([], [], 0, [])
    left = 0
    with _program() as (desk, claw):
        for number in range(replies):
            desk.wire.unfinished(f"Half of reply {number} ")
            claw.say(f"say {number}")
            claw.wait_for(f"Half of reply {number}")
            found.replies_s.append(_interrupt(claw, number, f"say {number}"))
            assert f"Half of reply {number}" in claw.text()
        for number in range(commands):
            mark = new_mark()
            command = (
                f"trap '' TERM; (trap '' TERM; setsid sleep {mark} &); echo is-up-{number}; sleep {mark}; sleep {mark}"
            )
            desk.wire.reply("I work.", tools=[("bash", {"command": command})])
            claw.say(f"work {number}")
            claw.wait_for(f"   is-up-{number}")
            found.commands_s.append(_interrupt(claw, number, f"work {number}"))
            left += len(marked(mark))
        desk.wire.reply("All is well.")
        claw.say("and now?")
        claw.wait_for("All is well.")
        claw.idle()
        claw.quit()
        found.refusals.extend(desk.wire.refusals)
    return found._replace(left=left)


def _interrupt(claw: Program, number: int, asked: str) -> float:
    """Press the key; how long until the turn that answers `asked` is over and the prompt takes another key."""
    key = CTRL_C if number % 4 == 3 else ESC
    if key == CTRL_C:
        claw.wait_for(lambda text: "Ctrl+C again leaves" not in text)
    begun = time.monotonic()
    claw.type(key)
    claw.wait_for(
        lambda text: WORKING not in text and "· Interrupted." in text.rpartition(f"▌ {asked}")[2], _PATIENCE_S
    )
    claw.type("q")
    claw.wait_for("│ q ", _PATIENCE_S)
    took_s = time.monotonic() - begun
    claw.type("\x7f")
    claw.wait_for("│ Ask for something")
    if key == CTRL_C:
        claw.read_for(ClawApp.again_s)
    return took_s


def measure(share: float) -> Reading:
    found = trials(max(4, round(share * REPLIES)), max(1, round(share * COMMANDS)))
    replies_s = sorted(found.replies_s)
    p95_s = replies_s[math.ceil(len(replies_s) * 0.95) - 1]
    slowest_s = max(found.commands_s)
    holds = p95_s <= REPLY_LIMIT_S and slowest_s <= COMMAND_LIMIT_S and found.left == 0 and not found.refusals
    return Reading(
        f"{len(replies_s)} replies: median {statistics.median(replies_s) * 1000:.0f} ms, p95 {p95_s * 1000:.0f} ms;"
        f" {len(found.commands_s)} commands that ignore TERM: at most {slowest_s:.2f} s, {found.left} processes left"
        + (f"; {len(found.refusals)} requests refused" if found.refusals else ""),
        holds,
    )


GATE = Gate(
    id="G6",
    title="Esc and Ctrl+C until the prompt is usable",
    goal="p95 at most 200 ms in a reply, at most 2.5 s in a command that ignores TERM, nothing left, next request valid",
    reference="none published",
    measure=measure,
    needs=lambda: "" if os.name == "posix" else "a POSIX system",
)

"""Crash points: claw is killed before any system call that changes something, and the session goes on."""

import asyncio
import random
from collections import Counter

from tests.fakes.kill_points import missing
from tests.faults.crash_runs import crash, told
from tests.faults.crash_scripts import SCRIPTS
from tests.faults.gate import Gate, Reading

POINTS = 200
"""For each script."""


def measure(share: float) -> Reading:
    crashes = asyncio.run(crash(list(SCRIPTS), max(1, round(POINTS * share)), seed=random.randrange(1 << 30)))
    killed = [each for each in crashes if each.ended.killed_at]
    good = [each for each in crashes if not each.problems]
    kinds = Counter(each.ended.killed_at for each in killed)
    left = sum(bool(each.strays) for each in crashes)
    reached = (
        f"{len(good):,} of {len(crashes):,} runs of {len(SCRIPTS)} scripts whole, valid for three APIs and gone on with; "
        f"{len(killed):,} killed, at {len(kinds)} kinds of calls; {left} left files that the next start took away"
    )
    return Reading("\n".join(filter(None, (reached, told(crashes)))), len(good) == len(crashes))


GATE = Gate(
    "G1",
    "Crash points: killed before any system call that changes something",
    "no session unreadable, nothing acknowledged lost, every next request valid for all APIs",
    "rewriting in place: 127 of 150 unreadable",
    measure,
    missing,
)

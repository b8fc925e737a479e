"""A compaction that is killed: whenever that happens, the history is the old one or the compacted one, and usable."""

import asyncio
import random

from tests.fakes.kill_points import missing
from tests.faults.crash_runs import crash, told
from tests.faults.crash_scripts import COMPACTIONS
from tests.faults.gate import Gate, Reading

POINTS = 100
"""For each kind of compaction."""


def measure(share: float) -> Reading:
    crashes = asyncio.run(crash(list(COMPACTIONS), max(1, round(POINTS * share)), seed=random.randrange(1 << 30)))
    good = [each for each in crashes if not each.problems]
    reached = (
        f"{len(good):,} of {len(crashes):,} compactions (by themselves, by hand, after an overflow) killed at any call: "
        "the old history whole and gone on with"
    )
    return Reading("\n".join(filter(None, (reached, told(crashes)))), len(good) == len(crashes))


GATE = Gate(
    "G21",
    "Compaction: killed at any point",
    "the old history stays whole and usable",
    "-",
    measure,
    missing,
)

"""Gate G4: everything that a model's server can do wrong, played on all three wire APIs through real sessions.

Each trial is one fault on one API in a folder of its own: a session that has worked before, the fault, a turn behind it,
and another one after the session was opened again from its file.
"""

import asyncio
import random
import tempfile
from pathlib import Path

from tests.fakes.fault import ALL, Fault
from tests.fakes.fault_play import FAULTS, play
from tests.faults.gate import Gate, Reading

TRIALS: tuple[tuple[Fault, str], ...] = tuple((fault, api) for fault in FAULTS for api in ALL if api in fault.apis)


def measure(share: float) -> Reading:
    """The trials, the same for a share each time; at least one on each API."""
    order = random.Random(4).sample(TRIALS, len(TRIALS))
    chosen = order[: max(1, round(share * len(order)))]
    chosen += [next(trial for trial in order if trial[1] == api) for api in ALL if all(api != c[1] for c in chosen)]
    problems = [problem for fault, api in chosen for problem in _one(fault, api)]
    names = {fault.name for fault, _ in chosen}
    reached = f"{len(chosen):,} trials ({len(names)} faults, {len(ALL)} wire APIs), {len(problems)} problems"
    return Reading("; ".join([reached, *problems[:3]]), not problems)


def _one(fault: Fault, api: str) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="claw-g04-") as folder:
        return asyncio.run(play(fault, api, Path(folder)))


GATE = Gate(
    "G4",
    "Provider faults",
    f"{len(FAULTS)} fault scripts × 3 wire APIs: 0 tracebacks, 0 hangs, 0 double tool runs, every history valid",
    "60 scripts × 2 APIs",
    measure,
)

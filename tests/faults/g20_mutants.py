"""G20: how well the tests guard the modules that keep users safe. A rule is taken out of the source, and a test must fail.

    python -m tests.faults.g20_mutants 0.1                                 a tenth of the gate
    python -m tests.faults.g20_mutants --module agent/permissions/gate.py  all mutants of one module

Which mutants are drawn depends on the seed alone. What no test notices is told by file and line on standard error.
"""

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from tests.faults.gate import Gate, Reading
from tests.faults.mutant_trials import Stage, copy_of_source, is_noticed, load, record
from tests.faults.mutants import Mutant, mutants_of

ROOT = Path(__file__).parents[2]
FULL = 400
GOAL = 0.90
SEED = 20
WORKERS = 2


class Guarded(NamedTuple):
    """Modules, and the tests that must notice what happens to them; both as patterns below the root."""

    modules: str
    tests: tuple[str, ...]

    def paths(self) -> list[Path]:
        return [path.relative_to(ROOT) for path in sorted(ROOT.glob(self.modules))]

    def test_paths(self) -> list[str]:
        return [str(path.relative_to(ROOT)) for pattern in self.tests for path in sorted(ROOT.glob(pattern))]


GUARDED = (
    Guarded("agent/permissions/*.py", ("tests/agent/permissions", "tests/agent/tools")),
    Guarded("tui/sanitize.py", ("tests/tui/test_sanitize*.py", "tests/tui/transcript")),
    Guarded(
        "agent/window*.py", ("tests/agent/test_window*.py", "tests/agent/test_session_resume.py", "tests/agent/context")
    ),
    Guarded(
        "agent/store/*.py",
        ("tests/agent/store", "tests/agent/test_session_resume.py", "tests/agent/test_session_queue.py"),
    ),
)
FEW = 8
QUICKEST = Guarded("agent/window_blocks.py", ("tests/agent/test_window_cases.py",))


def drawn(mutants: Sequence[Mutant], wanted: int) -> list[Mutant]:
    """That many of them; one that says the same as the original is none."""
    taken: list[Mutant] = []
    for mutant in random.Random(SEED).sample(mutants, len(mutants)):
        if len(taken) == wanted:
            break
        if mutant.source((ROOT / mutant.module).read_text()) is not None:
            taken.append(mutant)
    return taken


def survivors(mutants: Sequence[Mutant], guarded: Guarded, workers: int, stages: int) -> list[Mutant]:
    """Those of a group's mutants that none of its tests notices; with one stage, none of those that reach them soonest."""
    if not mutants:
        return []
    with tempfile.TemporaryDirectory(prefix="claw-mutants-") as scratch:
        source = copy_of_source(ROOT, Path(scratch, "source"))
        known = record(source, guarded.test_paths(), guarded.paths())
        if known.failed:
            print(f"left out, since they fail as they are: {', '.join(known.failed)}", file=sys.stderr)
        load(known.libraries)
        wanted = [known.stages(mutant)[:stages] for mutant in mutants]
        with ProcessPoolExecutor(workers, get_context("fork")) as pool:
            noticed = list(pool.map(_is_noticed, repeat(source), mutants, wanted))
    return [mutant for mutant, seen in zip(mutants, noticed, strict=True) if not seen]


def _is_noticed(source: Path, mutant: Mutant, stages: Sequence[Stage]) -> bool:
    folder = source.parent / str(os.getpid())  # each process changes a copy of its own
    if not folder.exists():
        copy_of_source(source, folder)
    return is_noticed(mutant, folder, stages)


def scored(groups: Sequence[tuple[Guarded, Sequence[Mutant]]], workers: int, stages: int = 2) -> Reading:
    """Try these mutants, and tell which of them no test notices."""
    total = sum(len(mutants) for _, mutants in groups)
    left = [mutant for guarded, mutants in groups for mutant in survivors(mutants, guarded, workers, stages)]
    for mutant in sorted(left, key=lambda mutant: (mutant.module, mutant.lines)):
        print(mutant, file=sys.stderr)
    score = 1 - len(left) / total
    return Reading(f"{total - len(left)} of {total} mutants noticed ({score:.0%})", score >= GOAL)


def measure(share: float) -> Reading:
    """The gate: mutants drawn from all guarded modules alike; where a few are wanted, from the one with the quickest tests."""
    few = FULL * share < FEW
    groups = [QUICKEST] if few else GUARDED
    every = {mutant: guarded for guarded in groups for path in guarded.paths() for mutant in mutants_of(ROOT, path)}
    taken = drawn(list(every), 2 if few else round(FULL * share))
    return scored([(guarded, [mutant for mutant in taken if every[mutant] == guarded]) for guarded in groups], WORKERS)


def measure_module(given: argparse.Namespace) -> Reading:
    """The mutants of one module, or of some of its lines, tried with the group's tests or with those that are given."""
    module = given.module
    guarded = next(each for each in GUARDED if module in each.paths())
    mutants = [mutant for mutant in mutants_of(ROOT, module) if not given.lines or mutant.lines[0] in given.lines]
    taken = drawn(mutants, round(len(mutants) * given.share))
    tests = tuple(given.tests) or guarded.tests
    return scored([(guarded._replace(tests=tests), taken)], given.workers, 1 if given.soon else 2)


GATE = Gate("G20", "Tests: rules taken out of the safety modules", "at least 90 % are noticed by a test", "-", measure)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.g20_mutants", description=__doc__)
    parser.add_argument("of_gate", nargs="?", type=float, metavar="SHARE", help="how much of the gate")
    parser.add_argument("--module", type=Path, help="all mutants of this module instead")
    parser.add_argument("--share", type=float, default=1.0, help="how many of the module's mutants (1.0)")
    parser.add_argument("--lines", type=int, nargs="+", default=[], help="only mutants that begin on these")
    parser.add_argument("--tests", nargs="+", default=[], help="only these tests, as patterns, instead of the group's")
    parser.add_argument(
        "--soon", action="store_true", help="try only the tests that reach a mutant first, which is quick"
    )
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    reading = measure_module(given) if given.module else measure(1.0 if given.of_gate is None else given.of_gate)
    print(reading.reached)
    return 0 if reading.holds else 1


if __name__ == "__main__":
    raise SystemExit(main())

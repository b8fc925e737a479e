"""The release gates as a table: gate, number reached, goal, what others reach.

    python -m tests.faults.gates            all of it; takes long
    python -m tests.faults.gates --quick    a sample of each within 50 seconds
    python -m tests.faults.gates --share 0.1 G1 G7

Each gate runs in a process of its own, so that one which crashes or hangs costs its own row alone. Exit code 1 if a gate
does not hold.
"""

import argparse
import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct, to_builtins
from rich import box
from rich.console import Console
from rich.table import Table

from tests.faults.gate import Gate

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
QUICK_SHARE = 0.01
QUICK_S = 50.0
FULL_S = 3 * 3600.0
_PATIENCE_S = 1.0


class Row(Struct, frozen=True):
    id: str
    title: str
    reached: str
    state: str
    """One of: holds, FAILS, missing (something that it needs), late."""
    goal: str
    reference: str
    seconds: float


def modules() -> list[str]:
    """Names of the gates' modules, in the gates' order."""
    return sorted(path.stem for path in FOLDER.glob("g[0-9][0-9]_*.py"))


def gate_of(module: str) -> Gate:
    gate: Gate = importlib.import_module(f"tests.faults.{module}").GATE
    return gate


def measured(module: str, share: float) -> Row:
    """Run one gate here and now."""
    gate = gate_of(module)
    started = time.monotonic()
    if lacking := gate.needs():
        reached, state = lacking, "missing"
    else:
        reading = gate.measure(share)
        reached, state = reading.reached, "holds" if reading.holds else "FAILS"
    return Row(gate.id, gate.title, reached, state, gate.goal, gate.reference, time.monotonic() - started)


def in_a_process(module: str, share: float, deadline_s: float) -> Row:
    """Run one gate in a process with a scratch folder of its own, at most until the deadline (monotonic seconds)."""
    gate = gate_of(module)
    started = time.monotonic()
    if started > deadline_s:
        return Row(gate.id, gate.title, "not begun: the time was over", "late", gate.goal, gate.reference, 0.0)
    with tempfile.TemporaryDirectory(prefix="claw-gate-", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-m", "tests.faults.gates", "--one", module, "--share", str(share)]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "TMPDIR": folder},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=deadline_s - started)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with what it has started; claws end when it does
            with contextlib.suppress(subprocess.TimeoutExpired):  # the pipe may still be held
                process.communicate(timeout=_PATIENCE_S)
            spent = time.monotonic() - started
            return Row(gate.id, gate.title, f"not done after {spent:.0f} s", "late", gate.goal, gate.reference, spent)
    if process.returncode != 0:
        last = (err.strip() or out.strip() or "nothing was said").splitlines()[-1]
        reached = f"ended with {process.returncode}: {last}"
        return Row(gate.id, gate.title, reached, "FAILS", gate.goal, gate.reference, time.monotonic() - started)
    return Row(**json.loads(out.splitlines()[-1]))


def table(rows: Sequence[Row]) -> Table:
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("gate", "what", "", "reached", "goal", "others", "s"):
        shown.add_column(name, justify="right" if name == "s" else "left", overflow="fold")
    for row in rows:
        shown.add_row(row.id, row.title, row.state, row.reached, row.goal, row.reference, f"{row.seconds:.0f}")
    return shown


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.gates", description="Measure the release gates.")
    parser.add_argument("gates", nargs="*", help="only these, as G1 G7")
    parser.add_argument("--quick", action="store_true", help=f"a sample of each, within {QUICK_S:.0f} seconds")
    parser.add_argument("--share", type=float, default=1.0, help="how much of the full number of trials (1.0)")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        print(json.dumps(to_builtins(measured(given.one, given.share))))
        return 0
    wanted = [name for name in modules() if not given.gates or gate_of(name).id in given.gates]
    share = QUICK_SHARE if given.quick else given.share
    deadline = time.monotonic() + (QUICK_S - 2 if given.quick else FULL_S)
    # The sample uses both cores; in full, the gates that measure time and memory want the machine for themselves.
    with ThreadPoolExecutor(2 if given.quick else 1) as pool:
        rows = list(pool.map(lambda name: in_a_process(name, share, deadline), wanted))
    Console(width=max(140, Console().width), markup=False).print(table(rows))
    return 1 if any(row.state in ("FAILS", "late") for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

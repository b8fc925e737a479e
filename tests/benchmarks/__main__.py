"""Runs all benchmarks, each in a process of its own, and ends with 1 if any of them missed a target.

`python -m tests.benchmarks [NAME…]`: all, or those named (start, stream, …). A quiet machine, please.
"""

import subprocess
import sys
from pathlib import Path

from tests.benchmarks.kit import PYTHON, ROOT, compile_all

LIMIT_S = 900


def main(names: list[str]) -> int:
    compile_all()
    known = sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))
    if unknown := set(names) - set(known):
        print(f"There is no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(known)}.", file=sys.stderr)
        return 2
    return max([_run(name) for name in names or known])


def _run(name: str) -> int:
    print(f"--- {name}", flush=True)
    argv = [PYTHON, "-m", f"tests.benchmarks.bench_{name}"]
    return min(1, abs(subprocess.run(argv, cwd=ROOT, timeout=LIMIT_S, check=False).returncode))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

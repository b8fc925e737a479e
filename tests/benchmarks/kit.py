"""What the benchmarks share: a compiled copy of the environment's view, a median, and one way to print a figure."""

import compileall
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = sys.executable


def compile_all() -> None:
    """Write bytecode as an installation would, so that no run pays for compiling."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for folder in ("agent", "providers", "tui"):
        compileall.compile_dir(str(ROOT / folder), quiet=2)
    compileall.compile_file(str(ROOT / "claw.py"), quiet=2)


def clean_env(home: Path, **more: str) -> dict[str, str]:
    """The environment of a user without claw's or a developer's settings."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    return {"LANG": "C.UTF-8", **kept, "CLAW_HOME": str(home), **more}


def show(name: str, value: float, unit: str, target: float | None = None, note: str = "") -> bool:
    """Print one figure with its target; False if it is missed."""
    good = target is None or value <= target
    aim = "" if target is None else f"  (at most {target:g} {unit}: {'ok' if good else 'MISSED'})"
    print(f"{name:<58} {value:>10.3f} {unit}{aim}{'  ' + note if note else ''}", flush=True)
    return good


def median(run: Callable[[], float], times: int) -> float:
    return statistics.median(run() for _ in range(times))


def spread(values: Sequence[float]) -> str:
    return f"n {len(values)}, worst {max(values):.3f}"

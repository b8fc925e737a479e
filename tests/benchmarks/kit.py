"""What the benchmarks share: compiled bytecode, a clean environment, the model server's process, and how a figure is printed."""

import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[2]
PYTHON = sys.executable
CLAW = str(Path(PYTHON).with_name("claw"))
READY = "Ask for something"
"""Stands in the composer as soon as it can be typed into."""
FIRST_FRAME = b"for commands"
"""The end of it, as the terminal gets it: the cursor's style divides its beginning."""
WIRES = ("anthropic", "openai")


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


def quantile(values: Sequence[float], fraction: float) -> float:
    """The value that this fraction of the values does not exceed."""
    return sorted(values)[min(len(values) - 1, int(fraction * len(values)))]


def tree_memory_mb(pid: int) -> float:
    """Memory of a process and its children; what several processes share is divided between them."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        if thread.name != str(pid):
            children += (thread / "children").read_text().split()
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    own_kb = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return own_kb * 1024 / 1e6 + sum(tree_memory_mb(int(child)) for child in children)


@dataclass(frozen=True)
class Place:
    """Where claw runs: a home and a project of its own, both empty."""

    home: Path
    project: Path

    def env(self, wire: str, url: str) -> dict[str, str]:
        """A user with one key, whose server is at `url`."""
        if wire == "anthropic":
            return clean_env(self.home, ANTHROPIC_API_KEY="key", ANTHROPIC_BASE_URL=url)
        return clean_env(self.home, OPENAI_API_KEY="key", OPENAI_BASE_URL=f"{url}/v1")


@contextmanager
def scratch() -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder) / "home", Path(folder) / "project")
        place.home.mkdir()
        place.project.mkdir()
        yield place


@dataclass(frozen=True)
class Served:
    """When a request had arrived and its reply began; of the monotonic clock."""

    arrived_s: float
    first_byte_s: float


class ModelProcess:
    """The model server in a process of its own; see `model_process`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [PYTHON, "-m", "tests.benchmarks.model_process"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._lines = self._process.stdout
        self.url = self._lines.readline().strip()

    def served(self) -> Served:
        """The next request that got a reply; waits for it."""
        return Served(**json.loads(self._lines.readline()))

    def __enter__(self) -> "ModelProcess":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._process.communicate()  # closes its input, which ends it

"""Trying mutants: each is written into a copy of the source, and that copy's tests run, those that reach its lines first.

Which tests reach which lines is recorded once, by coverage. A process that has the libraries loaded already forks for each
run, so that one costs little more than its tests. Only when no test that reaches the lines fails do all others run too.
"""

import importlib
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from coverage import Coverage
from msgspec import Struct

from tests.faults.mutants import Mutant

COPIED = ("agent", "providers", "tui", "tests", "claw.py", "pyproject.toml", ".claw", "docs", "README.md")
OURS = ("agent", "providers", "tui", "tests", "claw")
FIRST = 60
"""How many of the tests that reach a mutant run before all others do."""
SLOW_S = 0.5
PATIENCE_S = 600.0
"""For the tests of one mutant, which may wait for ever."""
_FORK = multiprocessing.get_context("fork")


class Record(Struct, frozen=True):
    """What the tests of one group do without any mutant."""

    seconds: dict[str, float]
    """Each test that passes, by its node id."""
    failed: list[str]
    """Tests that fail as they are, and so say nothing."""
    touching: dict[str, dict[int, list[str]]]
    """Of each guarded module, each line, the tests that reach it in this process."""
    libraries: list[str]
    """What they import besides claw itself."""

    def stages(self, mutant: Mutant) -> "tuple[Stage, Stage]":
        """The tests that reach it, as far as they are few: those that reach little else before others, then the quickest.
        Then all others, with those that the mutant itself brings about."""
        lines = self.touching.get(str(mutant.module), {})
        reach = Counter(test for there in lines.values() for test in there)
        start, end = mutant.lines if mutant.in_function else (0, sys.maxsize)
        there = {test for line, tests in lines.items() if start <= line <= end for test in tests} & self.seconds.keys()
        first = sorted(there, key=lambda test: (self.seconds[test] > SLOW_S, reach[test], self.seconds[test]))[:FIRST]
        rest = sorted(self.seconds.keys() - set(first), key=lambda test: (test not in there, self.seconds[test]))
        return Stage(first, self._cpu_s(first)), Stage(rest, self._cpu_s(rest), without={*first, *self.failed})

    def _cpu_s(self, tests: Iterable[str]) -> float:
        return 20 + 5 * sum(self.seconds[test] for test in tests)


class Stage(NamedTuple):
    """Tests that run together, up to the first that fails."""

    tests: Sequence[str]
    """In this order."""
    most_cpu_s: float
    """More than they take, whatever else the machine does: a mutant may loop for ever."""
    without: Collection[str] | None = None
    """All others of the same files run behind them, except for these; None if none do."""


def copy_of_source(root: Path, folder: Path) -> Path:
    for name in COPIED:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        elif source.exists():
            shutil.copy2(source, folder / name)
    return folder


def record(folder: Path, tests: Sequence[str], modules: Sequence[Path]) -> Record:
    """Run these tests in a process of its own.

    Raises:
        RuntimeError: they did not come to an end.
    """
    process = _FORK.Process(target=_record, args=(folder, tests, modules))
    process.start()
    process.join()
    written = folder / "record.json"
    if not written.exists():
        raise RuntimeError(f"the tests did not come to an end: {process.exitcode}")
    kept = json.loads(written.read_text())
    touching = {
        module: {int(line): there for line, there in lines.items()} for module, lines in kept.pop("touching").items()
    }
    return Record(**kept, touching=touching)


def load(libraries: Iterable[str]) -> None:
    """Import them here, so that forks have them."""
    for name in libraries:
        try:
            importlib.import_module(name)
        except Exception:  # some want to be imported by another first
            continue


def is_noticed(mutant: Mutant, folder: Path, stages: Sequence[Stage]) -> bool:
    """Whether a test fails in the copy while the mutant is in it."""
    path = folder / mutant.module
    original, times = path.read_bytes(), path.stat()
    changed = mutant.source(original.decode())
    assert changed is not None
    path.write_text(changed)
    try:
        return not all(_passes(folder, stage) for stage in stages if stage.tests)
    finally:
        path.write_bytes(original)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # so that what is compiled of it counts again


def _passes(folder: Path, stage: Stage) -> bool:
    process = _FORK.Process(target=_run, args=(folder, stage))
    process.start()
    process.join(PATIENCE_S)
    if process.is_alive():
        process.kill()
        process.join()
    _end_group(process.pid)
    return process.exitcode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def _end_group(leader: int | None) -> None:
    """End what the tests of a mutant have left running."""
    try:
        if leader:
            os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        pass


# ------------------------------------------------------------------ in the forks


def _run(folder: Path, stage: Stage) -> None:
    sys.dont_write_bytecode = True  # what is compiled of a mutant must not be left for the next
    resource.setrlimit(resource.RLIMIT_CPU, (int(stage.most_cpu_s), int(stage.most_cpu_s) + 5))
    os._exit(_pytest(folder, {test.split("::")[0] for test in stage.tests}, _Chosen(stage)))


def _record(folder: Path, tests: Sequence[str], modules: Sequence[Path]) -> None:
    watch = Coverage(data_file=None, config_file=False, include=[str(folder / module) for module in modules])
    watch.start()
    recorder = _Recorder(watch)
    _pytest(folder, tests, recorder)
    watch.stop()
    data = watch.get_data()
    touching = {
        str(module): {
            line: [test for test in there if test]
            for line, there in data.contexts_by_lineno(str(folder / module)).items()
        }
        for module in modules
    }
    libraries = [name for name in sys.modules if name.split(".")[0] not in OURS and "pytest" not in name]
    failed = sorted(recorder.failed)
    seconds = {test: taken for test, taken in recorder.seconds.items() if test not in recorder.failed}
    whole = Record(seconds, failed, touching, libraries)
    (folder / "record.json").write_text(json.dumps({name: getattr(whole, name) for name in whole.__struct_fields__}))
    os._exit(0)


def _pytest(folder: Path, paths: Iterable[str], plugin: object) -> int:
    """Run tests of the copy here, quietly, with nothing of claw imported from elsewhere."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nowhere, standard)
    for name in [name for name in sys.modules if name.split(".")[0] in OURS]:
        del sys.modules[name]
    sys.path[0] = str(folder)
    os.chdir(folder)
    os.environ |= {"PYTHONPATH": str(folder), "CLAW_HOME": str(folder / "home"), "HOME": str(folder / "home")}
    (folder / "home").mkdir(exist_ok=True)
    options = ["-q", "-n0", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    options += ["--hypothesis-seed=0", f"--basetemp={folder.with_name(folder.name + '-tmp')}"]
    return pytest.main([*options, *sorted(paths)], plugins=[plugin])


class _Chosen:
    """Runs the tests of a stage."""

    def __init__(self, stage: Stage) -> None:
        self._place = {test: place for place, test in enumerate(stage.tests)}
        self._without = stage.without

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        from hypothesis import Phase, settings

        session.config.option.maxfail = 1
        unsimplified = (Phase.explicit, Phase.reuse, Phase.generate)
        settings.register_profile("mutants", settings.get_profile("suite"), phases=unsimplified)
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        wanted = (item for item in items if item.nodeid in self._place or self._is_other(item.nodeid))
        items[:] = sorted(wanted, key=lambda item: self._place.get(item.nodeid, len(self._place)))

    def _is_other(self, test: str) -> bool:
        return self._without is not None and test not in self._without


class _Recorder:
    """Notes how long each test takes and which lines it reaches."""

    def __init__(self, watch: Coverage) -> None:
        self._watch = watch
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._watch.switch_context(item.nodeid)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.add(report.nodeid)

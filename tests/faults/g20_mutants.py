"""G20: how well the tests guard the modules that keep users safe. A rule is taken out of the source, and a test must fail.

A mutant is one change to the syntax tree: a condition that is always false or always true, a call that is not made, an
entry less in a table, `and` for `or`, another comparison. Which ones are drawn depends on the seed alone. Each is written
into a copy of the source, whose own tests run there; what no test notices is told by file and line.
"""

import ast
import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tests.faults.gate import Gate, Reading

ROOT = Path(__file__).parents[2]
FULL = 400
GOAL = 0.90
SEED = 20
WORKERS = 2
PATIENCE_S = 180.0
"""For the tests of one mutant, which may loop for ever."""
COPIED = ("agent", "providers", "tui", "tests", "claw.py", "pyproject.toml", ".claw", "docs", "README.md")


class Guarded(NamedTuple):
    """Modules, and the tests that must notice what happens to them; both as patterns below the root."""

    modules: str
    tests: tuple[str, ...]


GUARDED = (
    Guarded("agent/permissions/*.py", ("tests/agent/permissions", "tests/agent/tools")),
    Guarded("tui/sanitize.py", ("tests/tui/test_sanitize.py", "tests/tui/transcript")),
    Guarded(
        "agent/window*.py", ("tests/agent/test_window.py", "tests/agent/test_session_resume.py", "tests/agent/context")
    ),
    Guarded(
        "agent/store/*.py",
        ("tests/agent/store", "tests/agent/test_session_resume.py", "tests/agent/test_session_queue.py"),
    ),
)


FEW = 8
QUICKEST = (Guarded("tui/sanitize.py", ("tests/tui/test_sanitize.py",)),)


class Mutant(NamedTuple):
    path: Path
    number: int
    """Which node of the module, as `ast.walk` counts."""
    line: int
    what: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.what}"

    def source(self) -> str:
        """The module with the change in it."""
        tree = ast.parse(self.path.read_text())
        _apply(next(node for number, node in enumerate(ast.walk(tree)) if number == self.number), self.what)
        return ast.unparse(ast.fix_missing_locations(tree))


# ------------------------------------------------------------------ making them


_OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


def mutants_of(path: Path, tests: tuple[str, ...]) -> list[Mutant]:
    """All mutants of one module."""
    nodes = enumerate(ast.walk(ast.parse(path.read_text())))
    return [
        Mutant(path, number, getattr(node, "lineno", 0), what, tests)
        for number, node in nodes
        for what in _changes(node)
    ]


def _changes(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.If() | ast.IfExp():
            yield "condition always false"
            yield "condition always true"
        case ast.BoolOp():
            yield "and for or, or for and"
        case ast.Compare(ops=[op]) if type(op) in _OTHER:
            yield f"another comparison than {type(op).__name__}"
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield "call not made"
        case ast.UnaryOp(op=ast.Not()):
            yield "not left out"
        case (
            ast.Tuple(elts=elements, ctx=ast.Load()) | ast.Set(elts=elements) | ast.List(elts=elements, ctx=ast.Load())
        ):
            if len(elements) > 1 and all(isinstance(each, ast.Constant) for each in elements):
                yield f"entry {len(elements) // 2} left out"


def _apply(node: ast.AST, what: str) -> None:
    match node:
        case ast.If() | ast.IfExp():
            node.test = ast.Constant(what.endswith("true"))
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.Compare():
            node.ops = [_OTHER[type(node.ops[0])]()]
        case ast.Expr():
            node.value = ast.Constant(None)
        case ast.UnaryOp():
            node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
        case ast.Tuple() | ast.Set() | ast.List():
            del node.elts[len(node.elts) // 2]


def drawn(count: int) -> list[Mutant]:
    """That many mutants, from all guarded modules alike; a few come from the one whose tests are quickest."""
    chance = random.Random(SEED)
    everything = [
        mutant
        for guarded in (GUARDED if count >= FEW else QUICKEST)
        for path in sorted(ROOT.glob(guarded.modules))
        for mutant in mutants_of(path, guarded.tests)
    ]
    return chance.sample(everything, min(count, len(everything)))


# ------------------------------------------------------------------ trying them


def copy_of_source(folder: Path) -> Path:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy2(source, folder / name)
    return folder


def passes(tests: Sequence[str], folder: Path) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", *tests]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "CLAW_HOME": str(folder / "home")}
    with contextlib.suppress(subprocess.TimeoutExpired):
        return (
            subprocess.run(
                command, cwd=folder, env=env, capture_output=True, timeout=PATIENCE_S, check=False
            ).returncode
            == 0
        )
    return False


def is_noticed(mutant: Mutant, folder: Path) -> bool:
    """Whether a test fails in the copy while the mutant is in it."""
    path = folder / mutant.path.relative_to(ROOT)
    original = path.read_bytes()
    path.write_text(mutant.source())
    try:
        return not passes(mutant.tests, folder)
    finally:
        path.write_bytes(original)


def survivors(mutants: Sequence[Mutant]) -> list[Mutant]:
    """Those that no test notices.

    Raises:
        AssertionError: tests fail without any mutant, so that they say nothing.
    """
    with tempfile.TemporaryDirectory(prefix="claw-mutants-") as scratch:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(WORKERS):
            copies.put(copy_of_source(Path(scratch, str(number))))

        def try_one(mutant: Mutant | tuple[str, ...]) -> bool:
            folder = copies.get()
            try:
                return is_noticed(mutant, folder) if isinstance(mutant, Mutant) else not passes(mutant, folder)
            finally:
                copies.put(folder)

        with ThreadPoolExecutor(WORKERS) as pool:
            used = {mutant.tests for mutant in mutants}
            assert not any(pool.map(try_one, used)), "the tests fail as they are"
            noticed = list(pool.map(try_one, mutants))
    return [mutant for mutant, seen in zip(mutants, noticed, strict=True) if not seen]


def measure(share: float) -> Reading:
    mutants = drawn(round(FULL * share) if FULL * share >= FEW else 2)
    left = survivors(mutants)
    for mutant in left:
        print(mutant, file=sys.stderr)
    score = 1 - len(left) / len(mutants)
    return Reading(f"{len(mutants) - len(left)} of {len(mutants)} mutants noticed ({score:.0%})", score >= GOAL)


GATE = Gate("G20", "Tests: rules taken out of the safety modules", "at least 90 % are noticed by a test", "-", measure)


if __name__ == "__main__":
    print(measure(float(sys.argv[1])).reached)

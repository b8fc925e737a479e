"""How long a completion of `@` takes among 100,000 files, typed letter by letter, and how long the list takes to be made."""

import asyncio
import random
import re
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.kit import quantile, show, spread
from tui.composing.file_index import FileIndex

FILES = 100_000
QUERIES = (
    "composer", "test_session", "cfg", "src/main", "indx", "a", "zzzz", "readme.md", "tuiwid", "file_9", "modcorhan", "é",
    "the.py", "e", "reqhandlertest", "pkg7/core", "xqjz", "s/u/t", "handler_42.ts", "nothing like it",
)  # fmt: skip
WORDS = re.findall(
    r"\w+",
    "core util test session request handler model view index file config composer widget parser token cache store lock main "
    "server client stream event loop window budget record summary screen style theme error retry policy path glob grep bash",
)


def names(count: int) -> list[str]:
    chance = random.Random(7)
    folders = ["/".join(f"{chance.choice(WORDS)}{chance.choice(('', chance.randrange(9)))}" for _ in range(depth))
               for depth in (1, 2, 3, 4, 5) for _ in range(1_200)]  # fmt: skip
    made: set[str] = set()
    while len(made) < count:
        name = f"{chance.choice(WORDS)}_{chance.choice(WORDS)}_{chance.randrange(100)}"
        made.add(f"{chance.choice(folders)}/{name}.{chance.choice(('py', 'ts', 'md', 'c', 'test.ts'))}")
    return sorted(made)


def make(folder: Path, paths: list[str]) -> None:
    for parent in sorted({path.rpartition("/")[0] for path in paths}):
        (folder / parent).mkdir(parents=True, exist_ok=True)
    for path in paths:
        (folder / path).touch()


async def longest_pause(index: FileIndex) -> tuple[float, float]:
    """Milliseconds that the list takes, and the longest that the event loop was held up meanwhile."""
    worst = 0.0
    begun = time.perf_counter()
    work = asyncio.create_task(index.refresh())
    while not work.done():
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        worst = max(worst, (time.perf_counter() - before - 0.001) * 1000)
    return (time.perf_counter() - begun) * 1000, worst


def main() -> int:
    sys.setswitchinterval(0.0005)  # as the application does
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), names(FILES))
        index = FileIndex(Path(folder))
        made_ms, pause_ms = asyncio.run(longest_pause(index))
    times: list[float] = []
    for query in QUERIES:
        for end in range(1, len(query) + 1):
            begun = time.perf_counter()
            index.find(query[:end])
            times.append((time.perf_counter() - begun) * 1000)
    pasted: list[float] = []
    for query in QUERIES:
        begun = time.perf_counter()
        index.find(query[::-1] if len(query) > 3 else query)
        pasted.append((time.perf_counter() - begun) * 1000)
    good = [
        show("a completion among 100,000 files, typed, 95 %", quantile(times, 0.95), "ms", 30, spread(times)),
        show("the same, the whole word at once, median", quantile(pasted, 0.5), "ms", None, spread(pasted)),
        show("making the list", made_ms, "ms", None, f"{len(index):,} names"),
        show("longest pause of the event loop meanwhile", pause_ms, "ms", 50),
    ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())

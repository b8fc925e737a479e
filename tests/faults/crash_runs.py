"""Runs the crash scripts and kills them: each run begins from a prepared place, is killed before one call, and is judged."""

import asyncio
import os
import random
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from tests.fakes.kill_points import NEVER, Ended, KillPoints, kill_points
from tests.faults.crash_judge import judge, read_all, strays
from tests.faults.crash_scripts import BEGINNINGS, WINDOWS, Place

_PLAY = "tests.faults.crash_scripts:play"
_LANES = 3
"""Runs at a time."""


class Crash(NamedTuple):
    """One run that was killed, and what was wrong then."""

    script: str
    ended: Ended
    problems: Sequence[str]
    strays: Sequence[str]
    """What lay about before the next start."""


class _Lane:
    """One run after the other, all at the same path, since sessions know their folder's."""

    def __init__(self, points: KillPoints, folder: Path) -> None:
        self._points = points
        self._folder = folder
        self._prepared: set[str] = set()

    async def at(self, script: str, call: int) -> Crash:
        """Kill the script before this call."""
        place = await self._ready(script)
        root = Path(place.root)
        before = read_all(place)
        ended = await self._play(script, place, call)
        left = [path.name for path in strays(place)]
        return Crash(script, ended, [*await judge(place, ended, before), *_complaints(root)], left)

    async def _ready(self, script: str) -> Place:
        """The place as the script finds it."""
        place = Place(str(self._folder / "now"), WINDOWS.get(script, 200_000))
        root, prepared = Path(place.root), self._folder / script
        shutil.rmtree(root, ignore_errors=True)
        if script not in self._prepared:
            place.lay_out()
            (root / "tmp").mkdir()
            if (beginning := BEGINNINGS.get(script)) is not None:
                ended = await self._play(beginning, place, NEVER)
                assert ended.exit_code == 0, _complaints(root)
            root.rename(prepared)
            self._prepared.add(script)
        shutil.copytree(prepared, root)
        return place

    async def _play(self, script: str, place: Place, call: int) -> Ended:
        argument = {"name": script, "root": place.root, "window_tokens": place.window_tokens}
        env = {**place.env, "TMPDIR": f"{place.root}/tmp"}
        errors = Path(place.root) / "errors"
        return await self._points.run(_PLAY, argument, call, cwd=place.project, env=env, errors=errors)


def _complaints(root: Path) -> list[str]:
    errors = (root / "errors").read_text()
    return [errors[-1_000:]] if errors else []


async def crash(scripts: Sequence[str], points: int, seed: int = 0) -> list[Crash]:
    """Kill each script at so many calls, spread over its whole length; what was found, one for each.

    Raises:
        AssertionError: a script goes wrong even when nobody kills it.
    """
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        async with kill_points({"PATH": os.environ["PATH"]}, "tests.faults.crash_scripts") as warm:
            lanes: asyncio.Queue[_Lane] = asyncio.Queue()
            for number in range(_LANES):
                (Path(folder) / str(number)).mkdir()
                lanes.put_nowait(_Lane(warm, Path(folder) / str(number)))

            async def one(script: str, call: int) -> Crash:
                lane = await lanes.get()
                try:
                    return await lane.at(script, call)
                finally:
                    lanes.put_nowait(lane)

            wanted: list[tuple[str, int]] = []
            for whole in await asyncio.gather(*(one(script, NEVER) for script in scripts)):
                assert not whole.problems and not whole.strays, whole
                length = whole.ended.calls
                wanted += [(whole.script, 1 + int(length * (at + chance.random()) / points)) for at in range(points)]
            return await asyncio.gather(*(one(*each) for each in wanted))


@asynccontextmanager
async def unharmed(script: str) -> AsyncIterator[tuple[Place, Callable[[], Awaitable[list[str]]]]]:
    """What the script leaves when nobody kills it, and what judges that."""
    with tempfile.TemporaryDirectory() as folder:
        async with kill_points({"PATH": os.environ["PATH"]}, "tests.faults.crash_scripts") as warm:
            whole = await _Lane(warm, Path(folder)).at(script, NEVER)
        place = Place(str(Path(folder) / "now"))
        yield place, lambda: judge(place, whole.ended, {})


def told(crashes: Sequence[Crash]) -> str:
    """The problems, with where they came up."""
    return "\n".join(
        f"{each.script} before call {each.ended.calls} ({each.ended.killed_at}): {'; '.join(each.problems)}"
        for each in crashes
        if each.problems
    )

"""The files and folders of the project, found by a few letters of their names. What git ignores is left out.

The list is made by the search of the agent's own tools (ripgrep, else its stand-in) and put in order in a thread; while
that goes on the old list answers. Decisions: hidden files count, `.git` does not; letters may be left out between those
given, but what stands together, at the beginning of a word or in the name itself comes first; case does not matter.
"""

import asyncio
import os
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from agent.permissions.opening import open_folder
from agent.tools.base import ToolError
from agent.tools.search import Query, find_rg, run_query
from agent.tools.search_process import Place

MOST_FILES = 300_000
FRESH_S = 5.0
"""For so long a list counts as fresh, and for ten times as long as it took to be made."""
TIME_LIMIT_S = 20.0
_ENOUGH = 400
"""So many candidates are put in order; further ones would be worse."""
_BOUNDARY = "/._- "


class FileIndex:
    """Ask `find` for paths. `refresh` belongs to the event loop."""

    def __init__(self, folder: Path, cwd: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Paths are relative to `cwd`, which lies in `folder`; None: to `folder` itself."""
        self._folder = folder
        below = cwd.relative_to(folder) if cwd is not None and cwd.is_relative_to(folder) else Path()
        self._below = "" if below == Path() else f"{below}/"
        self._up = "../" * len(below.parts)
        self._names = _Names(())
        self._clock = clock
        self._fresh_until = float("-inf")
        self._making = False

    @property
    def is_stale(self) -> bool:
        return not self._making and self._clock() > self._fresh_until

    def __len__(self) -> int:
        return len(self._names.paths)

    async def refresh(self) -> None:
        """Make the list anew. A folder that cannot be listed gives an empty list."""
        self._making = True
        begun = self._clock()
        try:
            pieces = await self._listed()
            self._names = await asyncio.to_thread(_names_of, pieces)
        finally:
            self._making = False
            now = self._clock()
            self._fresh_until = now + max(FRESH_S, 10 * (now - begun))

    def find(self, query: str, limit: int = 10) -> list[str]:
        """The paths that fit best, folders with a slash at their end. An empty query gives what lies at the top."""
        found = self._names.find(query.removeprefix(self._up), limit)
        return [self._shown(path) for path in found] if self._below else found

    def _shown(self, path: str) -> str:
        return path.removeprefix(self._below) or "./" if path.startswith(self._below) else self._up + path

    async def _listed(self) -> list[bytes]:
        pieces: list[bytes] = []
        seen = 0

        def feed(piece: bytes) -> bool:
            nonlocal seen
            pieces.append(piece)
            seen += piece.count(b"\0")
            return seen < MOST_FILES

        try:
            descriptor = open_folder(self._folder)
        except OSError:
            return []
        try:
            await run_query(Query("names", hidden=True), Place(self._folder, descriptor), find_rg(), feed, TIME_LIMIT_S)
        except ToolError:
            return []
        finally:
            os.close(descriptor)
        return pieces


def _names_of(pieces: Sequence[bytes]) -> "_Names":
    data = b"".join(pieces)
    files = [os.fsdecode(raw.removeprefix(b"./")) for raw in data[: data.rfind(b"\0") + 1].split(b"\0")[:-1]]
    folders: set[str] = set()
    for path in files:
        while (cut := path.rfind("/", 0, -1)) >= 0 and (path := path[: cut + 1]) not in folders:
            folders.add(path)
    return _Names([*files, *folders])


class _Names:
    """A list that does not change, in the forms in which it is searched."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = sorted(paths, key=lambda path: (path.count("/", 0, -1), path.startswith("."), path))
        """Those nearest to the top first, hidden ones behind the others."""
        self._lower = [path.lower() for path in self.paths]
        self._name_starts = [path.rfind("/", 0, -1) + 1 for path in self._lower]
        names = [path[start:] for path, start in zip(self._lower, self._name_starts, strict=True)]
        self._by_name = sorted(range(len(names)), key=names.__getitem__)
        self._sorted_names = [names[index] for index in self._by_name]
        self._names = _Joined(names)
        self._whole = _Joined(self._lower)
        self._letters = [_letters(path) for path in self._lower]
        self._last: tuple[str, list[int]] = ("", [])
        """The newest query that had to look at every path, and all that fitted it."""

    def find(self, query: str, limit: int) -> list[str]:
        wanted = query.lower().removeprefix("./")
        if not wanted:
            return self.paths[:limit]
        found: dict[int, None] = {}
        for candidates, enough in self._tiers(wanted, limit):
            for index in candidates:
                found.setdefault(index)
                if len(found) >= _ENOUGH:
                    break
            if len(found) >= enough:
                break
        best = sorted(found, key=lambda i: (-_score(wanted, self._lower[i], self._name_starts[i]), i))
        return [self.paths[index] for index in best[:limit]]

    def _tiers(self, wanted: str, limit: int) -> Iterator[tuple[Iterable[int], int]]:
        """Candidates, the better and the quicker to find first, and how many of them make the next ones needless."""
        yield chain(self._beginning(wanted), self._names.holding(wanted), self._whole.holding(wanted)), limit
        if all(character in self._whole for character in set(wanted)):
            yield self._names.holding_with_gaps(wanted), _ENOUGH // 4
            yield self._with_gaps(wanted), _ENOUGH

    def _beginning(self, wanted: str) -> Iterator[int]:
        """Whose name begins so, the shortest names of a run of equals first."""
        first = bisect_left(self._sorted_names, wanted)
        last = bisect_right(self._sorted_names, wanted + "\U0010ffff", lo=first)
        yield from self._by_name[first : min(last, first + _ENOUGH)]

    def _with_gaps(self, wanted: str) -> list[int]:
        """All that hold the letters in this order. Letters that are added narrow down what was found last."""
        pattern = re.compile("".join(f"[^{re.escape(c)}]*+{re.escape(c)}" for c in wanted), re.DOTALL)
        before, known = self._last
        if before and wanted.startswith(before):
            pool: Sequence[int] = known
        else:
            needed = _letters(wanted)
            pool = [index for index, letters in enumerate(self._letters) if letters & needed == needed]
        lower, matches = self._lower, pattern.match
        found = [index for index in pool if matches(lower[index])]
        self._last = (wanted, found)
        return found


class _Joined:
    """Many texts as one, which is searched some ten times as quickly as each by itself."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._text = "\n".join(text.replace("\n", " ") for text in texts)
        self._starts: list[int] = []
        place = 0
        for text in texts:
            self._starts.append(place)
            place += len(text) + 1

    def __contains__(self, wanted: str) -> bool:
        return wanted in self._text

    def holding_with_gaps(self, wanted: str) -> Iterator[int]:
        """Which of the texts hold these characters in this order."""
        first, *more = map(re.escape, wanted)
        pattern = re.compile("".join((first, *(f"[^\n{character}]*+{character}" for character in more))))
        newest = -1
        for match in pattern.finditer(self._text):
            if (index := bisect_right(self._starts, match.start()) - 1) != newest:
                yield index
            newest = index

    def holding(self, wanted: str) -> Iterator[int]:
        """Which of the texts hold this, each once, in order."""
        place = self._text.find(wanted)
        while place >= 0:
            index = bisect_right(self._starts, place) - 1
            yield index
            if index + 1 == len(self._starts):
                return
            place = self._text.find(wanted, self._starts[index + 1])


def _letters(text: str) -> int:
    """The set of characters in a text, as bits; characters that share a bit are not told apart."""
    bits = 0
    for character in set(text):
        bits |= 1 << (ord(character) & 63)
    return bits


def _score(wanted: str, path: str, name_start: int) -> float:
    """How well a path fits, the larger the better."""
    name = path[name_start:]
    bare = name.rstrip("/")
    if bare == wanted or path == wanted:
        score = 1_000.0
    elif name.startswith(wanted):
        score = 900.0 if bare.partition(".")[0] != wanted else 950.0
    elif (place := name.find(wanted)) >= 0:
        score = 800.0 if name[place - 1] in _BOUNDARY else 650.0
    elif (place := path.rfind(wanted)) >= 0:
        score = 780.0 if place == 0 else 700.0 if path[place - 1] in _BOUNDARY else 500.0
    else:
        score = _score_with_gaps(wanted, path, name_start)
    return score - len(name) * 0.4 - path.count("/") * 2 - (10 if "/." in f"/{path}" else 0)


def _score_with_gaps(wanted: str, path: str, name_start: int) -> float:
    """Letters are sought from the end, so that the name is used as far as it goes."""
    score, place, after = 0.0, len(path), -1
    for character in reversed(wanted):
        place = path.rfind(character, 0, place)
        if place < 0:
            return 0.0
        if place == 0 or path[place - 1] in _BOUNDARY:
            score += 20
        if place + 1 == after:
            score += 12
        if place >= name_start:
            score += 6
        after = place
    return min(score * 400 / (38 * len(wanted)), 480.0)

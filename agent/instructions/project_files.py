"""The files of a project that git does not ignore, within a budget: for questions about all of them, such as whether a rule
ever matches. No link is followed, and git itself is never run.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from agent.config.reading import UnreadableError, read_small

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_MAX_IGNORE_BYTES = 1 << 18
_Specs: TypeAlias = "tuple[tuple[str, GitIgnoreSpec], ...]"
"""Of the `.gitignore` files on the way down, outermost first, each with the folder it stands in."""


class Survey(Struct, frozen=True):
    """What a walk saw."""

    files: tuple[str, ...] = ()
    """Relative to the project, with slashes; what lies higher comes first."""
    complete: bool = True
    """False: the budget ended before the project did."""


def survey(project: Path, *, most: int = 20_000, seconds: float = 2.0) -> Survey:
    """Walk through a project, looking at no more than `most` entries."""
    walk = _Walk(project, most, seconds)
    files = tuple(walk.files())
    return Survey(files, walk.complete)


class _Walk:
    def __init__(self, project: Path, most: int, seconds: float) -> None:
        self._project = project
        self._left = most
        self._end_s = time.monotonic() + seconds
        self.complete = True

    def files(self) -> Iterator[str]:
        level: list[tuple[str, _Specs]] = [("", ())]
        while level:
            deeper: list[tuple[str, _Specs]] = []
            for folder, outer in level:
                specs = self._specs(folder, outer)
                for entry in self._entries(folder):
                    path = f"{folder}{entry.name}"
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name != ".git" and not _is_ignored(f"{path}/", specs):
                            deeper.append((f"{path}/", specs))
                    elif entry.is_file(follow_symlinks=False) and not _is_ignored(path, specs):
                        yield path
                if not self.complete:
                    return
            level = deeper

    def _entries(self, folder: str) -> Iterator["os.DirEntry[str]"]:
        try:
            with os.scandir(self._project / folder) as listing:
                for entry in listing:
                    self._left -= 1
                    if self._left < 0 or (self._left % 256 == 0 and time.monotonic() > self._end_s):
                        self.complete = False
                        return
                    if not entry.is_symlink():
                        yield entry
        except OSError:
            return

    def _specs(self, folder: str, outer: "_Specs") -> "_Specs":
        from pathspec import GitIgnoreSpec

        try:
            file = read_small(self._project / folder / ".gitignore", _MAX_IGNORE_BYTES, within=self._project)
            if file is None:
                return outer
            lines = file.data.decode("utf-8", "replace").splitlines()
            return (*outer, (folder, GitIgnoreSpec.from_lines(lines)))
        except (UnreadableError, ValueError):
            return outer


def _is_ignored(path: str, specs: "_Specs") -> bool:
    """The innermost file that says something decides."""
    for prefix, spec in reversed(specs):
        verdict = spec.check_file(path[len(prefix) :]).include
        if verdict is not None:
            return bool(verdict)
    return False

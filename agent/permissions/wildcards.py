"""The files that a word with wildcards means to a shell, as they stand on the disk now."""

import fnmatch
import os
import re
from pathlib import Path

_WILD = re.compile(r"[*?\[]")
_CLASS = re.compile(r"\[([:.=]).+?\1\]", re.DOTALL)
"""A class of letters within brackets, which fnmatch does not know: a name with one counts as `*`."""
_MOST_CHARS = 255
"""Of a name with wildcards; to read a longer one, which nobody types, would take long, so it counts as `*` too."""


class Wildcards:
    """`max_names` is how many names of folders are looked at over all words; what lies beyond is not found."""

    def __init__(self, max_names: int) -> None:
        self._left = max_names

    def matches(self, pattern: Path) -> list[Path]:
        """The paths that an absolute pattern matches, and what those lead to that are links."""
        first = next((index for index, name in enumerate(pattern.parts) if _WILD.search(name)), len(pattern.parts))
        found = [Path(*pattern.parts[:first])]
        for name in pattern.parts[first:]:
            if _WILD.search(name):
                is_odd = len(name) > _MOST_CHARS or _CLASS.search(name) is not None
                fits = re.compile("" if is_odd else fnmatch.translate(name.replace("[^", "[!")))
                # A shell shows hidden names only to a pattern that begins with a dot.
                hidden = is_odd or name.startswith(".")
                found = [path for folder in found for path in self._named(folder, fits, hidden=hidden)]
            else:
                found = [folder / name for folder in found]
        return found

    def _named(self, folder: Path, fits: re.Pattern[str], *, hidden: bool) -> list[Path]:
        self._left -= 1
        if self._left < 0:
            return []
        found: list[Path] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._left -= 1
                    if self._left < 0:
                        break
                    if fits.match(entry.name) and (hidden or not entry.name.startswith(".")):
                        found.append(folder / entry.name)
                        if entry.is_symlink():
                            found.append(Path(os.path.realpath(entry.path)))
        except OSError:
            pass  # no folder, or none that may be listed: the shell finds nothing either
        return found

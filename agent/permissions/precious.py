"""What no command may take away unasked, however its path is written: the files of the system, the home directory, the
workspace with all that lies above it, what git keeps, and devices."""

import fnmatch
import functools
import os
import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from agent.permissions.command_paths import Folders, resolved
from agent.permissions.shell_words import Word

_KERNEL = ("/dev/", "/proc/sys", "/sys/")
_SAFE_DEVICES = (
    *("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin"),
    *("/dev/tty", "/dev/zero", "/dev/full", "/dev/fd/"),
)
_WILD = re.compile(r"[*?\[]")
_EVERYTHING = re.compile(r"([*?.]|\[[^]]*\])*")
"""A pattern without a letter of its own."""


class Places(Struct, frozen=True):
    """Real absolute paths."""

    root: Path
    cwd: Path
    home: Path


class Precious:
    """`folders` are where the relative paths of a command may start."""

    def __init__(self, places: Places, folders: Folders) -> None:
        self._home = places.home
        self._folders = folders
        kept = (places.root, places.cwd, places.home)
        self._kept = frozenset(path for place in kept for path in (place, *place.parents))
        self._is_device = functools.cache(self._names_device)

    def means(self, word: Word) -> bool:
        """Whether the word may stand for such a path; an expansion may stand for any."""
        if word.expands or word.text == "{}":
            return True
        text = word.text
        if word.globs:
            names = text.rstrip("/").split("/")
            first = next((index for index, name in enumerate(names) if _WILD.search(name)), len(names))
            if not all(map(is_everything, names[first:])):
                return self._is_matched_by(text)
            text = "/".join(names[:first]) or "/"
        if text.startswith("~") and text[1:2] not in ("", "/"):
            return True
        if self._folders.anywhere and not text.startswith(("/", "~")):
            return True
        return any(self._has(path) for path in resolved(text, self._folders.known, self._home))

    def _has(self, path: Path) -> bool:
        return len(path.parts) <= 2 or path in self._kept or ".git" in path.parts or os.path.ismount(path)

    def _is_matched_by(self, text: str) -> bool:
        """Whether a pattern with letters of its own could be one of the paths."""
        for pattern in resolved(text, self._folders.known, self._home):
            if len(pattern.parts) <= 2 or any(fnmatch.fnmatchcase(str(path), str(pattern)) for path in self._kept):
                return True
            if any(name.startswith(".") and fnmatch.fnmatchcase(".git", name) for name in pattern.parts):
                return True
        return False

    def is_device(self, words: Iterable[Word]) -> bool:
        """Whether one of the words is a device, or an `of=` with one."""
        return any(self._is_device(word.text.removeprefix("of=")) for word in words)

    def _names_device(self, text: str) -> bool:
        for folder in self._folders.known:
            path = os.path.normpath(os.path.join(folder, text))  # noqa: PTH118 - normpath has no sibling in pathlib
            path = f"/{path.lstrip('/')}"  # two at the front would stay
            if path.startswith(_KERNEL) and not path.startswith(_SAFE_DEVICES):
                return True
        return False


def is_everything(name: str) -> bool:
    """Whether a pattern matches (nearly) every name."""
    return _EVERYTHING.fullmatch(name) is not None

"""Globs of permission rules over real paths.

A pattern is relative to PROJECT, or starts with `/` or `~/`. `*` and `?` stay inside one name, `**` stands for any number of
folders. A pattern without any of these means that file, or everything in that folder. Links in its literal part are resolved
when it is read; names are compared folded and NFC-normalised where the file system does not tell cases apart.
"""

import fnmatch
import glob
import os
import re
import sys
import unicodedata
from pathlib import Path

from msgspec import Struct

_ANY = "**"
_ESCAPED = re.compile(r"\[([*?[])\]")


class PathScope(Struct, frozen=True):
    """What patterns are relative to: real absolute paths."""

    root: Path
    home: Path
    folds_case: bool = sys.platform == "darwin"


class PathPattern:
    def __init__(self, text: str, scope: PathScope) -> None:
        """
        Raises:
            ValueError: no path, or one with `..` in it.
        """
        self._folds_case = scope.folds_case
        literal, globs = _take_apart(text, scope)
        self._relative = not text.startswith(("/", "~/"))
        self._globs = tuple(name if name == _ANY else self._compile(name) for name in globs)
        real = Path(os.path.realpath(literal))
        self._bases = {self._fold(real.parts), self._fold(literal.parts)}
        # A link in the project must not carry a rule that allows out of it.
        self._allowed_bases = {self._fold(real.parts)}
        if self._relative and not real.is_relative_to(scope.root):
            self._allowed_bases = set()

    def allows(self, path: Path) -> bool:
        """Whether the path is meant exactly; for a pattern without wildcards also everything below it."""
        parts = self._fold(path.parts)
        for base in self._allowed_bases:
            if parts[: len(base)] == base:
                rest = parts[len(base) :]
                if not self._globs or len(self._globs) in self._states(rest)[-1]:
                    return True
        return False

    def covers(self, path: Path) -> bool:
        """Whether the path, or any folder it lies in, is meant."""
        parts = self._fold(path.parts)
        return any(
            parts[: len(base)] == base
            and any(len(self._globs) in states for states in self._states(parts[len(base) :]))
            for base in self._bases
        )

    def _states(self, names: tuple[str, ...]) -> list[set[int]]:
        """After none, one, two … names: how many of the pattern's components may be used up."""
        states = self._skip_any({0})
        history = [states]
        for name in names:
            following = set()
            for state in states:
                if state == len(self._globs):
                    continue
                component = self._globs[state]
                if isinstance(component, str):
                    following.add(state)
                elif component.fullmatch(name):
                    following.add(state + 1)
            states = self._skip_any(following)
            history.append(states)
        return history

    def _skip_any(self, states: set[int]) -> set[int]:
        reached = set(states)
        for state in sorted(states):
            while state < len(self._globs) and self._globs[state] == _ANY:
                state += 1
                reached.add(state)
        return reached

    def _compile(self, name: str) -> re.Pattern[str]:
        return re.compile(fnmatch.translate(self._fold((name,))[0]))

    def _fold(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        if not self._folds_case:
            return parts
        return tuple(unicodedata.normalize("NFC", part).casefold() for part in parts)


def _take_apart(text: str, scope: PathScope) -> tuple[Path, list[str]]:
    """The literal folder or file at the front, absolute, and the components from the first wildcard on."""
    if not text or "\0" in text:
        raise ValueError("it names no path")
    top, rest = scope.root, text
    if text == "~" or text.startswith("~/"):
        top, rest = scope.home, text[2:]
    elif text.startswith("/"):
        top, rest = Path("/"), text
    names = [name for name in rest.split("/") if name not in ("", ".")]
    if ".." in names:
        raise ValueError("`..` is not allowed in it; start with `/` or `~/` for a path outside the project")
    literal: list[str] = []
    for name in names:
        if (plain := _literal(name)) is None:
            break
        literal.append(plain)
    return top.joinpath(*literal), names[len(literal) :]


def _literal(name: str) -> str | None:
    """The name without its escapes (`[*]` is a literal `*`), or None if it has wildcards."""
    if glob.has_magic(_ESCAPED.sub("", name)):
        return None
    return _ESCAPED.sub(r"\1", name)

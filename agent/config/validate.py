"""Checks one layer's values leaf by leaf: what fits is kept, what does not becomes a problem with its line and a hint.

Files are not read here and layers are not merged.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from agent.config.key_paths import KeyPath, format_key
from agent.config.keys import KEYS, PROFILES, RESERVED, SECTIONS, Key
from agent.config.problems import Problem, Severity
from agent.config.schema import Layer

MAX_PROBLEMS = 50
"""Of one source; further ones are only counted."""
_PROJECT_LAYERS = ("project", "local")
_PROVIDER_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_KEY_LIKE = ("key", "api_key", "apikey", "token", "auth_token", "secret", "password")
_Tree = dict[str, Any]


class Source(Struct, frozen=True):
    """Where a layer's values come from."""

    layer: Layer
    name: str
    """The file's path, "command line" or "environment"."""
    base: str = "/"
    """Folder that relative paths refer to."""
    lines: Mapping[KeyPath, int] = {}

    @property
    def is_project(self) -> bool:
        return self.layer in _PROJECT_LAYERS


class Candidate(Struct, frozen=True):
    """A value that fits its key, from one source."""

    path: KeyPath
    key: Key
    value: Any
    source: Source
    line: int | None
    from_project: bool = False
    """Whether a file of the project says it, also by way of a profile."""


class Checked(Struct):
    """What one source gave."""

    candidates: list[Candidate]
    profiles: dict[str, list[Candidate]]
    problems: list[Problem]
    faulty: list[KeyPath]
    """Paths with an error; those of a profile begin with `profiles` and its name."""


def _tree() -> _Tree:
    root: _Tree = {}
    for key in KEYS:
        node = root
        for part in key.path[:-1]:
            node = node.setdefault(part, {})
        node[key.path[-1]] = key
    for name in SECTIONS:
        node = root
        *parents, last = name.split(".")
        for part in parents:
            node = node.setdefault(part, {})
        node[last] = name
    return root


_ROOT = _tree()
_NAMES = tuple(key.name for key in KEYS)


def check(data: Mapping[str, Any], source: Source) -> Checked:
    """Check a layer's parsed values."""
    checker = _Checker(source)
    profiles = data.get(PROFILES, {})
    checker.table({name: value for name, value in data.items() if name != PROFILES}, (), _ROOT)
    plain = checker.take()
    found: dict[str, list[Candidate]] = {}
    if isinstance(profiles, dict):
        for name, table in profiles.items():
            checker.prefix = (PROFILES, name)
            if isinstance(table, dict):
                checker.table(table, (), _ROOT)
                found[name] = checker.take()
            else:
                checker.report("error", (), "a profile must be a table", expected=f"[{format_key((PROFILES, name))}]")
    else:
        checker.report("error", (PROFILES,), "profiles must be tables", expected="[profiles.NAME]")
    if checker.dropped:
        more = Problem("error", f"{checker.dropped} more problems are not shown", source.name)
        checker.problems.append(more)
    return Checked(plain, found, checker.problems, checker.faulty)


class _Checker:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.prefix: KeyPath = ()
        self.problems: list[Problem] = []
        self.faulty: list[KeyPath] = []
        self.dropped = 0
        self._candidates: list[Candidate] = []

    def take(self) -> list[Candidate]:
        taken, self._candidates = self._candidates, []
        return taken

    def report(
        self,
        severity: Severity,
        path: KeyPath,
        message: str,
        *,
        expected: str = "",
        remedy: str = "",
        item: int | None = None,
    ) -> None:
        full = (*self.prefix, *path)
        if severity == "error":
            self.faulty.append(full)
        if len(self.problems) >= MAX_PROBLEMS:
            self.dropped += 1
            return
        line = self._line(full) if item is None else self._line((*full, str(item)))
        if item is not None:
            message = f"item {item + 1}: {message}"
        problem = Problem(
            severity,
            message,
            self.source.name,
            line,
            key=format_key(full),
            expected=expected,
            remedy=remedy,
        )
        self.problems.append(problem)

    def _line(self, path: KeyPath) -> int | None:
        while path:
            if (line := self.source.lines.get(path)) is not None:
                return line
            path = path[:-1]
        return None

    def table(self, data: Mapping[str, Any], path: KeyPath, tree: _Tree) -> None:
        for name, value in data.items():
            here = (*path, name)
            node = tree.get(name, tree.get("*"))
            if path == ("providers",) and (name in RESERVED or not _PROVIDER_NAME.fullmatch(name)):
                expected = f"small letters, digits, -, _ and a point, and not {' or '.join(RESERVED)}"
                self.report("error", here, "not a name for a provider", expected=expected)
            elif node is None:
                self._unknown(here, tree)
            elif isinstance(node, Key):
                self._leaf(here, node, value)
            elif isinstance(node, str):
                self.report("notice", here, f"[{node}] is not in force in this version")
            elif isinstance(value, dict):
                self.table(value, here, node)
            elif here == ("instructions",) and isinstance(value, str):
                self._leaf((*here, "text"), node["text"], value)
            else:
                found = _kind(value) if here[0] == "providers" else _shown(value)
                self.report("error", here, f"found {found}", expected=f"a table: [{format_key(here)}]")

    def _leaf(self, path: KeyPath, key: Key, value: Any) -> None:
        if key.scope == "user" and self.source.is_project:
            self.report("notice", path, "ignored: a project may not set this; only your own config.toml can")
            return
        if key.scope == "managed" and self.source.layer != "managed":
            self.report("notice", path, "ignored: only managed policy can set this")
            return
        kept = self._fitting(path, key, value)
        if kept is not None:
            line = self._line((*self.prefix, *path))
            self._candidates.append(Candidate(path, key, kept, self.source, line, self.source.is_project))

    def _fitting(self, path: KeyPath, key: Key, value: Any) -> Any:
        """The value, or of a list the items that fit; None if nothing fits."""
        if not isinstance(value, list):
            if reason := _fault(key, key.type, value):
                self.report("error", path, reason, expected=key.wanted)
                return None
            return value
        if not _is_list(key):
            self.report("error", path, f"found {_shown(value)}", expected=key.wanted)
            return None
        kept = []
        for index, item in enumerate(value):
            if reason := _fault(key, key.type, item, in_list=True):
                self.report("error", path, reason, expected=key.wanted, item=index)
            else:
                kept.append(item)
        return kept if kept or not value else None

    def _unknown(self, path: KeyPath, tree: _Tree) -> None:
        remedy = "" if len(self.problems) >= MAX_PROBLEMS else _nearest(path, tree)
        self.report("error", path, "unknown key", remedy=remedy)


def _is_list(key: Key) -> bool:
    try:
        msgspec.convert([], key.type)
    except msgspec.ValidationError:
        return False
    return True


def _fault(key: Key, hint: Any, value: Any, *, in_list: bool = False) -> str:
    """Why a value, or one item of a list, does not fit; empty if it does."""
    try:
        msgspec.convert([value] if in_list else value, hint)
    except msgspec.ValidationError:
        return f"found {_kind(value)}" if key.secret else f"found {_shown(value)}"
    reason = key.fault(value) if key.fault is not None else ""
    if reason and not key.secret:
        return f"found {_shown(value)}: {reason}"
    return reason


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return _kind(value)
    text = f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _kind(value: Any) -> str:
    kinds = {dict: "a table", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return kinds.get(type(value), "a date or time")


def _nearest(path: KeyPath, tree: _Tree) -> str:
    name = path[-1]
    if len(name) > 64:
        return ""
    if path[0] == "providers" and name.lower() in _KEY_LIKE:
        return "keys do not belong in config.toml: name an environment variable with key_env, or use auth.json"
    if len(path) > 1 and name in _ROOT:
        what = "key" if isinstance(_ROOT[name], Key) else "table"
        move = " Move it above the first [table] line." if what == "key" else ""
        return f'did you mean the top-level {what} "{name}"?{move}'
    siblings = [key for key in tree if key != "*"]
    folded = name.lower().replace("-", "_")
    if near := difflib.get_close_matches(folded, siblings, n=1):
        return f'did you mean "{".".join((*path[:-1], near[0]))}"?'
    same_end = [known for known in _NAMES if known.rsplit(".", 1)[-1] == folded and "*" not in known]
    if near := same_end or difflib.get_close_matches(".".join(path), _NAMES, n=1, cutoff=0.75):
        return f'did you mean "{near[0]}"?'
    return f"known here: {', '.join(siblings)}" if siblings and len(path) > 1 else ""

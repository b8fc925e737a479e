"""Glob patterns as people write them: `*`, `?`, `[a-z]`, `{a,b}`, and `**` for any number of folders.

A pattern without a slash matches the name at any depth; a leading slash stands for the searched folder. Patterns are
compiled so that no name can make matching slow.
"""

import re
from collections.abc import Callable

from agent.tools.base import ToolError

_MAX_CHARS = 1_000
_MAX_ALTERNATIVES = 64
_MAX_ANY_DEPTH = 4
PathTest = Callable[[str], bool]
_SIMPLE_NAME = re.compile(r"[\w.*?-]+", re.ASCII)
_WILD = re.compile(r"[*?\[{]")
_HIDDEN = re.compile(r"(?:^|[/{,])\.[^./]")


def asks_for_hidden(pattern: str) -> bool:
    """Whether the pattern names something that begins with a dot."""
    return _HIDDEN.search(pattern) is not None


def compile_glob(pattern: str) -> PathTest:
    """A test for paths relative to the searched folder, with slashes.

    Raises:
        ToolError: not a glob, or one that is too complex.
    """
    check_pattern(pattern)
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    pattern = pattern.removeprefix(".").removeprefix("/") if pattern.startswith(("./", "/")) else pattern
    branches = [_to_regex(branch) for branch in _alternatives(pattern)]
    compiled = re.compile("|".join(branches), re.DOTALL)
    return lambda path: compiled.fullmatch(path) is not None


def check_pattern(pattern: str) -> None:
    """
    Raises:
        ToolError: empty, too long, or with a NUL.
    """
    if not pattern or len(pattern) > _MAX_CHARS or "\0" in pattern:
        raise ToolError(f"A glob pattern has 1 to {_MAX_CHARS:,} characters and no NUL; this one does not.")


def name_globs(pattern: str) -> tuple[str, ...]:
    """Globs of file names that every match of `pattern` fits, of a form that each search program reads alike; (): any."""
    names = {branch.rsplit("/", 1)[-1] for branch in _alternatives(pattern)}
    return tuple(sorted(names)) if all(_SIMPLE_NAME.fullmatch(n) and n.strip("*") for n in names) else ()


def depth_of(pattern: str) -> int | None:
    """How many folders below the searched one its matches can lie, plus one; None: any number."""
    if "**" in pattern or "/" not in pattern:
        return None
    return max(branch.removeprefix(".").removeprefix("/").count("/") for branch in _alternatives(pattern)) + 1


def split_base(pattern: str) -> tuple[str, str]:
    """The folders that an absolute, `~` or `../` pattern begins with, and the rest; "" and the pattern for any other.

    Raises:
        ToolError: no pattern at all, or `..` behind a wildcard.
    """
    check_pattern(pattern)
    parts = pattern.split("/")
    if parts[0] != "~" and parts[0] != "" and ".." not in parts:
        return "", pattern
    fixed = 0
    while fixed < len(parts) - 1 and not _WILD.search(parts[fixed]):
        fixed += 1
    if ".." in parts[fixed:]:
        raise ToolError(f"The pattern {pattern} has `..` behind a wildcard. Give the folder in `path`.")
    return "/".join(parts[:fixed]) or "/", "/" + "/".join(parts[fixed:])


def _alternatives(pattern: str) -> list[str]:
    """The pattern with its braces multiplied out."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        current = waiting.pop(0)
        braces = _first_braces(current)
        if braces is None:
            done.append(current)
        else:
            start, end, choices = braces
            waiting += [current[:start] + choice + current[end:] for choice in choices]
        if len(done) + len(waiting) > _MAX_ALTERNATIVES:
            raise ToolError(f"The braces of {pattern} stand for more than {_MAX_ALTERNATIVES} patterns. Use fewer.")
    return done


def _first_braces(pattern: str) -> tuple[int, int, list[str]] | None:
    """Start, end and choices of the first `{…}`; braces inside stay in the choices. One choice: plain characters."""
    start = pattern.find("{")
    while start >= 0:
        depth, cut, choices = 0, start + 1, []
        for place in range(start, len(pattern)):
            character = pattern[place]
            depth += (character == "{") - (character == "}")
            if (character == "," and depth == 1) or depth == 0:
                choices.append(pattern[cut:place])
                cut = place + 1
            if depth == 0:
                if len(choices) > 1:
                    return start, place + 1, choices
                break
        start = pattern.find("{", start + 1)
    return None


def _to_regex(pattern: str) -> str:
    parts = pattern.split("/")
    if parts.count("**") > _MAX_ANY_DEPTH:
        raise ToolError(f"The pattern {pattern} has more than {_MAX_ANY_DEPTH} `**`. Use fewer.")
    regex = ""
    for place, part in enumerate(parts):
        last = place == len(parts) - 1
        if part == "**":
            regex += ".*" if last else "(?:.*/)?"
        else:
            regex += _part_to_regex(part) + ("" if last else "/")
    return f"(?:{regex})"


def _part_to_regex(part: str) -> str:
    """One component. Each `*` but the last takes the shortest that fits, for good: nothing is tried twice."""
    pieces = re.split(r"\*+", part)
    literals = [_literal(piece) for piece in pieces]
    if len(literals) == 1:
        return literals[0]
    middle = "".join(f"(?>[^/]*?{literal})" for literal in literals[1:-1])
    return f"{literals[0]}{middle}[^/]*{literals[-1]}"


def _literal(piece: str) -> str:
    regex, place = "", 0
    while place < len(piece):
        character = piece[place]
        close = piece.find("]", place + 2) if character == "[" else -1
        if close > 0:
            inner = piece[place + 1 : close]
            negated = inner[0] in "!^"
            body = re.sub(r"([\\\[\]&~|^])", r"\\\1", inner[1:] if negated else inner)
            regex += f"(?!/)[{'^' if negated else ''}{body}]"
            place = close
        else:
            regex += "[^/]" if character == "?" else re.escape(character)
        place += 1
    return regex

"""The value side of frontmatter: `key: value` lines to a condition and its patterns. Pure, and strict about conditions alone.

It reads what people write in such blocks, not all of YAML: plain and quoted texts, lists in brackets or lines, comments. A
plain value may begin with `*`, which YAML forbids and everybody writes.
"""

import re
from collections.abc import Iterator, Sequence

from agent.instructions.item import Flaw

CONDITIONS = ("when", "paths", "globs")
MOST_PATTERNS = 64
"""Of one section, after `{a,b}` was written out."""
KEY_LINE = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*)|[ \t]*)$")
_ENTRY = re.compile(r"\s*-(?:\s+(.*)|\s*)$")
_ITEM = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^']|'')*)'|((?:[^,{}"']|\{[^{}]*\})+))\s*(,|$)""")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


class FrontmatterError(Exception):
    """A block that is no good frontmatter; `flaw` names the line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.flaw = Flaw(line, f"{message}; this part is loaded without a condition")


def sets_condition(line: str) -> bool:
    """Whether a line is `key: value` with the key of a condition."""
    found = KEY_LINE.match(line)
    return found is not None and found[1] in CONDITIONS


def condition_of(lines: Sequence[str], first: int, end: int) -> tuple[str, tuple[str, ...]]:
    """The condition of the block in `lines[first:end]` as people read it, and its patterns. Flaws count lines from 1.

    Raises:
        FrontmatterError: a line is no `key: value`, or a condition's value is none.
    """
    shown: list[str] = []
    patterns: list[str] = []
    seen: set[str] = set()
    for key, at, values in _entries(lines, first, end):
        if key in seen:
            raise FrontmatterError(at + 1, f"`{key}` is set twice")
        seen.add(key)
        if key not in CONDITIONS:
            continue
        if key == "when" and values == ["always"]:
            continue
        if not values:
            raise FrontmatterError(at + 1, f"`{key}` names no pattern")
        if key == "when" and (bad := [value for value in values if not value.startswith("file:")]):
            raise FrontmatterError(at + 1, f"`when` must be `file:PATTERN`, not {bad[0]!r}")
        shown.append(f"{key}: {', '.join(values)}")
        for value in values:
            patterns += _written_out(value.removeprefix("file:") if key == "when" else value, at)
    if len(patterns) > MOST_PATTERNS:
        raise FrontmatterError(first, f"there are more than {MOST_PATTERNS} patterns")
    return "; ".join(shown), tuple(patterns)


def _entries(lines: Sequence[str], first: int, end: int) -> Iterator[tuple[str, int, list[str]]]:
    """Each key with its line (0-based) and, for a condition, its values."""
    at = first
    while at < end:
        line = lines[at]
        if not line.strip() or line.startswith("#"):
            at += 1
            continue
        found = KEY_LINE.match(line.rstrip())
        if found is None:
            raise FrontmatterError(at + 1, f"expected `key: value`, not {line.strip()[:40]!r}")
        following = _end_of_value(lines, at, end, found[2] or "")
        is_condition = found[1] in CONDITIONS
        yield found[1], at, _values(found[2] or "", lines[at + 1 : following], at) if is_condition else []
        at = following


def _end_of_value(lines: Sequence[str], at: int, end: int, first: str) -> int:
    """The line behind the last one that belongs to the key in line `at`."""
    if first.startswith("[") and not _uncommented(first).endswith("]"):
        for closing in range(at + 1, end):
            if _uncommented(lines[closing]).endswith("]"):
                return closing + 1
    following = at + 1
    while following < end:
        line = lines[following]
        if line.strip() and line[0] not in " \t#" and not _ENTRY.match(line):
            break
        following += 1
    return following


def _values(first: str, more: Sequence[str], at: int) -> list[str]:
    first = first.strip()
    rest = [(at + 1 + n, line) for n, line in enumerate(more) if line.strip() and not line.lstrip().startswith("#")]
    if first and not first.startswith(("[", "#")):
        if rest:
            raise FrontmatterError(
                rest[0][0] + 1, "a value goes on over several lines; use a list of `- PATTERN` lines"
            )
        return _list(first, at)
    if first.startswith("["):
        joined = " ".join((_uncommented(first), *(_uncommented(line.strip()) for _, line in rest)))
        if not joined.endswith("]"):
            raise FrontmatterError(at + 1, "the list has no closing `]`")
        return _list(joined[1:-1].strip().removesuffix(","), at)
    values: list[str] = []
    for place, line in rest:
        entry = _ENTRY.match(line)
        if entry is None or not entry[1]:
            raise FrontmatterError(place + 1, f"expected `- PATTERN`, not {line.strip()[:40]!r}")
        values.append(_scalar(entry[1].strip(), place))
    return values


def _list(text: str, at: int) -> list[str]:
    """Values with commas between them; a comma in quotes or braces belongs to its value."""
    values: list[str] = []
    place = 0
    text = _uncommented(text)
    while place < len(text):
        found = _ITEM.match(text, place)
        if found is None:
            raise FrontmatterError(
                at + 1, f"cannot read the value {text[place : place + 40]!r}; put each pattern in quotes"
            )
        values.append(_plain(found))
        place = found.end()
    return [value for value in values if value]


def _scalar(text: str, at: int) -> str:
    text = _uncommented(text)
    found = _ITEM.match(text)
    if text[:1] in ('"', "'"):
        if found is None or found.end() != len(text) or found[4]:
            raise FrontmatterError(at + 1, f"the quotes do not close: {text[:40]!r}")
        return _plain(found)
    return text


def _plain(found: re.Match[str]) -> str:
    double, single, bare = found[1], found[2], found[3]
    if double is not None:
        return re.sub(r"\\(.)", r"\1", double)
    return single.replace("''", "'") if single is not None else bare.strip()


def _uncommented(text: str) -> str:
    """Without a YAML comment at the end; a `#` in quotes, or right behind another character, is none."""
    quote = ""
    for place, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "#" and (place == 0 or text[place - 1] in " \t"):
            return text[:place].rstrip()
    return text.rstrip()


def _written_out(pattern: str, at: int) -> list[str]:
    """`{a,b}` as several patterns, since gitignore patterns know no braces.

    Raises:
        FrontmatterError: they would be too many.
    """
    done: list[str] = []
    todo = [pattern]
    while todo:
        found = _BRACES.search(first := todo.pop(0))
        if found is None:
            done.append(first)
            continue
        todo[:0] = [f"{first[: found.start()]}{part}{first[found.end() :]}" for part in found[1].split(",")]
        if len(todo) + len(done) > MOST_PATTERNS:
            raise FrontmatterError(at + 1, f"{pattern[:40]!r} stands for more than {MOST_PATTERNS} patterns")
    return done

"""Frontmatter: which part of an instruction file holds for which files. Pure; what a path is on disk is not known here.

A section begins with a block between two `---` lines. At the top of a file any block of `key: value` lines is one, further
down only a block that sets a condition, behind a blank line and outside code; every other `---` is a rule or a heading.
Conditions are `when: file:PATTERN`, `paths:` and `globs:`, each a text, a list `[a, b]` or lines `- a`; other keys belong to
others and are passed over. A block that is wrong is reported with its line, and its section holds without a condition.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from agent.instructions.frontmatter import KEY_LINE, FrontmatterError, condition_of, sets_condition
from agent.instructions.item import Flaw, InstructionItem
from agent.instructions.markdown import code_lines

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MOST_SECTIONS = 100
_MOST_BLOCK_LINES = 200
_MOST_CHARS = 100_000
"""Further down no section begins; what comes there belongs to the last one."""
_VARIABLE = re.compile(r"(?<![\\$])\$\{(\w+)\}")


class Section(Struct, frozen=True):
    """A part of an instruction file with one condition."""

    text: str
    """Without its frontmatter, and with its first line's indentation."""
    line: int = 1
    """Of `text` in the text that was split, 1-based."""
    condition: str = ""
    """As it is written, for people; empty: it always holds."""
    patterns: tuple[str, ...] = ()
    """As they are written, but `{a,b}` is written out and variables stand."""
    flaws: tuple[Flaw, ...] = ()


class _Block(Struct, frozen=True):
    """Frontmatter as lines: from the one after the opening mark up to the closing one, both 0-based."""

    first: int
    end: int


@lru_cache(64)
def split_sections(text: str) -> tuple[Section, ...]:
    """The sections in order. One without words is left out, unless something is wrong with it; no words, no sections."""
    lines = text.split("\n")
    blocks: list[_Block] = []
    flaws: list[Flaw] = []
    at = 0
    while len(blocks) < MOST_SECTIONS and (opening := _next_opening(lines, at, text)) is not None:
        try:
            end = _closing(lines, opening + 1)
        except FrontmatterError as error:
            flaws.append(error.flaw)
            break
        if end is not None:
            blocks.append(_Block(opening + 1, end))
        at = opening + 1 if end is None else end + 1
    starts = [0, *(block.end + 1 for block in blocks)]
    ends = [*(block.first - 1 for block in blocks), len(lines)]
    heads = [None, *blocks]
    sections = [_section(lines, head, start, end) for head, start, end in zip(heads, starts, ends, strict=True)]
    found = tuple(section for section in sections if section.text or section.flaws)
    if flaws and found:
        found = (*found[:-1], _with_flaws(found[-1], flaws))
    return found


def matches(item: InstructionItem, path: Path) -> bool:
    """Whether the item's condition holds for an absolute path. Without a condition it holds for every path."""
    if not item.patterns:
        return True
    base = Path(item.base)
    if not path.is_relative_to(base) or path == base:
        return False
    return bool(_spec(item.patterns).match_file(path.relative_to(base).as_posix()))


def matches_any(item: InstructionItem, names: Iterable[str]) -> Iterator[bool]:
    """For each path relative to the item's `base`, with slashes, whether its condition holds; for a look at many."""
    match = _spec(item.patterns).match_file
    return (bool(match(name)) for name in names)


def anchored(patterns: Sequence[str], base: Path, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Patterns as gitignore ones relative to `base`; an absolute path beneath it is understood."""
    return tuple(_anchored(replace_variables(pattern, variables), base) for pattern in patterns)


def replace_variables(text: str, variables: Mapping[str, str]) -> str:
    r"""`${name}` becomes its value. An unknown one stays, and so does `\${name}` or `$${name}`."""
    return _VARIABLE.sub(lambda found: variables.get(found[1], found[0]), text)


def unknown_variables(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """The names of `${name}` in a text that stand for nothing, each once."""
    return tuple(dict.fromkeys(name for name in _VARIABLE.findall(text) if name not in known))


@lru_cache(256)
def _spec(patterns: tuple[str, ...]) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec  # imported by those alone who have conditions

    usable = []
    for pattern in patterns:
        try:
            GitIgnoreSpec.from_lines([pattern])
        except ValueError:
            continue
        usable.append(pattern)
    return GitIgnoreSpec.from_lines(usable)


def _anchored(pattern: str, base: Path) -> str:
    sign = "!" if pattern.startswith("!") else ""
    body = pattern.removeprefix("!")
    if body.startswith("./"):
        body = body[1:]
    elif body.startswith(f"{base}/"):
        body = body[len(str(base)) :]
    return f"{sign}\\{body}" if body.startswith(("#", "!")) else sign + body


# --------------------------------------------------------------------------- blocks


def _next_opening(lines: list[str], start: int, text: str) -> int | None:
    for at in range(start, min(len(lines), text.count("\n", 0, _MOST_CHARS) + 1)):
        if lines[at].rstrip() != "---":
            continue
        following = lines[at + 1] if at + 1 < len(lines) else ""
        if at == 0 and (KEY_LINE.match(following) or following.startswith("#") or following.rstrip() == "---"):
            return at
        is_free = at == 0 or not lines[at - 1].strip() or lines[at - 1].rstrip() == "---"
        if is_free and sets_condition(following) and at not in code_lines(text[:_MOST_CHARS]):
            return at
    return None


def _closing(lines: list[str], first: int) -> int | None:
    """The line that ends a block; None: it is no frontmatter after all.

    Raises:
        FrontmatterError: it sets a condition and never ends.
    """
    for at in range(first, min(len(lines), first + _MOST_BLOCK_LINES)):
        if lines[at].rstrip() in ("---", "..."):
            return at
    for at in range(first, min(len(lines), first + _MOST_BLOCK_LINES)):
        if not lines[at].strip():
            break
        if sets_condition(lines[at]):
            raise FrontmatterError(first, "the frontmatter that begins here has no closing `---` line")
    return None


def _section(lines: list[str], head: _Block | None, start: int, end: int) -> Section:
    while start < end and not lines[start].strip():
        start += 1
    text = "\n".join(lines[start:end]).rstrip()
    if head is None:
        return Section(text, start + 1)
    try:
        condition, patterns = condition_of(lines, head.first, head.end)
    except FrontmatterError as error:
        return Section(text, start + 1, flaws=(error.flaw,))
    return Section(text, start + 1, condition, patterns)


def _with_flaws(section: Section, flaws: Sequence[Flaw]) -> Section:
    return Section(section.text, section.line, section.condition, section.patterns, (*section.flaws, *flaws))

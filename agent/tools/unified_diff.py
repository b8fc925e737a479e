"""The unified diff of two texts, without file headers, in bounded time and size."""

import difflib
from collections.abc import Iterator

from msgspec import Struct

from agent.encodings import split_lines
from agent.permissions.path_text import printable

_CONTEXT_LINES = 3
_MAX_COMPARED = 2_000_000  # lines times lines; beyond, the changed part is one block
_MAX_DIFF_CHARS = 256 * 1024
_MAX_LINE_CHARS = 2_000


class TextDiff(Struct, frozen=True):
    diff: str
    added: int
    """Lines."""
    removed: int


def diff_texts(before: str, after: str) -> TextDiff:
    """Lines are compared with their ends; the ends are not shown. No change: an empty diff."""
    old, new = _lines(before), _lines(after)
    groups = _groups(old, new)
    added = sum(j2 - j1 for group in groups for tag, _, _, j1, j2 in group if tag != "equal")
    removed = sum(i2 - i1 for group in groups for tag, i1, i2, _, _ in group if tag != "equal")
    shown: list[str] = []
    room = _MAX_DIFF_CHARS
    lines = _render(groups, old, new)
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            shown.append(f"… ({1 + sum(1 for _ in lines):,} more lines of the diff are not shown)")
            break
        shown.append(line)
    return TextDiff(printable("\n".join(shown)), added, removed)


_Opcode = tuple[str, int, int, int, int]


def _lines(text: str) -> list[str]:
    lines, ends = split_lines(text)
    whole = [line + end for line, end in zip(lines, ends, strict=False)]
    return [*whole, lines[-1]] if lines[-1] else whole


def _groups(old: list[str], new: list[str]) -> list[list[_Opcode]]:
    """Opcodes of `difflib`, grouped into hunks. What is equal at both ends is set aside first."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    if head == len(old) == len(new):
        return []
    before, after = max(0, head - _CONTEXT_LINES), min(tail, _CONTEXT_LINES)
    a, b = old[before : len(old) - tail + after], new[before : len(new) - tail + after]
    if len(a) * len(b) <= _MAX_COMPARED:
        # Lines that are often there (blank ones, braces) are no anchors: with them it could take half a minute.
        grouped = list(difflib.SequenceMatcher(None, a, b).get_grouped_opcodes(_CONTEXT_LINES))
    else:
        lead = head - before
        grouped = [
            [
                ("equal", 0, lead, 0, lead),
                ("replace", lead, len(a) - after, lead, len(b) - after),
                ("equal", len(a) - after, len(a), len(b) - after, len(b)),
            ]
        ]
    return [[(t, i1 + before, i2 + before, j1 + before, j2 + before) for t, i1, i2, j1, j2 in g] for g in grouped]


def _render(groups: list[list[_Opcode]], old: list[str], new: list[str]) -> Iterator[str]:
    for group in groups:
        _, i1, _, j1, _ = group[0]
        _, _, i2, _, j2 = group[-1]
        yield f"@@ -{_range(i1, i2)} +{_range(j1, j2)} @@"
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                yield from _marked(" ", old[a1:a2])
            else:
                yield from _marked("-", old[a1:a2])
                yield from _marked("+", new[b1:b2])


def _range(start: int, stop: int) -> str:
    length = stop - start
    return str(start + 1) if length == 1 else f"{start + 1 if length else start},{length}"


def _marked(sign: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        plain = line.rstrip("\r\n")
        cut = f"… (+{len(plain) - _MAX_LINE_CHARS:,} characters)" if len(plain) > _MAX_LINE_CHARS else ""
        yield f"{sign}{plain[:_MAX_LINE_CHARS]}{cut}"
        if plain == line:
            yield "\\ No newline at end of file"

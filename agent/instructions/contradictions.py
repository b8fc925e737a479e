"""Finds what two instruction texts cannot both mean: a directive with and without "never", and one key with two values.

It proves, it does not guess: only sentences that are the same but for the negation count, and only keys that have one value
in a file and stand under the same heading (the title of a document is no heading here) or under none. Texts with different
conditions are exceptions to each other, not contradictions. Pure.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

_MARKER = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_SENTENCE_END = re.compile(r"(?<=[.!;])\s+")
_NEGATION = re.compile(
    r"(?:please |always )*(?:you )?(?:never|(?:do|must|should|shall) ?(?:not|n['’]t)|(?:must|should) never|don['’]?t)\s+"
)
_EMPHASIS = re.compile(r"(?:please |always |you (?:must|should|shall) |must |should |do )+(?:always )?")
_SETTING = re.compile(r"([A-Za-z][\w ./-]{0,39}?)\s*(?::|=)\s+(\S.{0,60})")
_NO_KEYS = frozenset(
    {
        "note",
        "notes",
        "example",
        "examples",
        "warning",
        "important",
        "tip",
        "todo",
        "fixme",
        "see",
        "hint",
        "caution",
        "remember",
        "usage",
        "question",
        "answer",
        "reason",
        "because",
        "why",
        "how",
        "what",
        "when",
        "where",
        "who",
        "input",
        "output",
        "result",
        "given",
        "then",
        "step",
        "goal",
        "e.g",
        "i.e",
        "good",
        "bad",
        "right",
        "wrong",
        "yes",
        "no",
        "or",
        "and",
        "description",
        "summary",
        "context",
        "exception",
        "exceptions",
        "default",
        "http",
        "https",
    }
)
"""Words that stand before a colon and set nothing."""
_LEAST_WORDS = 2
_MOST_KEY_WORDS = 4
_MOST_PLACES = 64
"""Under so many headings one and the same directive or key is compared."""
_MOST_LINE_CHARS = 2_000
_MOST_PARAGRAPH_CHARS = 8_000
"""Longer lines and paragraphs are no directives, and would take long to look at."""


class SourceText(Struct, frozen=True):
    """One file's text as it is on disk, without what is no prose."""

    path: str
    lines: tuple[str, ...]
    """Line 1 first; code, comments and frontmatter are empty lines."""
    condition: str = ""


class Contradiction(Struct, frozen=True):
    path: str
    line: int
    said: str
    other_path: str
    """What stands before it in the order of the texts."""
    other_line: int
    other_said: str
    key: str = ""
    """Of a setting; empty for a directive."""


class _Statement(Struct, frozen=True):
    path: str
    line: int
    scope: str
    said: str
    core: str
    """The directive without its negation, or the key."""
    value: str
    """Of a setting; of a directive "yes" or "no"."""


def contradictions(texts: Sequence[SourceText]) -> Iterator[Contradiction]:
    """Each one once, at the later of its two places, in the order of the texts."""
    said: dict[tuple[str, str, bool], list[_Statement]] = {}
    for text in texts:
        for is_setting, statements in ((False, _directives(text)), (True, _settings(text))):
            for statement in statements:
                earlier = said.setdefault((text.condition, statement.core, is_setting), [])
                yield from _against(statement, earlier, is_setting)
                is_new = all((other.value, other.scope) != (statement.value, statement.scope) for other in earlier)
                if is_new and len(earlier) < _MOST_PLACES:
                    earlier.append(statement)


def _against(statement: _Statement, earlier: Sequence[_Statement], is_setting: bool) -> Iterator[Contradiction]:
    for other in earlier:
        differs = other.value != statement.value and _same_scope(other, statement)
        if differs and not (is_setting and other.path == statement.path):
            key = statement.core if is_setting else ""
            yield Contradiction(statement.path, statement.line, statement.said, other.path, other.line, other.said, key)
            return


def _same_scope(one: _Statement, other: _Statement) -> bool:
    return not one.scope or not other.scope or one.scope == other.scope


def _directives(text: SourceText) -> Iterator[_Statement]:
    for line, scope, paragraph in _paragraphs(text.lines):
        for sentence in _SENTENCE_END.split(paragraph):
            plain = _plain(sentence)
            negated = _NEGATION.match(plain)
            core = plain[negated.end() :] if negated else plain
            core = core[found.end() :] if (found := _EMPHASIS.match(core)) else core
            if len(core.split()) >= _LEAST_WORDS:
                yield _Statement(text.path, line, scope, sentence.strip(), core, "no" if negated else "yes")


def _settings(text: SourceText) -> list[_Statement]:
    """The settings that have one value in this text."""
    found: dict[str, list[_Statement]] = {}
    for line, scope, paragraph in _paragraphs(text.lines):
        match = _SETTING.fullmatch(re.sub(r"[*_`]", "", paragraph).strip())
        if match is None:
            continue
        key, value = match[1].strip().lower(), _plain(match[2])
        words = key.split()
        if len(words) <= _MOST_KEY_WORDS and not _NO_KEYS & set(words) and value:
            found.setdefault(key, []).append(_Statement(text.path, line, scope, paragraph.strip(), key, value))
    return [statements[0] for statements in found.values() if len({s.value for s in statements}) == 1]


def _paragraphs(lines: Iterable[str]) -> Iterator[tuple[int, str, str]]:
    """(line where it begins, heading it stands under, text) of each list item and paragraph, its lines joined."""
    headings: list[tuple[int, str]] = []
    begin, collected, chars = 0, list[str](), 0
    for number, line in enumerate((*lines, ""), 1):
        line = "" if len(line) > _MOST_LINE_CHARS else line
        heading, marker = _HEADING.match(line), _MARKER.match(line)
        is_quote = line.lstrip().startswith((">", "|"))
        if collected and (not line.strip() or heading or marker or is_quote or _SETTING.fullmatch(_bare(line))):
            yield begin, " > ".join(title for level, title in headings if level > 1), " ".join(collected)
            collected, chars = [], 0
        if heading:
            depth = len(heading[1])
            headings = [*((level, title) for level, title in headings if level < depth), (depth, _plain(heading[2]))]
        elif line.strip() and not is_quote and chars < _MOST_PARAGRAPH_CHARS:
            body = line[marker.end() :] if marker else line.strip()
            begin = begin if collected else number
            collected.append(body)
            chars += len(body)


def _bare(line: str) -> str:
    return re.sub(r"[*_`]", "", line).strip()


def _plain(sentence: str) -> str:
    """A sentence as it is compared: without emphasis, quotes of code, and what ends it."""
    return " ".join(re.sub(r"[*_`\"“”]", "", sentence).lower().split()).rstrip(".!;:, ")

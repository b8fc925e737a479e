"""How a message names files: `@path`, or `@"path"` as a JSON string where the path holds white space and the like.

Pure text: whether such a file exists is for who reads it to find out. An `@` inside a word (an address) names nothing.
"""

import json
import re
from collections.abc import Iterator

from msgspec import Struct

_OPENING = r"(?<![^\s(\[{<,;:='\"`])"
_QUOTED = r'"(?:[^"\\\n]|\\.)*"'
_MENTION = re.compile(rf"{_OPENING}@(?:(?P<quoted>{_QUOTED})|(?P<plain>[^\s\"@][^\s\"]*))")
_BEFORE_CURSOR = re.compile(rf"{_OPENING}@(?:(?P<quoted>\"(?:[^\"\\]|\\.)*)|(?P<plain>[^\s\"]*))\Z")
_REST_QUOTED = re.compile(r'(?:[^"\\]|\\.)*"')
_REST_PLAIN = re.compile(r"[^\s\"]*")
_NEEDS_QUOTES = re.compile(r"[\s\"'`\\]|[.,;:!?)\]}>]\Z|\A[@\"]")
_TRAILING = ".,;:!?)]}>'`"
_LINES = re.compile(r"(?P<path>.+?):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?\Z")


class MentionWord(Struct, frozen=True):
    """The mention that the cursor stands in or right behind. `start` and `end` are columns, the `@` included."""

    query: str
    """The path as far as it stands before the cursor."""
    start: int
    end: int


def find_mentions(text: str) -> tuple[str, ...]:
    """The paths as they are written, in order, each once. Nothing is cut off: see `readings`."""
    return tuple(dict.fromkeys(_paths(text)))


def _paths(text: str) -> Iterator[str]:
    if "@" not in text:
        return
    for match in _MENTION.finditer(text):
        if match["plain"] is not None:
            yield match["plain"]
        elif path := _unquoted(match["quoted"]):
            yield path


def mention(path: str) -> str:
    """A path as a mention that `find_mentions` gives back. Control characters are written out."""
    if path.isprintable() and not _NEEDS_QUOTES.search(path):
        return f"@{path}"
    quoted = json.dumps(path, ensure_ascii=False)
    return "@" + "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in quoted)


def readings(path: str) -> Iterator[tuple[str, tuple[int, int] | None]]:
    """What a written path may mean, the likeliest first: itself, without the punctuation of the sentence around it, and
    with `:FIRST-LAST` taken as lines (1-based, both included)."""
    seen = path
    while seen:
        yield seen, None
        if (match := _LINES.match(seen)) is not None:
            first = int(match["first"])
            yield match["path"], (first, int(match["last"] or first))
        if seen[-1] not in _TRAILING:
            return
        seen = seen[:-1]


def bare(path: str) -> str:
    """A written path without the punctuation of the sentence around it."""
    return path.rstrip(_TRAILING) or path


def leaves_project(path: str) -> bool:
    """Whether the path is written so that it may lead out of the current folder."""
    return path.startswith(("/", "~")) or ".." in path.split("/")


def word_at(line: str, column: int) -> MentionWord | None:
    """The mention at the cursor of one line, None if it is in none."""
    match = _BEFORE_CURSOR.search(line[:column])
    if match is None:
        return None
    if match["quoted"] is None:
        rest = _REST_PLAIN.match(line, column)
        return MentionWord(match["plain"], match.start(), rest.end() if rest else column)
    # Without a closing quote the rest of the line is text, and not part of the name.
    rest = _REST_QUOTED.match(line, column)
    query = _unquoted(match["quoted"] + '"') or match["quoted"][1:]
    return MentionWord(query, match.start(), rest.end() if rest else column)


def _unquoted(quoted: str) -> str:
    try:
        return str(json.loads(quoted, strict=False))
    except ValueError:
        return quoted[1:-1]

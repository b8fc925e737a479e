"""What counts as the path of an include: from an `@` in prose to the path behind it, or to nothing. Pure but for `Probe`.

Taken for a path (`file:` before it is passed over), when the `@` does not follow a character that an e-mail address or
another word could have before it:
- what stands in quotes or behind `@include`, and what follows bare up to white space, a quote or one of `<>|` (a backslash
  makes a space part of it), if it names a file that exists; but not a bare word in small letters, which is a tag as `@param`;
- what begins with `./`, `../`, `~/` or `${variable}/`;
- what ends like a document or data file (`.md`, `.txt`, `.json`, …), or, if it is relative, like any file in a folder that
  exists;
- whatever stands alone on its line behind `@include`; and a whole line, spaces and all, that names a file that exists.
So a missing file is reported, while `@scope/pkg`, `@app.route("/x")`, `@user@host` and `@/components/Button` are text.
Marks at the end (`.`, `)`, `。`, …) belong to the sentence, unless a file has them in its name. Patterns are not written
out: one that looks like a path is a fault.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Protocol

from msgspec import Struct

PATTERN_FAULT = "it is a pattern, and only single files can be included; name each file"
_DOCUMENTS = (
    "md|mdc|mdx|markdown|txt|rst|adoc|asciidoc|jsonc?|json5|jsonl|ya?ml|toml|ini|cfg|conf|csv|tsv|xml|html?|pdf"
)
_DOCUMENT = re.compile(rf"[^/]\.(?:{_DOCUMENTS})$", re.IGNORECASE)
_BEGINS_WITH_DOCUMENT = re.compile(rf"(.*?[^/]\.(?:{_DOCUMENTS}))(?![\w./]|-(?!-))", re.IGNORECASE | re.ASCII)
_ANY_SUFFIX = re.compile(r"[^/]\.[A-Za-z][A-Za-z0-9]{0,9}$")
_PREFIXES = ("./", "../", "~/")
_BEFORE = frozenset("([{\"'“‘«„,;*_>|—–~")
_BARE = re.compile(r"""(?:\\.|[^\s<>|"`\\]){1,1024}""")
_QUOTED = re.compile(r""""([^"]+)"|'([^']+)'""")
_KEYWORD = re.compile(r"include:?[ \t]+|file:(?!//)", re.IGNORECASE)
_ESCAPED = re.compile(r"\\(\W)")
_CLOSING = frozenset(".,;:!?)]}>'\"*_~…”’»–—")
_NOT_PLAIN = re.compile(r"""[()\[\]{}<>"'`|*?=,;:!@$&^]""")
_MARKERS = re.compile(r"[\s>*+\-\d.)]*")
_VARIABLE = re.compile(r"\A\$\{\w+\}/")
"""What a path begins with in place of a folder."""
_GLOB = re.compile(r"[*?\[{]")
_MOST_PROBES = 12


class Probe(Protocol):
    """Looks at the disk for a path as it is written, relative to the including file; reads nothing."""

    def is_file(self, written: str) -> bool: ...

    def is_folder(self, written: str) -> bool: ...


class Reference(Struct, frozen=True):
    """An include as it stands in a line."""

    written: str
    """From the `@` on, with quotes and backslashes."""
    target: str
    """The path, without them."""
    fault: str = ""
    """Why it cannot be followed, whatever is on disk."""


def reference_at(line: str, column: int, probe: Probe) -> Reference | None:
    """The include whose `@` stands at `column` of `line`, or None where it is none."""
    if column and not _may_precede(line[column - 1]):
        return None
    start = column + 1
    keyword = _KEYWORD.match(line, start)
    if keyword is not None:
        start = keyword.end()
    whole = line[start:].strip()
    is_first = _MARKERS.fullmatch(line, 0, column) is not None
    if (quoted := _QUOTED.match(line, start)) is not None:
        target = quoted[1] or quoted[2]
        found: Reference | None = Reference(line[column : quoted.end()], target)
        is_path = probe.is_file(target) or _looks_like_path(target, probe)
        return found if is_path or (keyword and is_first and whole == quoted[0]) else None
    if is_first and re.search(r"\s", whole) and probe.is_file(whole):
        return Reference(line[column:].rstrip(), whole)
    if (bare := _BARE.match(line, start)) is None:
        return None
    if (found := _bare(line[column:start], bare[0], probe, is_named=keyword is not None)) is not None:
        return found
    is_directive = keyword is not None and is_first and (whole == bare[0] or _DOCUMENT.search(whole))
    return Reference(line[column:].rstrip(), _unescaped(whole)) if is_directive else None


def _may_precede(char: str) -> bool:
    """Chinese and Japanese put no space before the `@`."""
    return char.isspace() or char in _BEFORE or unicodedata.east_asian_width(char) in "WF"


def _bare(lead: str, token: str, probe: Probe, *, is_named: bool) -> Reference | None:
    tried = list(dict.fromkeys(_readings(token)))
    for text in tried[:_MOST_PROBES]:
        target = _unescaped(text)
        is_word = target.isalpha() and target.islower() and not is_named
        if not is_word and probe.is_file(target):
            return Reference(lead + text, target)
    bare = token.rstrip("".join(_CLOSING - set("*}]")))
    if _is_pattern(_VARIABLE.sub("./", bare, count=1)):
        return Reference(lead + bare, _unescaped(bare), PATTERN_FAULT)
    for text in reversed(tried):
        target = _unescaped(text)
        if _looks_like_path(target, probe):
            return Reference(lead + text, target)
    return None


def _is_pattern(text: str) -> bool:
    return bool(_GLOB.search(text) and (text.startswith(_PREFIXES) or _DOCUMENT.search(text)) and "(" not in text)


def _readings(token: str) -> Iterator[str]:
    """The token, and what is left of it as marks at its end are taken for the sentence's, the longest first."""
    end = len(token)
    yield token
    while end and (token[end - 1] in _CLOSING or unicodedata.category(token[end - 1]).startswith("P")):
        if token[end - 1] in "/~" or token[end - 2 : end - 1] == "\\":
            break
        end -= 1
        if len(token) - end < _MOST_PROBES:
            yield token[:end]
    token = token[:end]
    yield token
    if (document := _BEGINS_WITH_DOCUMENT.match(token)) is not None:
        yield document[1]
    if (mark := _NOT_PLAIN.search(token)) is not None:
        yield token[: mark.start()].rstrip(".")


def _looks_like_path(target: str, probe: Probe) -> bool:
    if (plain := _VARIABLE.sub("./", target, count=1)) != target:
        return plain != "./" and not _NOT_PLAIN.search(plain)
    if _NOT_PLAIN.search(target) or "//" in target:
        return False
    if target.startswith(_PREFIXES):
        return not target.endswith(("./", "~/")) or probe.is_folder(target)
    if _DOCUMENT.search(target):
        return True
    folder, _, name = target.rpartition("/")
    if not folder or target.startswith("/"):
        return False
    if not name:
        return probe.is_folder(folder)
    return bool(_ANY_SUFFIX.search(name)) and probe.is_folder(folder)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)

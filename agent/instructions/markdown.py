"""Where in a Markdown text prose stands and where code, HTML comments and links do: positions, found by a Markdown parser.

It renders nothing and knows no file. HTML tags are taken for prose, so that what stands between two tags of a prompt's
author counts; the content of `<pre>`, `<code>`, `<script>`, `<style>` and `<textarea>` is code. A comment that is never
closed is text. Lines are 0-based here.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

_RAW_BLOCK = re.compile(r"<(?:(?:script|pre|style|textarea)(?=[\s>]|$)|\?|![A-Z]|!\[CDATA\[)", re.IGNORECASE)
_COMMENT = re.compile(r"<!---?>|<!--.*?-->", re.DOTALL)
_CODE_TAG = re.compile(r"<(/?)(?:code|pre|samp|kbd|script|style|textarea)\b", re.IGNORECASE)
MOST_AT_SIGNS = 500
"""Of one text that are looked for; one more is found where there are more."""
_MOST_BRACKETS = 4_000
"""Of one paragraph: looking for links takes too long in one that has more, and nothing in it counts."""
_CACHED_TEXTS = 64
"""Instruction files are looked at before every message, and seldom change."""


class Span(Struct, frozen=True):
    """Part of one line: columns from `start` to `end`, exclusive."""

    line: int
    start: int
    end: int


@lru_cache(_CACHED_TEXTS)
def at_signs(text: str) -> tuple[Span, ...]:
    """The first `@` in prose, in order: none in code, links, tags, or behind a backslash."""
    return tuple(islice(_inline_spans(text, "at"), MOST_AT_SIGNS + 1)) if "@" in text else ()


@lru_cache(_CACHED_TEXTS)
def comments(text: str) -> tuple[Span, ...]:
    """HTML comments outside code, in order, one span for each line of them that holds anything."""
    if "<!--" not in text:
        return ()
    lines = text.split("\n")
    found = list(_inline_spans(text, "comment"))
    for token in _blocks(text):
        if token.type == "html_block" and token.content.startswith("<!--") and token.map:
            parts = _Parts(token.content)
            for match in _COMMENT.finditer(token.content):
                found += _located(lines, token.map, parts, match.start(), match.end())
    return tuple(sorted(found, key=lambda span: (span.line, span.start)))


@lru_cache(_CACHED_TEXTS)
def code_lines(text: str) -> frozenset[int]:
    """The lines of fences, indented code and raw HTML."""
    blocks = (token.map for token in _blocks(text) if token.type in ("fence", "code_block", "html_block") and token.map)
    return frozenset(line for first, end in blocks for line in range(first, end))


def _inline_spans(text: str, kind: str) -> Iterator[Span]:
    parser, lines = _parser(), text.split("\n")
    env: dict[str, Any] = {}
    for token in _blocks(text, env):
        content = token.content
        if token.type != "inline" or not token.map or ("@" if kind == "at" else "<!--") not in content:
            continue
        if content.count("[") > _MOST_BRACKETS:
            continue
        env.update(length=len(content), last_end=content.rfind("-->"), at=[], comment=[], tags=(0, 0))
        parser.inline.parse(content, parser, env, [])
        parts = _Parts(content)
        for start, end in env[kind]:
            yield from _located(lines, token.map, parts, start, end)


def _blocks(text: str, env: dict[str, Any] | None = None) -> "list[Token]":
    return _parser().parse(text, {} if env is None else env)


class _Parts:
    """The lines of a token's content, which is cut up once, however many places in it are looked up."""

    def __init__(self, content: str) -> None:
        self.lines = content.split("\n")
        self._starts = list(accumulate((len(line) + 1 for line in self.lines), initial=0))

    def between(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """The lines of a range of characters: number, first and last column in each, exclusive."""
        for number in range(bisect_right(self._starts, start) - 1, len(self.lines)):
            if (begin := self._starts[number]) >= end:
                return
            yield number, max(start - begin, 0), min(end - begin, len(self.lines[number]))


def _located(lines: Sequence[str], where: Sequence[int], parts: _Parts, start: int, end: int) -> Iterator[Span]:
    """What stands in a token's lines, in the lines of the text; a token's lack markers and blanks at their ends."""
    for offset, first, last in parts.between(start, end):
        line = where[0] + offset
        if first < last and line < len(lines):
            column = _column(lines[line], parts.lines[offset])
            if column is not None:
                yield Span(line, column + first, column + last)


def _column(line: str, part: str) -> int | None:
    """Where `part` stands in `line`: at its end, but for white space and the closing marks of a heading."""
    bare = part.rstrip()
    if line.rstrip().endswith(bare):
        return len(line.rstrip()) - len(bare)
    found = line.find(bare)
    return found if found >= 0 else None


# --------------------------------------------------------------------------- the parser


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # a session without any `@` in its instructions does without it

    parser = MarkdownIt("commonmark").disable(["emphasis", "entity", "inline"])
    parser.block.ruler.at("html_block", _html_block, {"alt": ["paragraph", "reference", "blockquote"]})
    parser.block.ruler.at("reference", _reference)
    parser.inline.ruler.before("html_inline", "comment", _comment)
    parser.inline.ruler.before("html_inline", "at", _at)
    return parser


def _html_block(state: "StateBlock", start_line: int, end_line: int, silent: bool) -> bool:
    from markdown_it.rules_block import html_block

    begin, end = state.bMarks[start_line] + state.tShift[start_line], state.eMarks[start_line]
    line = state.src[begin:end]
    if "last_block_end" not in state.env:
        state.env["last_block_end"] = state.src.rfind("-->")
    is_long_comment = line.startswith("<!--") and "-->" not in line and state.env["last_block_end"] > end
    return (is_long_comment or _RAW_BLOCK.match(line) is not None) and html_block(state, start_line, end_line, silent)


def _reference(state: "StateBlock", start_line: int, end_line: int, silent: bool) -> bool:
    """The target of a link; a footnote is none, but prose."""
    from markdown_it.rules_block import reference

    begin = state.bMarks[start_line] + state.tShift[start_line]
    return not state.src.startswith("[^", begin) and reference(state, start_line, end_line, silent)


def _comment(state: "StateInline", silent: bool) -> bool:
    is_whole = len(state.src) == state.env["length"]
    if not is_whole or not state.src.startswith("<!--", state.pos) or state.env["last_end"] < state.pos + 2:
        return False
    if (match := _COMMENT.match(state.src, state.pos)) is None:
        return False
    if not silent:
        state.env["comment"].append(match.span())
    state.pos = match.end()
    return True


def _at(state: "StateInline", silent: bool) -> bool:
    """Takes note of the place and leaves the character to the other rules."""
    is_whole = len(state.src) == state.env["length"]  # not the label of an image, which is parsed on its own
    if state.src[state.pos] != "@" or silent or not is_whole or len(state.env["at"]) > MOST_AT_SIGNS:
        return False
    if not state.linkLevel and not _in_code_tag(state):
        state.env["at"].append((state.pos, state.pos + 1))
    return False


def _in_code_tag(state: "StateInline") -> bool:
    seen, depth = state.env["tags"]
    for token in state.tokens[seen:]:
        if token.type == "html_inline" and (tag := _CODE_TAG.match(token.content)):
            depth = max(0, depth - 1) if tag[1] else depth + 1
    state.env["tags"] = (len(state.tokens), depth)
    return bool(depth > 0)

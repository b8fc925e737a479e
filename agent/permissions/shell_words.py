"""Splits a command line into commands and words, as bash would for ordinary text, and marks what it cannot know the value of.

Every list, pipe, subshell, group, substitution and back-tick gives commands of its own, in no particular order.
"""

import re

from msgspec import Struct

_NO_PATTERN = re.compile(r"[{}]+|\[\[?")
"""Words that look like patterns and are none: `{`, the `{}` of find, the test commands."""


class Word(Struct, frozen=True):
    text: str
    """Without quotes; an expansion stands as it was written, a substitution as `$()`."""
    expands: bool = False
    """Holds an expansion or substitution."""
    splits: bool = False
    """… that is not quoted, so that it may become nothing or several words."""
    globs: bool = False
    """Holds an unquoted pattern or brace."""


class Parsed(Struct, frozen=True):
    commands: tuple[tuple[Word, ...], ...]
    targets: tuple[Word, ...]
    broken: bool


class _Open:
    """The command that is being read, at one level of nesting."""

    def __init__(self, closer: str) -> None:
        self.closer = closer
        """What ends this level: `)` or a back-tick; empty at the top."""
        self.is_value = False
        """Its output becomes part of a word one level up."""
        self.words: list[Word] = []
        self.parts: list[str] = []
        self.in_word = False
        self.expands = self.splits = self.globs = False
        self.in_quotes = False
        self.target_next = False


def split(text: str) -> Parsed:
    return _Splitter(text).split()


class _Splitter:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.levels = [_Open("")]
        self.commands: list[tuple[Word, ...]] = []
        self.targets: list[Word] = []
        self.broken = False

    @property
    def top(self) -> _Open:
        return self.levels[-1]

    def split(self) -> Parsed:
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if self.top.in_quotes:
                self._quoted(char)
            else:
                self._plain(char)
        self.broken = self.broken or len(self.levels) > 1 or self.top.in_quotes
        while self.levels:
            self._end_command()
            self.levels.pop()
        return Parsed(tuple(self.commands), tuple(self.targets), self.broken)

    # ------------------------------------------------------------------ characters

    def _quoted(self, char: str) -> None:
        if char == '"':
            self.top.in_quotes = False
        elif char == "\\" and self._next() in tuple('$`"\\\n'):
            self._escaped()
        else:
            self._special_or_literal(char)

    def _plain(self, char: str) -> None:
        match char:
            case " " | "\t":
                self._end_word()
            case "\n" | ";" | "|":
                self._end_command()
            case "&":
                self._end_command() if self._next() != ">" else self._end_word()
            case "'":
                self._single_quotes()
            case '"':
                self.top.in_quotes = self.top.in_word = True
            case "\\":
                self._escaped()
            case "(":
                self._end_command()
                self._open(")", is_value=False)
            case "<" | ">":
                self._redirection()
            case "#" if not self.top.in_word:
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            case "*" | "?" | "[" | "{":
                self.top.globs = True
                self._literal(char)
            case _:
                self._special_or_literal(char)

    def _special_or_literal(self, char: str) -> None:
        if char == "$":
            self._dollar()
        elif char == "`":
            if self.top.closer == "`":
                self._close()
            else:
                self._open("`", is_value=True)
        elif char == ")" and not self.top.in_quotes:
            self._end_command()
            if self.top.closer == ")":
                self._close()
        else:
            self._literal(char)

    def _dollar(self) -> None:
        following = self._next()
        if following == "(":
            self._take()
            self._open(")", is_value=True)
        elif following == "'" and not self.top.in_quotes:
            self._take()
            self._mark_expansion()
            self._ansi_quotes()
        elif following and (following.isalnum() or following in "_{@*#?$!-"):
            self._mark_expansion()
            self._literal("$")
        elif following == '"' and not self.top.in_quotes:
            pass
        else:
            self._literal("$")

    def _escaped(self) -> None:
        if (escaped := self._take()) != "\n":
            self._literal(escaped)

    def _single_quotes(self) -> None:
        end = self.text.find("'", self.at)
        if end < 0:
            self.broken = True
            end = len(self.text)
        self._literal(self.text[self.at : end])
        self.at = end + 1

    def _ansi_quotes(self) -> None:
        while (char := self._take()) and char != "'":
            self._literal(self._take() if char == "\\" else char)
        self.broken = self.broken or not char

    def _redirection(self) -> None:
        if not "".join(self.top.parts).isdigit():
            self._end_word()
        else:
            self._forget_word()
        if self._next() == "(":
            self._take()
            self._open(")", is_value=True)
            return
        while self._next() and self._next() in "<>&|":
            self._take()
        self.top.target_next = True

    # ------------------------------------------------------------------ words and levels

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self) -> str:
        char = self._next()
        self.at += 1
        return char

    def _literal(self, text: str) -> None:
        self.top.parts.append(text)
        self.top.in_word = True

    def _mark_expansion(self) -> None:
        self.top.expands = self.top.in_word = True
        self.top.splits = self.top.splits or not self.top.in_quotes

    def _end_word(self) -> None:
        top = self.top
        if top.in_word:
            text = "".join(top.parts)
            globs = top.globs and not _NO_PATTERN.fullmatch(text)
            word = Word(text, top.expands, top.splits, globs)
            (self.targets if top.target_next else top.words).append(word)
            top.target_next = False
        self._forget_word()

    def _forget_word(self) -> None:
        top = self.top
        top.parts = []
        top.in_word = top.expands = top.splits = top.globs = False

    def _end_command(self) -> None:
        self._end_word()
        if self.top.words:
            self.commands.append(tuple(self.top.words))
            self.top.words = []
        self.top.target_next = False

    def _open(self, closer: str, *, is_value: bool) -> None:
        level = _Open(closer)
        level.is_value = is_value
        self.levels.append(level)

    def _close(self) -> None:
        self._end_command()
        closed = self.levels.pop()
        if closed.is_value:
            self._mark_expansion()
            self._literal("$()")

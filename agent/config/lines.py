"""Which line of a TOML text a key stands on; the standard parser does not say.

The scanner takes any text, stops quietly where it no longer understands it, and runs in time linear in its length. It
does not validate: that is the parser's work.
"""

import contextlib
import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator

from agent.config.key_paths import KeyPath

MAX_PARTS = 32
MAX_DEPTH = 64

_BLANK = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_SPACE = re.compile(r"[ \t]*+")
_BARE = re.compile(r"[A-Za-z0-9_-]++")
_BASIC = re.compile(r'"(?:[^"\\\n]++|\\.)*+"')
_LITERAL = re.compile(r"'[^'\n]*+'")
# Python before 3.11.4 gets possessive repetition around a look-ahead wrong, so the ends of long strings are searched for.
_LONG_BASIC_STOP = re.compile(r'\\.|"{3,5}', re.DOTALL)
_LONG_LITERAL_STOP = re.compile(r"'{3,5}")
_SCALAR = re.compile(r"[^,\]}\n#]*+")
_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
# The parser's work on one dotted key grows with the square of its parts, so a longer key is refused unparsed.
_TOO_MANY_PARTS = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_PART}[ \t]*+\.[ \t]*+){{{MAX_PARTS}}}")


class _LostError(Exception):
    """The text is not what the scanner expects here."""


def over_dotted_line(text: str) -> int | None:
    """The 1-based line of the first key with more than `MAX_PARTS` parts, or None."""
    found = _TOO_MANY_PARTS.search(text)
    return None if found is None else text.count("\n", 0, found.start()) + 1


def key_lines(text: str) -> dict[KeyPath, int]:
    """The 1-based line on which each key, table and array item stands first, as far as the text can be understood."""
    scanner = _Scanner(text)
    with contextlib.suppress(_LostError):
        scanner.document()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[KeyPath, int] = {}
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._tables: dict[KeyPath, int] = {}  # how often each array of tables was opened

    def document(self) -> None:
        prefix: KeyPath = ()
        while self._skip(_BLANK) < len(self.text):
            if self.text.startswith("[", self.at):
                prefix = self._header()
            else:
                self._pair(prefix, 0)

    def _header(self) -> KeyPath:
        line = self._line()
        is_array = self.text.startswith("[[", self.at)
        self.at += 2 if is_array else 1
        path = self._key()
        self._expect("]]" if is_array else "]")
        resolved = self._resolve(path)
        self._note(resolved, line)
        if not is_array:
            return resolved
        index = self._tables.get(resolved, 0)
        self._tables[resolved] = index + 1
        self._note((*resolved, str(index)), line)
        return (*resolved, str(index))

    def _resolve(self, path: KeyPath) -> KeyPath:
        """A header below an array of tables means that array's newest table."""
        resolved: KeyPath = ()
        for part in path[:-1]:
            resolved = (*resolved, part)
            if (count := self._tables.get(resolved)) is not None:
                resolved = (*resolved, str(count - 1))
        return (*resolved, path[-1])

    def _pair(self, prefix: KeyPath, depth: int) -> None:
        line = self._line()
        path = self._key()
        for length in range(1, len(path) + 1):
            self._note((*prefix, *path[:length]), line)
        self._expect("=")
        self._value((*prefix, *path), depth)

    def _value(self, path: KeyPath, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise _LostError
        self._skip(_SPACE)
        opening = self.text[self.at : self.at + 1]
        if opening == "[":
            for index in self._items("]"):
                self._note((*path, str(index)), self._line())
                self._value((*path, str(index)), depth + 1)
        elif opening == "{":
            for _ in self._items("}"):
                self._pair(path, depth + 1)
        elif opening in ('"', "'"):
            self._string(opening)
        else:
            self._skip(_SCALAR)

    def _items(self, closing: str) -> Iterator[int]:
        """Stands at the start of each item in turn; the caller takes the item."""
        self.at += 1
        index = 0
        while True:
            self._skip(_BLANK)
            if self.text.startswith(closing, self.at):
                self.at += 1
                return
            if index:
                self._expect(",")
                self._skip(_BLANK)
                if self.text.startswith(closing, self.at):
                    self.at += 1
                    return
            yield index
            index += 1

    def _string(self, quote: str) -> str:
        if self.text.startswith(quote * 3, self.at):
            return self._long_string(_LONG_BASIC_STOP if quote == '"' else _LONG_LITERAL_STOP)
        found = (_BASIC if quote == '"' else _LITERAL).match(self.text, self.at)
        if found is None:
            raise _LostError
        self.at = found.end()
        return found.group()

    def _long_string(self, stop: re.Pattern[str]) -> str:
        start, place = self.at, self.at + 3
        while (found := stop.search(self.text, place)) is not None:
            place = found.end()
            if not found.group().startswith("\\"):
                self.at = place
                return self.text[start:place]
        raise _LostError

    def _key(self) -> KeyPath:
        parts: list[str] = []
        while len(parts) <= MAX_PARTS:
            self._skip(_SPACE)
            opening = self.text[self.at : self.at + 1]
            if opening in ('"', "'") and opening:
                parts.append(_unquoted(self._string(opening)))
            elif (found := _BARE.match(self.text, self.at)) is not None:
                self.at = found.end()
                parts.append(found.group())
            else:
                raise _LostError
            self._skip(_SPACE)
            if not self.text.startswith(".", self.at):
                return tuple(parts)
            self.at += 1
        raise _LostError

    def _expect(self, token: str) -> None:
        self._skip(_SPACE)
        if not self.text.startswith(token, self.at):
            raise _LostError
        self.at += len(token)

    def _skip(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self.text, self.at)
        self.at = self.at if found is None else found.end()
        return self.at

    def _line(self) -> int:
        return bisect_right(self._newlines, self.at - 1) + 1

    def _note(self, path: KeyPath, line: int) -> None:
        self.lines.setdefault(path, line)


def _unquoted(token: str) -> str:
    if "\\" not in token:
        return token[1:-1]
    try:
        return str(tomllib.loads(f"k = {token}")["k"])
    except tomllib.TOMLDecodeError:
        raise _LostError from None

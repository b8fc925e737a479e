"""The words that bash makes of braces before it looks at anything else: `{a,b}c` is the two words `ac` and `bc`."""

import re
from collections.abc import Iterator

import msgspec

from agent.permissions.shell_words import Word

_MAX_WORDS = 256
_BRACES = re.compile(r"(?<!\$)\{([^{}]*)\}")
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])")


def has_braces(words: tuple[Word, ...]) -> bool:
    return any(word.globs and _first_braces(word.text) for word in words)


def without_braces(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words that they become, in their order. Of numbers from … to only the ends.

    A word that becomes more than any command needs stands as an expansion, which may be anything.
    """
    return tuple(each for word in words for each in (_spelled(word) if word.globs else (word,)))


def _spelled(word: Word) -> Iterator[Word]:
    pending = [word.text]
    made: list[str] = []
    while pending:
        if len(pending) + len(made) > _MAX_WORDS:
            yield msgspec.structs.replace(word, expands=True, splits=True)
            return
        text = pending.pop()
        if (braces := _first_braces(text)) is None:
            made.append(text)
        else:
            pending += [text[: braces.start()] + each + text[braces.end() :] for each in reversed(_choices(braces[1]))]
    yield from (msgspec.structs.replace(word, text=text) for text in made)


def _first_braces(text: str) -> re.Match[str] | None:
    """The first that hold no others and are no plain text, as `{}` and `{x}` are."""
    return next((found for found in _BRACES.finditer(text) if "," in found[1] or ".." in found[1]), None)


def _choices(inner: str) -> list[str]:
    if "," in inner:
        return inner.split(",")
    if letters := _LETTERS.match(inner):
        first, last = sorted(map(ord, letters.groups()))
        return [chr(code) for code in range(first, last + 1)]
    return inner.split("..")[:2]

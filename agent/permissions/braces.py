"""The words that bash makes of braces before it looks at anything else: `{a,b}c` is the two words `ac` and `bc`."""

import re
from collections.abc import Iterator

import msgspec

from agent.permissions.shell_words import Word

_MAX_WORDS = 256
_MAX_ALL_WORDS = 4_096
_MAX_DEPTH = 20
_INNERMOST = re.compile(r"\$?\{([^{}]*)\}")
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])")
_HIDDEN = str.maketrans("{}", "\ue000\ue001")
_SHOWN = str.maketrans("\ue000\ue001", "{}")
"""Braces that make no words, while others around them do."""


def without_braces(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words that they become, in their order. Of numbers from … to only the ends.

    A word that becomes more than any command needs stands as an expansion, which may be anything.
    """
    if not any(word.globs and "{" in word.text for word in words):
        return words
    made: list[Word] = []
    room = _MAX_ALL_WORDS
    for word in words:
        if not word.globs or "{" not in word.text:
            made.append(word)
            continue
        spelled = list(_spelled(word, min(room, _MAX_WORDS)))
        room -= len(spelled)
        made += spelled
    return tuple(made)


def _spelled(word: Word, room: int) -> Iterator[Word]:
    pending = [word.text]
    made: list[str] = []
    while pending:
        text = _without_plain(pending.pop())
        if text is None or len(pending) + len(made) >= room:
            yield msgspec.structs.replace(word, expands=True, splits=True)
            return
        if (braces := _INNERMOST.search(text)) is None:
            made.append(text.translate(_SHOWN))
        else:
            pending += [text[: braces.start()] + each + text[braces.end() :] for each in reversed(_choices(braces[1]))]
    yield from (msgspec.structs.replace(word, text=text) for text in made)


def _without_plain(text: str) -> str | None:
    """The text with all braces hidden that are plain text (`{}`, `{x}`) or a variable's; None: nested too deeply."""
    for _ in range(_MAX_DEPTH):
        hidden = _INNERMOST.sub(_hide, text)
        if hidden == text:
            return text
        text = hidden
    return None


def _hide(found: re.Match[str]) -> str:
    is_list = not found[0].startswith("$") and ("," in found[1] or ".." in found[1])
    return found[0] if is_list else found[0].translate(_HIDDEN)


def _choices(inner: str) -> list[str]:
    if "," in inner:
        return inner.split(",")
    if letters := _LETTERS.match(inner):
        first, last = sorted(map(ord, letters.groups()))
        return [chr(code) for code in range(first, last + 1)]
    return inner.split("..")[:2]

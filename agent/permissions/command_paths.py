"""Which paths a command line names, for rules about files.

A wide net and no boundary: words are taken as they stand, so a path that is put together while the command runs, or that
stands in a script, is not seen.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from agent.permissions.shell import Scan
from agent.permissions.shell_words import Word

_MAX_WORDS = 2_000
_READERS_TEXT = "cat head tail wc nl ls stat file grep rg diff cmp cut echo printf test [ cd"
_READERS = frozenset(_READERS_TEXT.split())
"""Programs that change no file that is named to them."""


class CommandPaths(Struct, frozen=True):
    """Real absolute paths; of a pattern the folder in front of it."""

    named: frozenset[Path]
    may_change: frozenset[Path]
    """Without those that only programs get which change nothing."""


def command_paths(scan: Scan, cwd: Path, home: Path) -> CommandPaths:
    """Relative words are taken from `cwd` and from every folder that the command changes to."""
    folders = [cwd]
    for argv in scan.argvs:
        if argv.name in ("cd", "pushd"):
            folders += [path for word in argv.arguments for path in _paths(word, [cwd], home)]
    changed, read = list(scan.targets), list[Word]()
    # Of a command behind wrappers the first place where it may start has all its words.
    for argv in {id(argv.words): argv for argv in reversed(scan.argvs)}.values():
        (read if argv.name in _READERS else changed).extend(argv.arguments)
    may_change = frozenset(_all_paths(changed, folders, home))
    return CommandPaths(may_change | frozenset(_all_paths(read, folders, home)), may_change)


def _all_paths(words: list[Word], folders: list[Path], home: Path) -> Iterator[Path]:
    for word in list(dict.fromkeys(words))[:_MAX_WORDS]:
        yield from _paths(word, folders, home)


def _paths(word: Word, folders: list[Path], home: Path) -> Iterator[Path]:
    """What the word, or the part behind its first `=` (`of=x`, `--file=x`), may mean."""
    for text in {word.text, word.text.partition("=")[2]}:
        if word.globs:
            text = text[: next((at for at, char in enumerate(text) if char in "*?[{"), len(text))].rpartition("/")[0]
        if not text or "\0" in text or len(text) > 4096:
            continue
        if text == "~" or text.startswith("~/"):
            text = f"{home}{text[1:]}"
        for folder in folders:
            yield Path(os.path.realpath(folder / text))

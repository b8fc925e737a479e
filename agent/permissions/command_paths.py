"""Which paths a command line names, for rules about files, and where its relative paths start.

A wide net and no boundary: words are taken as they stand, so a path that is put together while the command runs, or that
stands in a script, is not seen.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from agent.permissions.shell import Scan
from agent.permissions.shell_words import Word
from agent.permissions.wildcards import Wildcards

_MAX_WORDS = 2_000
_MAX_FOLDERS = 8
_MAX_PATH_CHARS = 4_096
_MAX_NAMES = 5_000
_READERS_TEXT = "cat head tail wc nl ls stat file grep rg diff cmp cut echo printf test [ cd"
_READERS = frozenset(_READERS_TEXT.split())
"""Programs that change no file that is named to them."""


class CommandPaths(Struct, frozen=True):
    """Real absolute paths; a pattern stands as it is and as what it matches now."""

    named: frozenset[Path]
    may_change: frozenset[Path]
    """Without those that only programs get which change nothing."""


class Folders(Struct, frozen=True):
    """Where relative paths of a command may start."""

    known: tuple[Path, ...]
    anywhere: bool
    """It may also be a place that cannot be told."""


def command_folders(scan: Scan, cwd: Path, home: Path) -> Folders:
    """The current directory and whatever the command changes to, each with and without its links followed."""
    known = {cwd: True}
    anywhere = False
    for argv in scan.argvs:
        if argv.name not in ("cd", "pushd"):
            continue
        targets = [word for word in argv.arguments if not word.text.startswith("-")]
        if any(word.expands or word.globs for word in targets) or len(targets) < len(argv.arguments):
            anywhere = True
        elif not targets:
            known[home] = True
        else:
            known |= dict.fromkeys(resolved(targets[0].text, tuple(known), home), True)
        if len(known) > _MAX_FOLDERS:
            # Each change could start from each folder so far.
            return Folders(tuple(known)[:_MAX_FOLDERS], True)
    return Folders(tuple(known), anywhere)


def resolved(text: str, folders: Iterable[Path], home: Path) -> list[Path]:
    """What a path means in each of the folders, with and without its links followed."""
    if text == "~" or text.startswith("~/"):
        text = f"{home}{text[1:]}"
    found: list[Path] = []
    for folder in folders:
        full = os.path.normpath(os.path.join(folder, text))  # noqa: PTH118 - normpath has no sibling in pathlib
        found += [Path(full), Path(os.path.realpath(full))]
    return found


def command_paths(scan: Scan, cwd: Path, home: Path) -> CommandPaths:
    folders = command_folders(scan, cwd, home).known
    changed, read = list(scan.targets), list[Word]()
    # Of a command behind wrappers the first place where it may start has all its words.
    for argv in {id(argv.words): argv for argv in reversed(scan.argvs)}.values():
        (read if argv.name in _READERS else changed).extend(argv.arguments)
    wildcards = Wildcards(_MAX_NAMES)
    may_change = frozenset(_all_paths(changed, folders, home, wildcards))
    return CommandPaths(may_change | frozenset(_all_paths(read, folders, home, wildcards)), may_change)


def _all_paths(words: list[Word], folders: tuple[Path, ...], home: Path, wildcards: Wildcards) -> Iterator[Path]:
    for word in list(dict.fromkeys(words))[:_MAX_WORDS]:
        for text in _texts(word):
            paths = resolved(text, folders, home)
            yield from paths
            if word.globs:
                for path in dict.fromkeys(paths):
                    yield from wildcards.matches(path)


def _texts(word: Word) -> Iterator[str]:
    """The word, and the part behind its first `=` (`of=x`, `--file=x`)."""
    for text in {word.text, word.text.partition("=")[2]}:
        if text and "\0" not in text and len(text) <= _MAX_PATH_CHARS:
            yield text

"""Commands that can destroy what nobody can bring back: they are asked about in every mode, whatever a rule allows.

Recursive removal, `chmod -R` and the like of `/`, the home directory, the workspace, the directory claw runs in, any folder
above them, mount points and folders directly under `/`; writing to devices; git commands that drop work or rewrite or
overwrite history; switching the machine off. An expansion counts as whatever is worst. This decides asking; it is no
boundary: a program can do the same from within.
"""

import os
import re
from pathlib import Path

from msgspec import Struct

from agent.permissions.command_paths import command_folders, resolved
from agent.permissions.git_danger import git_danger
from agent.permissions.shell import Argv, Scan
from agent.permissions.shell_words import Word

_DEVICE_TOOLS_TEXT = """
mke2fs mkswap wipefs fdisk sfdisk cfdisk gdisk sgdisk parted blkdiscard cryptsetup lvremove vgremove pvremove zpool hdparm
badblocks flashrom
"""
_DEVICE_TOOLS = frozenset(_DEVICE_TOOLS_TEXT.split())
_POWER = frozenset(("shutdown", "reboot", "poweroff", "halt", "init", "telinit"))
_SAFE_DEVICES = (
    "/dev/null",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/stdin",
    "/dev/tty",
    "/dev/zero",
    "/dev/full",
    "/dev/fd/",
)
_WRITERS = frozenset(("tee", "cp", "mv", "shred", "truncate", "install", "dd"))
_FIND_FILTERS = (
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-regex",
    "-iregex",
    "-samefile",
    "-inum",
    "-empty",
)
_JUDGED = (
    _DEVICE_TOOLS
    | _POWER
    | _WRITERS
    | frozenset(("git", "kill", "crontab", "rm", "chmod", "chown", "chgrp", "setfacl", "find"))
)
_MAX_JUDGED = 500
_MAX_OPERANDS = 1_000
_DANGEROUS = frozenset(("rm", "dd", "shred", "wipefs", "mkfs", "blkdiscard"))
_FORK_BOMB = re.compile(r"(\S+)\s*\(\s*\)\s*\{[^}]*\|\s*\1[^}]*&")
_WILD = re.compile(r"[*?\[{]")
_EVERYTHING = re.compile(r"([*?.{}]|\[[^]]*\])*")
"""A pattern without a letter of its own."""


class Places(Struct, frozen=True):
    """Real absolute paths."""

    root: Path
    cwd: Path
    home: Path


def catastrophe(command: str, scan: Scan, places: Places) -> str:
    """What terrible thing the command could do, or an empty text."""
    if _FORK_BOMB.search(command):
        return "it starts processes without end"
    judge = _Judge(scan, places)
    # Behind a wrapper every word may be the program, so few are worth a look at all their arguments.
    judged = [argv for argv in scan.argvs if argv.name in _JUDGED or argv.name.startswith("mkfs")]
    if len(judged) > _MAX_JUDGED:
        return "it has too many commands to judge"
    for argv in judged:
        if reason := judge.reason(argv):
            return reason
    if any(_is_device(word.text) for word in scan.targets):
        return "it writes to a device"
    if scan.uncertain and (named := sorted(_DANGEROUS & scan.mentioned)):
        return f"{scan.uncertain}, and it mentions {named[0]}"
    return ""


class _Judge:
    def __init__(self, scan: Scan, places: Places) -> None:
        self.places = places
        self.folders = command_folders(scan, places.cwd, places.home)

    def reason(self, argv: Argv) -> str:
        name = argv.name
        if name == "git":
            return git_danger(argv.arguments)
        if name in _DEVICE_TOOLS or name.startswith("mkfs"):
            return f"{name} can destroy a disk"
        if name in _POWER:
            return f"{name} stops the machine"
        if name in _WRITERS and any(_is_device(word.text.removeprefix("of=")) for word in argv.arguments):
            return f"{name} writes to a device"
        if name == "kill" and argv.arguments and argv.arguments[-1].text == "-1":
            return "it ends every process of the user"
        if name == "crontab" and any(word.text == "-r" for word in argv.arguments):
            return "it removes all scheduled jobs"
        return self._on_files(name, argv.arguments)

    def _on_files(self, name: str, arguments: tuple[Word, ...]) -> str:
        options = [word.text for word in arguments if word.text.startswith("-")]
        operands = [word for word in arguments if not word.text.startswith("-")]
        if len(operands) > _MAX_OPERANDS:
            return f"{name} gets too many paths to judge"
        recursive = any(re.match(r"-\w*[rR]|--r", text) for text in options)
        match name:
            case "rm":
                if "--no-preserve-root" in options:
                    return "rm may remove /"
                if recursive and not operands:
                    return "rm -r removes what another command names"
                if recursive and any(self._is_precious(word) for word in operands):
                    return "rm -r could remove far too much"
                if any(word.splits and word.text.startswith("$") for word in operands):
                    return "rm gets an unquoted expansion, which could be anything"
            case "chmod" | "chown" | "chgrp" | "setfacl":
                if recursive and any(self._is_precious(word) for word in operands[1:] or operands):
                    return f"{name} -R could change far too much"
            case "mv":
                if any(self._is_precious(word) for word in operands[:-1]):
                    return "mv could move far too much"
            case "find":
                return self._on_find(arguments)
        return ""

    def _on_find(self, arguments: tuple[Word, ...]) -> str:
        texts = [word.text for word in arguments]
        if "-delete" not in texts or any(text in _FIND_FILTERS for text in texts):
            return ""
        starts: list[Word] = []
        for word in arguments:
            if word.text.startswith("-") or word.text in ("(", "!"):
                break
            starts.append(word)
        if not starts or any(self._is_precious(word) for word in starts):
            return "find -delete could remove far too much"
        return ""

    def _is_precious(self, word: Word) -> bool:
        if word.expands or word.text == "{}":
            return True
        text = word.text
        if word.globs:
            if "{" in text and re.search(r"[/~]|\.\.", text):
                return True
            names = text.rstrip("/").split("/")
            first = next((index for index, name in enumerate(names) if _WILD.search(name)), len(names))
            if not all(_EVERYTHING.fullmatch(name) for name in names[first:]):
                return False
            text = "/".join(names[:first]) or ("/" if text.startswith("/") else ".")
        if text.startswith("~") and text[1:2] not in ("", "/"):
            return True
        relative = not text.startswith(("/", "~"))
        if relative and self.folders.anywhere:
            return True
        paths = resolved(text, self.folders.known, self.places.home)
        return any(self._is_protected(path) for path in paths)

    def _is_protected(self, path: Path) -> bool:
        if len(path.parts) <= 2:
            return True
        for place in (self.places.root, self.places.cwd, self.places.home):
            if path == place or path in place.parents:
                return True
        return path == self.places.root / ".git" or os.path.ismount(path)


def _is_device(text: str) -> bool:
    return text.startswith("/dev/") and not text.startswith(_SAFE_DEVICES)

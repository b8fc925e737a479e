"""What a command line may do, judged twice: strictly for rules that allow, and with a wide net for rules that forbid.

`simple_command` accepts only one plain command of literal words. `scan` finds every place where a command may start: after
operators, in substitutions, behind wrappers (`env`, `sudo`, `xargs`, `find -exec`, `bash -c` …); what it cannot follow it
says. It is no parser of bash: text of a here-document counts as commands, too.
"""

import re
import shlex
from collections.abc import Iterator

from msgspec import Struct

from agent.permissions.shell_words import Word, split

MAX_SIMPLE_CHARS = 10_000
_MAX_DEPTH = 8
_PLAIN = re.compile(r"[ -~]*")
_META = frozenset(";&|<>$`(){}*?[]~\\!#")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=")
_RESERVED = {"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "in", "esac", "{", "}", "!"}
_TOKEN = re.compile(r"[\w./+@%:,~-]+")

SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "rbash"))
_RUN_TEXT = SHELLS | {"eval", "source", "."}
_WRAPPER_NAMES = """
env sudo doas su runuser pkexec command builtin exec nohup nice ionice chrt taskset setsid stdbuf unbuffer timeout
time xargs parallel watch entr flock script strace ltrace valgrind perf gdb chroot unshare nsenter bwrap firejail
fakeroot systemd-run systemd-inhibit caffeinate xvfb-run dbus-run-session start-stop-daemon busybox toybox trap
coproc function ssh rlwrap torsocks proxychains proxychains4 catchsegv eatmydata setarch linux32 linux64
"""
WRAPPERS = frozenset(_WRAPPER_NAMES.split())
_EXEC_FLAGS = ("-exec", "-execdir", "-ok", "-okdir")


def program(text: str) -> str:
    """The name of a program given by any path, folded: some file systems do not tell cases apart."""
    return text.rstrip("/").rsplit("/", 1)[-1].casefold()


def simple_command(text: str) -> tuple[str, ...] | None:
    """The words of a text that is one command without anything a shell would act on except quotes; else None."""
    if len(text) > MAX_SIMPLE_CHARS or not _PLAIN.fullmatch(text) or _META & set(text):
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    # A quoted or assigned first word is never a plain program name.
    if not words or "=" in words[0] or not text.lstrip(" ").startswith(words[0]):
        return None
    return tuple(words)


class Argv(Struct, frozen=True):
    """A place where a command may start: the words from `start` on, up to the end of that command."""

    words: tuple[Word, ...]
    start: int

    @property
    def name(self) -> str:
        return program(self.words[self.start].text)

    @property
    def arguments(self) -> tuple[Word, ...]:
        return self.words[self.start + 1 :]


class Scan(Struct, frozen=True):
    argvs: tuple[Argv, ...]
    targets: tuple[Word, ...]
    """What is redirected to or from."""
    uncertain: str
    """Why not everything that runs can be known, or empty."""
    mentioned: frozenset[str]
    """Every word anywhere in the text, with and without its quotes, by program name."""


def scan(text: str) -> Scan:
    argvs: list[Argv] = []
    targets: list[Word] = []
    uncertain = ""
    pending = [(text, 0)]
    while pending:
        piece, depth = pending.pop()
        if depth > _MAX_DEPTH:
            uncertain = uncertain or "it is nested too deeply"
            continue
        parsed = split(piece)
        if parsed.broken:
            uncertain = uncertain or "its quotes or parentheses do not match"
        targets.extend(parsed.targets)
        for words in parsed.commands:
            start = _skip_prefix(words)
            if start == len(words):
                continue
            found = [Argv(words, index) for index in _starts(words, start)]
            argvs.extend(found)
            uncertain = uncertain or _why_uncertain(found)
            if _wraps(words[start].text) or len(found) > 1:
                pending.extend((word.text, depth + 1) for word in words[start + 1 :] if _may_be_code(word.text))
    return Scan(tuple(argvs), tuple(targets), uncertain, _mentioned(text))


def _skip_prefix(words: tuple[Word, ...]) -> int:
    """Where the command starts behind reserved words and assignments."""
    index = 0
    while index < len(words) and (words[index].text in _RESERVED or _ASSIGNMENT.match(words[index].text)):
        index += 1
    return index


def _starts(words: tuple[Word, ...], first: int) -> Iterator[int]:
    """The command itself; behind a wrapper, every word that is no option: which one it runs depends on its options."""
    behind_wrapper = False
    finds = program(words[first].text) == "find"
    for index in range(first, len(words)):
        text = words[index].text
        if index == first or (behind_wrapper and not text.startswith("-")):
            yield index
            behind_wrapper = behind_wrapper or _wraps(text)
        elif finds and text in _EXEC_FLAGS:
            behind_wrapper = True


def _wraps(text: str) -> bool:
    name = program(text)
    return name in WRAPPERS or name in _RUN_TEXT


def _why_uncertain(argvs: list[Argv]) -> str:
    for argv in argvs:
        word = argv.words[argv.start]
        if word.expands or word.globs:
            return "which program it runs depends on an expansion"
        if argv.name in _RUN_TEXT and (
            any(argument.expands for argument in argv.arguments) or not _has_literal_text(argv)
        ):
            return f"what {argv.name} runs is not in the command"
    return ""


def _has_literal_text(argv: Argv) -> bool:
    """Whether a shell gets its text as an argument rather than from a file or a pipe."""
    if argv.name == "eval":
        return bool(argv.arguments)
    return any(re.fullmatch(r"-\w*c\w*", argument.text) for argument in argv.arguments)


def _may_be_code(text: str) -> bool:
    return any(char in text for char in " \t\n;&|()`$<>")


def _mentioned(text: str) -> frozenset[str]:
    bare = text.translate({ord("'"): None, ord('"'): None, ord("\\"): None})
    return frozenset(program(token) for source in (text, bare) for token in _TOKEN.findall(source))

"""What a command line may do, judged twice: strictly for rules that allow, and with a wide net for rules that forbid.

`simple_command` accepts only one plain command of literal words. `scan` finds every place where a command may start: after
operators, in substitutions, behind wrappers (`env`, `sudo`, `xargs`, `find -exec`, `bash -c` …); what it cannot follow it
says. It is no parser of bash: text of a here-document counts as commands, too.
"""

import re
import shlex
from collections.abc import Iterator

from msgspec import Struct

from agent.permissions.braces import without_braces
from agent.permissions.program_settings import set_programs
from agent.permissions.shell_words import Word, split

MAX_SIMPLE_CHARS = 10_000
_MAX_DEPTH = 8
_PLAIN = re.compile(r"[ -~]*")
_META = frozenset(";&|<>$`(){}*?[]~\\!#")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=")
_RESERVED = {"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "in", "esac", "{", "}", "!"}
_OPTION = re.compile(r"^(--[\w-]+=|-\w)")
_TOKEN = re.compile(r"[\w./+@%:,~-]+")

SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "rbash"))
_RUN_TEXT = SHELLS | {"eval", "source", "."}
_WRAPPER_NAMES = """
env sudo doas su runuser pkexec command builtin exec nohup nice ionice chrt taskset setsid stdbuf unbuffer timeout
time xargs parallel watch entr flock script strace ltrace valgrind perf gdb chroot unshare nsenter bwrap firejail
fakeroot systemd-run systemd-inhibit caffeinate xvfb-run dbus-run-session start-stop-daemon busybox toybox trap
coproc function ssh rlwrap torsocks proxychains proxychains4 catchsegv eatmydata setarch linux32 linux64
gosu run0 numactl proot fakechroot hyperfine tmux screen
"""
WRAPPERS = frozenset(_WRAPPER_NAMES.split())
EXEC_FLAGS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
_BEFORE_COMMANDS = {
    **dict.fromkeys(("find", "fd", "fdfind"), (*EXEC_FLAGS, "-x", "-X", "--exec", "--exec-batch")),
    "git": ("foreach", "run"),
    **dict.fromkeys(("uv", "poetry", "pipenv", "pdm", "hatch", "conda"), ("run",)),
    **dict.fromkeys(("npm", "pnpm", "yarn"), ("exec", "dlx")),
}
"""Words of programs that run others, behind which a command stands."""


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
    def word(self) -> Word:
        return self.words[self.start]

    @property
    def name(self) -> str:
        return program(self.word.text)

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
            reading = without_braces(words)
            found = [Argv(reading, index) for index in _starts(reading, _skip_prefix(reading))]
            argvs.extend(found)
            uncertain = uncertain or _why_uncertain(found)
            if len(found) > 1 or (found and _wraps(found[0].word.text)):
                code = reading[found[0].start + 1 :]
                # Also where it is glued to an option: `env -S'ls x'`, `--split-string='ls x'`.
                texts = (_OPTION.sub("", word.text, count=1) for word in code if _may_be_code(word.text))
                pending.extend((text, depth + 1) for text in texts)
            programs = frozenset(argv.name for argv in found)
            pending.extend((text, depth + 1) for text in set_programs(reading, programs))
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
    flags = _BEFORE_COMMANDS.get(program(words[first].text), ()) if first < len(words) else ()
    for index in range(first, len(words)):
        text = words[index].text
        if index == first or (behind_wrapper and not text.startswith("-")):
            yield index
            behind_wrapper = behind_wrapper or _wraps(text)
        elif text in flags:
            behind_wrapper = True


def _wraps(text: str) -> bool:
    name = program(text)
    return name in WRAPPERS or name in _RUN_TEXT


def _why_uncertain(argvs: list[Argv]) -> str:
    """Of the places in one command where another may start."""
    words = argvs[0].words if argvs else ()
    last_expansion = max((index for index, word in enumerate(words) if word.expands), default=-1)
    # A shell gets its text as an argument rather than from a file or a pipe.
    last_text = max((index for index, word in enumerate(words) if re.fullmatch(r"-\w*c\w*", word.text)), default=-1)
    for argv in argvs:
        if argv.word.expands or argv.word.globs:
            return "which program it runs depends on an expansion"
        if argv.name in _RUN_TEXT:
            text = len(words) - 1 if argv.name == "eval" else last_text
            if text <= argv.start or last_expansion > argv.start:
                return f"what {argv.name} runs is not in the command"
    return ""


def _may_be_code(text: str) -> bool:
    return any(char in text for char in " \t\n;&|()`$<>")


def _mentioned(text: str) -> frozenset[str]:
    bare = text.replace("\\\n", "").translate({ord("'"): None, ord('"'): None, ord("\\"): None})
    return frozenset(program(token) for source in (text, bare) for token in _TOKEN.findall(source))

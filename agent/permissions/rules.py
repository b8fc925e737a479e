"""Permission rules: `tool` or `tool(argument)`, and whether one matches a call.

The argument is for `bash` an argv prefix in shell words (a last word `$` means: and nothing more), for file tools a path
pattern (path_pattern.py), for `web_fetch` a host. A rule for `read` also holds for `grep` and `glob`, one for `edit` also for
`write`. Rules that allow match strictly, rules that ask or deny with a wide net: what may not be read may not be edited
either, and a command that names a forbidden path is asked about. A rule without argument allows file tools inside the
workspace only.
"""

import difflib
import re
import shlex
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from agent.permissions.command_paths import CommandPaths
from agent.permissions.path_pattern import PathPattern, PathScope
from agent.permissions.shell import Argv, Scan, program, simple_command
from agent.permissions.shell_words import Word

if TYPE_CHECKING:
    from agent.tools.base import Access

PATH_TOOLS = ("read", "grep", "glob", "edit", "write")
TOOLS = (
    *(*PATH_TOOLS, "bash", "bash_output", "bash_kill", "todo", "ask_user", "present_plan", "recall", "remember"),
    *("skill", "task", "web_fetch"),
)
_COVERS = {"read": ("read", "grep", "glob"), "edit": ("edit", "write")}
_RULE = re.compile(r"\s*(?P<tool>[A-Za-z_][\w-]*)\s*(?:\((?P<argument>.*)\))?\s*", re.DOTALL)
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_GIT_ESCAPES = ("--output", "--upload-pack", "--receive-pack", "--exec", "--ext-diff", "--open-files-in-pager")
_LONG_TO_SHORT = {"--recursive": "rR", "--force": "f", "--delete": "dD", "--all": "a", "--yes": "y"}


class RuleError(ValueError):
    """A rule that cannot be understood; the text names it and says what is expected."""

    def __init__(self, rule: str, fault: str) -> None:
        super().__init__(f"The permission rule {rule!r} cannot be used: {fault}.")
        self.fault = fault
        """The reason alone."""


class Match(IntEnum):
    NO = 0
    POSSIBLE = 1
    """It cannot be ruled out: whoever would deny must ask at least."""
    CERTAIN = 2


class Rule(Struct, frozen=True):
    text: str
    """As it was written."""
    tool: str
    argument: str | None = None
    words: tuple[str, ...] = ()
    exact: bool = False
    pattern: PathPattern | None = None

    def is_for(self, tool: str) -> bool:
        return tool in _COVERS.get(self.tool, (self.tool,))

    @property
    def closes_reading(self) -> bool:
        return self.tool in _COVERS["read"]

    def covers(self, path: Path) -> bool:
        return self.pattern is not None and self.pattern.covers(path)


class RuleLayer(Struct, frozen=True):
    """The rules of one source, for instance the user's configuration."""

    name: str
    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()


def parse_rules(texts: Iterable[str], scope: PathScope) -> tuple[Rule, ...]:
    """Raises: RuleError."""
    return tuple(parse_rule(text, scope) for text in texts)


def parse_rule(text: str, scope: PathScope) -> Rule:
    """
    Raises:
        RuleError: wrong form, no such tool, or an argument that the tool's rules do not have.
    """
    found = _RULE.fullmatch(text)
    if found is None:
        raise RuleError(text, "it has not the form `tool` or `tool(argument)`")
    tool, argument = found["tool"], found["argument"]
    _check_tool(text, tool)
    if argument is None:
        return Rule(text, tool)
    argument = argument.strip()
    if not argument:
        raise RuleError(text, f"it has an empty argument; for the whole tool write `{tool}`")
    if tool in PATH_TOOLS:
        try:
            return Rule(text, tool, argument, pattern=PathPattern(argument, scope))
        except ValueError as error:
            raise RuleError(text, str(error)) from None
    if tool == "bash":
        return _command_rule(text, argument)
    if tool == "web_fetch":
        if not _HOST.fullmatch(argument):
            raise RuleError(text, "it needs one exact host, in lower case, like `docs.python.org`")
        return Rule(text, tool, argument)
    raise RuleError(text, f"rules for {tool} take no argument")


def _check_tool(text: str, tool: str) -> None:
    if tool in TOOLS or tool.startswith("mcp__"):
        return
    near = difflib.get_close_matches(tool.lower(), TOOLS, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"the tools are {', '.join(TOOLS)}"
    raise RuleError(text, f"there is no tool {tool!r} ({hint})")


def _command_rule(text: str, argument: str) -> Rule:
    try:
        words = tuple(shlex.split(argument))
    except ValueError as error:
        raise RuleError(text, f"it cannot be split into shell words ({error})") from None
    exact = words[-1:] == ("$",)
    words = words[:-1] if exact else words
    if words and (words[-1].endswith(":*") or words[-1] == "*"):
        raise RuleError(text, "a rule already means every command that begins so; leave out `*`")
    if not words or not words[0]:
        raise RuleError(text, "it names no program")
    return Rule(text, "bash", argument, words, exact)


# --------------------------------------------------------------------------- allowing


def allows_command(rule: Rule, command: str) -> bool:
    if rule.argument is None:
        return True
    words = simple_command(command)
    if words is None:
        return False
    if rule.exact:
        return words == rule.words
    return words[: len(rule.words)] == rule.words and not _escapes(words[0], words[len(rule.words) :])


def _escapes(name: str, rest: Sequence[str]) -> bool:
    """Whether an option behind the prefix makes a program write any file or run any other; git takes them shortened, too."""
    if program(name) != "git":
        return False
    options = [word.partition("=")[0] for word in rest if word.startswith("--") and word != "--"]
    return any(escape.startswith(option) for option in options for escape in _GIT_ESCAPES) or any(
        re.match(r"-\w*O", word) for word in rest
    )


def allows_path(rule: Rule, path: Path, *, inside: bool) -> bool:
    """`inside`: the path lies in the workspace (for reading: or in a folder that may be read)."""
    return inside if rule.pattern is None else rule.pattern.allows(path)


# --------------------------------------------------------------------------- forbidding


def forbids(rule: Rule, tool: str, access: "Access", scan: Scan | None, paths: CommandPaths | None = None) -> Match:
    """How surely a rule that asks or denies means this call. `scan` and `paths` are there if the access is a command."""
    if access.kind == "command" and rule.pattern is not None:
        named = () if paths is None else paths.named if rule.closes_reading else paths.may_change
        return Match.POSSIBLE if any(rule.covers(path) for path in named) else Match.NO
    if not rule.is_for(tool) and not (rule.tool == "read" and tool == "edit"):
        return Match.NO
    if rule.argument is None:
        return Match.CERTAIN
    if scan is not None:
        return _forbids_command(rule, scan)
    # What a search finds in a folder is judged file by file, see `Workspace.is_closed`.
    return Match.CERTAIN if any(rule.covers(path) for path in access.paths) else Match.NO


def _forbids_command(rule: Rule, scan: Scan) -> Match:
    best = Match.NO
    for argv in scan.argvs:
        best = max(best, _begins_with(argv, rule.words))
        if best is Match.CERTAIN:
            return best
    if scan.uncertain or all(word.startswith("-") or program(word) in scan.mentioned for word in rule.words):
        return Match.POSSIBLE
    return best


def _begins_with(argv: Argv, wanted: Sequence[str]) -> Match:
    """Options may stand between the wanted words, and wanted options anywhere behind them, written in any way."""
    if argv.name != program(wanted[0]):
        return Match.NO
    arguments = argv.arguments
    sure = Match.CERTAIN
    index = 0
    for want in wanted[1:]:
        if want.startswith("-"):
            if not _has_option(arguments, want):
                return Match.POSSIBLE if any(word.splits for word in arguments) else Match.NO
            continue
        found = _skip_options(arguments, index, want)
        if found is None:
            return Match.NO
        index = found + 1
        if arguments[found].text.casefold() != want.casefold():
            sure = Match.POSSIBLE
    return sure


def _skip_options(arguments: Sequence[Word], index: int, want: str) -> int | None:
    """Where the wanted word stands, with only options, and a value each, before it; an expansion may be any word."""
    value_may_follow = False
    for position in range(index, len(arguments)):
        word = arguments[position]
        if word.text.casefold() == want.casefold() or word.expands or word.globs:
            return position
        if word.text.startswith("-"):
            value_may_follow = True
        elif value_may_follow:
            value_may_follow = False
        else:
            return None
    return None


def _has_option(arguments: Sequence[Word], want: str) -> bool:
    texts = [word.text for word in arguments]
    short = _LONG_TO_SHORT.get(want, "")
    clusters = "".join(text[1:] for text in texts if text.startswith("-") and not text.startswith("--"))
    if want.startswith("--"):
        abbreviated = any(len(text) > 2 and want.startswith(text) for text in texts if text.startswith("--"))
        return (
            abbreviated or any(text.startswith(want) for text in texts) or any(letter in clusters for letter in short)
        )
    long_forms = {long for long, letters in _LONG_TO_SHORT.items() if any(letter in want for letter in letters)}
    spelled = any(text.startswith(long[:4]) for text in texts for long in long_forms)
    return spelled or all(letter in clusters for letter in want[1:])

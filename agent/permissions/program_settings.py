"""Settings that run a program: variables such as `GIT_PAGER`, keys of git such as `alias.x`, and aliases of the shell."""

import re
from collections.abc import Iterator, Sequence

from agent.permissions.shell_words import Word

_VARIABLES = (
    *("EDITOR", "PAGER", "ASKPASS", "COMMAND", "VISUAL", "GIT_SSH", "GIT_EXTERNAL_DIFF", "BROWSER", "LESSOPEN"),
    "LESSCLOSE",
)
"""How their names end."""
_VALUE_VARIABLE = re.compile(r"GIT_CONFIG_VALUE_\d+")
_KEY = re.compile(
    r"(alias|pager)\..+|.*\.(command|cmd|textconv|driver|clean|smudge|process|helper|program|editor|pager|sshcommand|askpass"
    r"|fsmonitor|gitproxy|external|difffilter|uploadpack|receivepack|packobjectshook|defaultkeycommand"
    r"|alternaterefscommand|update|smtpserver|tocmd|cccmd)",
    re.IGNORECASE | re.DOTALL,
)
_BEFORE_KEY = re.compile(r"--config(-env)?=")


def set_programs(words: Sequence[Word], programs: frozenset[str]) -> Iterator[str]:
    """The command lines that the settings in one command run; `programs` are those that it may start."""
    for index, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if equals and (name.endswith(_VARIABLES) or "alias" in programs):
            yield value.lstrip("|")
        elif equals and _VALUE_VARIABLE.fullmatch(name):
            yield from _git_code("alias.", value)
        elif "git" in programs:
            yield from _from_git(words, index)


def _from_git(words: Sequence[Word], index: int) -> Iterator[str]:
    """`-c KEY=VALUE`, `--config-env KEY=VARIABLE`, or `config KEY VALUE`."""
    text = words[index].text
    key, equals, value = _BEFORE_KEY.sub("", text, count=1).partition("=")
    if not _KEY.fullmatch(key):
        return
    if text.startswith("--config-env=") or (index and words[index - 1].text == "--config-env"):
        yield f"${value}"
    elif equals:
        yield from _git_code(key, value)
    elif index + 1 < len(words):
        yield from _git_code(key, words[index + 1].text)


def _git_code(key: str, value: str) -> Iterator[str]:
    if value.startswith("!"):
        yield value[1:]
    else:
        yield f"git {value}" if key.casefold().startswith("alias.") else value

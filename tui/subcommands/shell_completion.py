"""`claw completion SHELL`: scripts for bash, zsh and fish, made from the parsers themselves, so that nothing can be forgotten.

The scripts know every option, subcommand and closed choice; of what only claw knows, they ask claw for session ids alone.
"""

import argparse
import sys
import typing
from typing import Any, Literal

from msgspec import Struct

from agent.config.keys import KEYS
from providers.presets import PRESETS
from tui.launch.arguments import SHELLS, SUBCOMMANDS
from tui.launch.options import run_parser
from tui.launch.subcommand_options import set_parser, subcommand_parser
from tui.subcommands.shell_scripts import bash_script, fish_script, zsh_script

Kind = Literal["flag", "choice", "file", "folder", "session", "text"]

_KINDS: dict[str, Kind] = {
    "FILE": "file",
    "DIR": "folder",
    "ID": "session",
    "ID|WORDS": "session",
    "session": "session",
}
"""By what the parser calls the value."""
_WORDS = {"provider": tuple(PRESETS), "key": tuple(key.name for key in KEYS if "*" not in key.name)}


class Option(Struct, frozen=True):
    names: tuple[str, ...]
    kind: Kind
    """What its value is; a flag takes none."""
    choices: tuple[str, ...]
    help: str


class Word(Struct, frozen=True):
    """A positional argument."""

    kind: Kind
    choices: tuple[str, ...] = ()


class Command(Struct, frozen=True):
    name: str
    """As it is typed behind `claw`; empty for claw itself."""
    options: tuple[Option, ...]
    words: tuple[Word, ...]


def commands() -> tuple[Command, ...]:
    """claw itself, then each subcommand."""
    parsers = [("", run_parser()), *((name, subcommand_parser(name)) for name in SUBCOMMANDS)]
    return tuple(_command(name, parser) for name, parser in [*parsers, ("config set", set_parser())])


def key_values() -> dict[str, tuple[str, ...]]:
    """What `claw config set KEY` may be followed by, for keys with few values."""
    values: dict[str, tuple[str, ...]] = {}
    for key in KEYS:
        choices = ("true", "false") if key.type is bool else typing.get_args(key.type)
        if "*" not in key.name and choices and all(isinstance(choice, str) for choice in choices):
            values[key.name] = choices
    return values


def print_completion(shell: str) -> int:
    """Write the script of one of `SHELLS`; the exit code."""
    make = dict(zip(SHELLS, (bash_script, zsh_script, fish_script), strict=True))[shell]
    sys.stdout.write(make(commands(), key_values()))
    return 0


def _command(name: str, parser: argparse.ArgumentParser) -> Command:
    options, words = [], []
    for action in parser._actions:  # argparse has no public list of what was added
        if action.option_strings:
            options.append(_option(action))
        elif name or action.choices:  # claw's own positional is the prompt
            words.append(Word(*_value(action)))
    return Command(name, tuple(options), tuple(words))


def _option(action: argparse.Action) -> Option:
    kind, choices = ("flag", ()) if action.nargs == 0 else _value(action)
    return Option(tuple(action.option_strings), kind, choices, _help(action))


def _value(action: argparse.Action) -> tuple[Kind, tuple[str, ...]]:
    choices: Any = action.choices or _WORDS.get(action.dest)
    return ("choice", tuple(choices)) if choices else (_KINDS.get(str(action.metavar or action.dest), "text"), ())


def _help(action: argparse.Action) -> str:
    return " ".join((action.help or "").replace("%%", "%").split())

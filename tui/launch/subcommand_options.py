"""The parsers of the subcommands, and what they make of a command line. Knows no configuration and opens nothing."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from tui.launch.arguments import MODES, SHELLS, Arguments, UsageError
from tui.launch.session_options import add_session_options, session_values

_SCOPES = ("user", "project", "local")
_SET_FLAGS = ("-h", "--help", "--unset", *(f"--{scope}" for scope in _SCOPES))


class Parser(argparse.ArgumentParser):
    """Raises instead of ending the program."""

    def error(self, message: str) -> "None":  # type: ignore[override]  # argparse says NoReturn; this raises
        raise UsageError(message)


def subcommand_parser(name: str) -> Parser:
    """The parser of one of `SUBCOMMANDS`."""
    parser = Parser(prog=f"claw {name}", allow_abbrev=False)
    _FILLERS[name](parser)
    return parser


def set_parser() -> Parser:
    """The parser of `claw config set`."""
    parser = Parser(prog="claw config set", allow_abbrev=False)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--user", dest="scope", action="store_const", const="user", help="your own file (default)")
    where.add_argument("--project", dest="scope", action="store_const", const="project", help="the project's file")
    where.add_argument("--local", dest="scope", action="store_const", const="local", help="your private one in it")
    parser.add_argument("--unset", action="store_true", help="take the key out")
    parser.add_argument("key", metavar="KEY", help="dotted, as `claw config show` writes it")
    parser.add_argument("value", nargs="?", metavar="VALUE", help="TOML, or plain text")
    return parser


def parse_subcommand(name: str, argv: Sequence[str]) -> Arguments:
    """
    Raises:
        UsageError: unknown or badly used options.
        SystemExit: after --help.
    """
    if name == "config" and list(argv[:1]) == ["set"]:
        return _parse_set(argv[1:])
    parser = subcommand_parser(name)
    if not argv and (actions := _needed_actions(parser)):
        raise UsageError(f"`claw {name}` needs one of: {', '.join(actions)}.")
    if name in ("login", "logout"):
        try:
            given = parser.parse_args(list(argv))
        except UsageError:  # what was said is never repeated: it may be a key
            text = f"`claw {name}` takes a provider's name alone."
            raise UsageError(
                f"{text} It asks for the key, or reads it from a pipe." if name == "login" else text
            ) from None
    elif name == "sessions":  # ids and options in any order
        given = parser.parse_intermixed_args(list(argv))
    else:
        given = parser.parse_args(list(argv))
    values = session_values(vars(given)) if name == "sessions" else vars(given)
    values["action"] = values.get("action") or ""
    if "config" in values:
        values["config"] = tuple(values["config"])
    return Arguments(command=name, **values)  # type: ignore[arg-type]  # one of SUBCOMMANDS


def _needed_actions(parser: Parser) -> tuple[str, ...]:
    """What may stand behind the name, where something has to."""
    found = (action for action in parser._actions if action.dest == "action" and action.required)
    return tuple(choice for action in found for choice in action.choices or ())


def _parse_set(argv: Sequence[str]) -> Arguments:
    end = list(argv).index("--") if "--" in argv else len(argv)
    flags = [word for word in argv[:end] if word in _SET_FLAGS]
    # Whatever else begins with a dash is a key or a value, as `-1` is.
    words = [word for word in argv[:end] if word not in _SET_FLAGS] + list(argv[end + 1 :])
    given = set_parser().parse_args([*flags, "--", *words])
    if given.unset and given.value is not None:
        raise UsageError("`claw config set --unset KEY` takes no value.")
    if not given.unset and given.value is None:
        raise UsageError("`claw config set KEY` needs a value, or --unset to take the key out.")
    return Arguments(
        command="config", action="set", key=given.key, value=given.value, unset=given.unset, scope=given.scope or "user"
    )


def _config(parser: Parser) -> None:
    parser.add_argument("action", choices=("show", "path", "check", "set"))
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--profile", metavar="NAME")


def _context(parser: Parser) -> None:
    parser.add_argument("session", nargs="?", default="", help="id; without it the last session of this folder")
    parser.add_argument("--json", action="store_true", dest="as_json")


def _instructions(parser: Parser) -> None:
    parser.add_argument("action", nargs="?", choices=("lint",), help="say what is wrong with them")
    parser.add_argument("--json", action="store_true", dest="as_json")


def _demo(parser: Parser) -> None:
    parser.add_argument("--mode", choices=MODES)


def _login(parser: Parser) -> None:
    parser.add_argument("provider", nargs="?", default="", metavar="PROVIDER")
    parser.add_argument(
        "--keyring", action="store_true", dest="in_keyring", help="keep it in the system's keyring, not in auth.json"
    )


def _logout(parser: Parser) -> None:
    parser.add_argument("provider", nargs="?", default="", metavar="PROVIDER")


def _doctor(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--online", action="store_true", help="also ask the providers' servers")


def _completion(parser: Parser) -> None:
    parser.add_argument("action", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")


_FILLERS: dict[str, Callable[[Any], None]] = {
    "sessions": add_session_options,
    "config": _config,
    "context": _context,
    "instructions": _instructions,
    "demo": _demo,
    "login": _login,
    "logout": _logout,
    "doctor": _doctor,
    "completion": _completion,
}

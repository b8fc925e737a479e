"""The parser of the command line: options and their help, and how they become `Arguments`."""

import argparse
from collections.abc import Sequence

from claw import __version__
from tui.arguments import EFFORTS, MODES, SUBCOMMANDS, Arguments, UsageError, split_rules

_PROMPT_OPTIONS = ("-p", "--print", "--prompt")

DESCRIPTION = """\
The interactive coding agent for the terminal.

  claw                       work in this folder
  claw -p PROMPT             one task without a screen; piped input is added to the prompt
  claw -c | -r [ID]          go on with the last session of this folder | with session ID
  claw demo                  a scripted demonstration; needs no key and no network
  claw sessions list|show ID
  claw config show|path|check
  claw context [SESSION] [--json]
  claw instructions [--json]
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> "None":  # type: ignore[override]  # argparse says NoReturn; this raises
        raise UsageError(message)


def parse_options(argv: Sequence[str]) -> Arguments:
    """See `arguments.parse`."""
    if argv and argv[0] in SUBCOMMANDS:
        return _parse_subcommand(argv[0], argv[1:])
    rest, prompt = _take_prompt(argv)
    return _collect(_run_parser(), rest, prompt)


def _run_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="claw", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("prompt", nargs="?", help="sent at once when the screen is up")
    parser.add_argument(
        "-p", "--print", "--prompt", dest="print_prompt", metavar="PROMPT", help="one task without a screen"
    )
    parser.add_argument("--output-format", choices=("text", "json"), default="text", help="of -p; text is the default")
    parser.add_argument("-m", "--model", metavar="PROVIDER/MODEL", help="the model that answers")
    parser.add_argument("--effort", choices=EFFORTS, help="how much the model thinks")
    parser.add_argument("--mode", choices=MODES, help="what may run without asking; ask is the default")
    parser.add_argument(
        "-c", "--continue", dest="continue_last", action="store_true", help="the last session of this folder"
    )
    parser.add_argument("-r", "--resume", nargs="?", const="", metavar="ID", help="a session by its id, or choose one")
    parser.add_argument("--fork", action="store_true", help="go on in a copy of the session")
    parser.add_argument("--max-turns", type=_positive_int, metavar="N", help="end a turn after N model calls")
    parser.add_argument(
        "--max-cost", type=_positive_float, metavar="USD", help="stop when the session has cost this much"
    )
    parser.add_argument(
        "--allowed-tools", action="append", default=[], metavar="RULES", help="for instance 'edit, bash(git log)'"
    )
    parser.add_argument(
        "--disallowed-tools", action="append", default=[], metavar="RULES", help="what is refused, written alike"
    )
    parser.add_argument("--add-dir", action="append", default=[], metavar="DIR", help="a further folder to work in")
    parser.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE", help="any key of config.toml, dotted"
    )
    parser.add_argument("--profile", metavar="NAME", help="a [profiles.NAME] table of config.toml")
    parser.add_argument("--no-session", action="store_true", help="keep nothing of this run")
    parser.add_argument("--no-instructions", action="store_true", help="load no instruction files")
    parser.add_argument("--trust", action="store_true", help="trust this folder for this run")
    parser.add_argument("--version", action="version", version=f"claw {__version__}")
    return parser


def _parse_subcommand(name: str, argv: Sequence[str]) -> Arguments:
    parser = _Parser(prog=f"claw {name}", allow_abbrev=False)
    match name:
        case "sessions":
            parser.add_argument("action", choices=("list", "show"))
            parser.add_argument("session", nargs="?", default="", help="id, or the beginning of one")
            parser.add_argument("--json", action="store_true", dest="as_json")
        case "config":
            parser.add_argument("action", choices=("show", "path", "check"))
            parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE")
            parser.add_argument("--profile", metavar="NAME")
        case "context":
            parser.add_argument("session", nargs="?", default="", help="id; without it the last session of this folder")
            parser.add_argument("--json", action="store_true", dest="as_json")
        case "instructions":
            parser.add_argument("--json", action="store_true", dest="as_json")
        case "demo":
            parser.add_argument("--mode", choices=MODES)
    given = parser.parse_args(list(argv))
    if name == "sessions" and given.action == "show" and not given.session:
        raise UsageError("`claw sessions show` needs a session id; `claw sessions list` shows them.")
    values = vars(given)
    if "config" in values:
        values["config"] = tuple(values["config"])
    return Arguments(command=name, **values)  # type: ignore[arg-type]  # one of SUBCOMMANDS


def _collect(parser: argparse.ArgumentParser, argv: Sequence[str], print_prompt: str | None) -> Arguments:
    given = parser.parse_args(list(argv))
    if given.print_prompt is not None:  # as in -pPROMPT or -cp PROMPT, which only the parser takes apart
        print_prompt = "" if given.print_prompt == "-" else given.print_prompt
    if print_prompt is not None and given.prompt:
        raise UsageError("Give the prompt once: with -p, or alone.")
    if given.continue_last and given.resume is not None:
        raise UsageError("-c and -r exclude each other.")
    if given.fork and not given.continue_last and given.resume is None:
        raise UsageError("--fork copies a session: say which with -c or -r ID.")
    if given.no_session and (given.continue_last or given.resume is not None):
        raise UsageError("--no-session keeps nothing and has nothing to go on from.")
    return Arguments(
        prompt=print_prompt if print_prompt is not None else given.prompt or "",
        print_mode=print_prompt is not None,
        output_format=given.output_format,
        model=given.model,
        effort=given.effort,
        mode=given.mode,
        continue_last=given.continue_last,
        resume=given.resume,
        fork=given.fork,
        max_turns=given.max_turns,
        max_cost=given.max_cost,
        allowed_tools=split_rules(given.allowed_tools),
        disallowed_tools=split_rules(given.disallowed_tools),
        add_dirs=tuple(given.add_dir),
        config=tuple(given.config),
        profile=given.profile,
        no_session=given.no_session,
        no_instructions=given.no_instructions,
        trust=given.trust,
    )


def _take_prompt(argv: Sequence[str]) -> tuple[list[str], str | None]:
    """The arguments without -p and its value, and the value, whatever it looks like; `-` is an empty one."""
    rest: list[str] = []
    prompt: str | None = None
    remaining = iter(argv)
    for argument in remaining:
        name, equals, value = argument.partition("=")
        if argument == "--":
            return [*rest, "--", *remaining], prompt
        if argument in _PROMPT_OPTIONS:
            given = next(remaining, None)
            if given is None:
                raise UsageError(
                    f"{argument} needs a prompt; write `-p -` for one that comes from standard input alone."
                )
            prompt = given
        elif equals and name in _PROMPT_OPTIONS[1:]:
            prompt = value
        else:
            rest.append(argument)
    return rest, "" if prompt == "-" else prompt


def _positive_int(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def _positive_float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive amount")
    return value

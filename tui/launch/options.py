"""The parser of the command line: options and their help, and how they become `Arguments`."""

import argparse
from collections.abc import Iterator, Sequence

from claw import __version__
from tui.launch.arguments import EFFORTS, MODES, SUBCOMMANDS, Arguments, UsageError, split_rules
from tui.launch.subcommand_options import Parser, parse_subcommand

_LIKELY, _SURELY = 0.75, 0.8
"""How alike what was typed and what was meant must be (difflib's ratio), the second where it may also be a prompt: a word of
seven letters with one of them wrong, or two changed round."""
_PROMPT_OPTIONS = ("-p", "--print", "--prompt")

DESCRIPTION = """\
The interactive coding agent for the terminal.

  claw                       work in this folder
  claw -p PROMPT             one task without a screen; piped input is added to the prompt
  claw -c | -r [ID]          go on with the last session of this folder | with session ID
  claw demo                  a scripted demonstration; needs no key and no network
  claw sessions list|show|search|export|rm|du
  claw config show|path|check
  claw config set [--user|--project|--local] KEY VALUE | --unset KEY
  claw context [SESSION] [--json]
  claw instructions [lint] [--json]
  claw login|logout [PROVIDER]
  claw doctor [--json] [--online]
  claw completion bash|zsh|fish
"""


def parse_options(argv: Sequence[str]) -> Arguments:
    """See `arguments.parse`."""
    if argv and argv[0] in SUBCOMMANDS:
        return parse_subcommand(argv[0], argv[1:])
    if len(argv) == 1 and argv[0].isalpha() and (near := _near(argv[0].lower(), SUBCOMMANDS, _SURELY)):
        text = f"There is no subcommand {argv[0]!r}. Did you mean `claw {near[0]}`?"
        raise UsageError(text, f"To send it as a prompt: claw -- {argv[0]}, or claw -p {argv[0]} without a screen.")
    parser = run_parser()
    rest, prompt = _take_apart(parser, argv)
    return _collect(parser, rest, prompt)


def run_parser() -> Parser:
    """The parser of `claw` without a subcommand."""
    parser = Parser(
        prog="claw", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("prompt", nargs="?", help="sent at once when the screen is up")
    parser.add_argument(
        "-p", "--print", "--prompt", dest="print_prompt", metavar="PROMPT", help="one task without a screen"
    )
    parser.add_argument(
        "--output-format", choices=("text", "json", "stream-json"), default="text", help="of -p; text is the default"
    )
    parser.add_argument(
        "--input-format", choices=("text", "stream-json"), default="text", help="stream-json: messages as JSON lines"
    )
    parser.add_argument("--output-schema", metavar="FILE", help="of -p: a JSON Schema that the answer must fit")
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
    parser.add_argument("--tools", metavar="NAMES", help="give the model these tools alone, for instance 'read,grep'")
    parser.add_argument("--append-system-prompt", default="", metavar="TEXT", help="stands behind the system prompt")
    parser.add_argument("--add-dir", action="append", default=[], metavar="DIR", help="a further folder to work in")
    parser.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE", help="any key of config.toml, dotted"
    )
    parser.add_argument("--profile", metavar="NAME", help="a [profiles.NAME] table of config.toml")
    parser.add_argument("--no-session", action="store_true", help="keep nothing of this run")
    parser.add_argument("--no-instructions", action="store_true", help="load no instruction files")
    parser.add_argument("--trust", action="store_true", help="trust this folder for this run")
    parser.add_argument(
        "--yes", action="store_true", help="accept what it says it will cost, where nobody can be asked"
    )
    parser.add_argument("--version", action="version", version=f"claw {__version__}")
    return parser


def _collect(parser: argparse.ArgumentParser, argv: Sequence[str], print_prompt: str | None) -> Arguments:
    given, stray = parser.parse_known_args(list(argv))
    if (stray or given.prompt) and print_prompt in parser._option_string_actions:
        raise UsageError(
            f"-p takes the next word as the prompt, here {print_prompt}. Write -p PROMPT behind the options."
        )
    if stray:
        raise UsageError(_stray_text(parser, given.prompt or "", stray))
    if given.print_prompt is not None:  # as in -pPROMPT or -cp PROMPT, which only the parser takes apart
        print_prompt = "" if given.print_prompt == "-" else given.print_prompt
    if print_prompt is not None and given.prompt:
        raise UsageError("Give the prompt once: with -p, or alone. Several words need quotes.")
    if given.continue_last and given.resume is not None:
        raise UsageError("-c and -r exclude each other.")
    if given.fork and not given.continue_last and given.resume is None:
        raise UsageError("--fork copies a session: say which with -c or -r ID.")
    if given.no_session and (given.continue_last or given.resume is not None):
        raise UsageError("--no-session keeps nothing and has nothing to go on from.")
    reads_lines = given.input_format == "stream-json"
    print_mode = print_prompt is not None or reads_lines
    if reads_lines and given.output_format != "stream-json":
        raise UsageError("--input-format stream-json goes with --output-format stream-json.")
    if not print_mode and (given.output_format != "text" or given.output_schema is not None):
        raise UsageError("--output-format and --output-schema belong to `claw -p PROMPT`.")
    return Arguments(
        prompt=print_prompt if print_prompt is not None else given.prompt or "",
        print_mode=print_mode,
        output_format=given.output_format,
        input_format=given.input_format,
        output_schema=given.output_schema,
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
        tools=None if given.tools is None else split_rules([given.tools]),
        append_system_prompt=given.append_system_prompt,
        add_dirs=tuple(given.add_dir),
        config=tuple(given.config),
        profile=given.profile,
        no_session=given.no_session,
        no_instructions=given.no_instructions,
        trust=given.trust,
        yes=given.yes,
    )


def _stray_text(parser: argparse.ArgumentParser, prompt: str, stray: Sequence[str]) -> str:
    """Why words are left over: an option that does not exist, a misspelt subcommand, or a prompt without quotes."""
    option = next((word.partition("=")[0] for word in stray if word.startswith("-")), "")
    word, known = (option, tuple(parser._option_string_actions)) if option else (prompt, SUBCOMMANDS)
    near = _near(word, known, _LIKELY)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    if option:
        return f"There is no option {option}.{meant}"
    if prompt in SUBCOMMANDS:
        return f"A subcommand stands before all options: claw {prompt} …"
    if near:
        return f"There is no subcommand {word!r}.{meant}"
    return "A prompt of several words needs quotes."


def _near(word: str, known: Sequence[str], cutoff: float) -> list[str]:
    import difflib  # only where something may be wrong

    return difflib.get_close_matches(word, known, 2, cutoff)


def _take_apart(parser: argparse.ArgumentParser, argv: Sequence[str]) -> tuple[list[str], str | None]:
    """The arguments without -p, each option and its value in one word, and the prompt of -p; `-` is an empty one.

    So values and the prompt stay what they are, whatever they look like.
    """
    long_names = {
        name: action.option_strings[-1]
        for action in parser._actions  # argparse has no public list of what was added
        if action.nargs is None
        for name in action.option_strings
    }
    rest: list[str] = []
    prompt: str | None = None
    remaining = iter(argv)
    for argument in remaining:
        if argument == "--":
            return [*rest, argument, *remaining], "" if prompt == "-" else prompt
        name, equals, value = argument.partition("=")
        if name not in long_names or (equals and not name.startswith("--")):
            rest.append(argument)
            continue
        if not equals:
            value = _value_of(name, remaining)
        if name in _PROMPT_OPTIONS:
            prompt = value
        elif value == "--":  # which argparse takes for the end of options even there
            raise UsageError(f"{name} needs a value.")
        else:
            rest.append(f"{long_names[name]}={value}")
    return rest, "" if prompt == "-" else prompt


def _value_of(name: str, remaining: Iterator[str]) -> str:
    for value in remaining:
        return value
    if name in _PROMPT_OPTIONS:
        raise UsageError(f"{name} needs a prompt; write `-p -` for one that comes from standard input alone.")
    raise UsageError(f"{name} needs a value.")


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

"""The command line: what may be said, and what was said, as plain values. Knows no configuration and opens nothing."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

SUBCOMMANDS = (
    "sessions",
    "config",
    "context",
    "instructions",
    "demo",
    "login",
    "logout",
    "doctor",
    "completion",
)
SHELLS = ("bash", "zsh", "fish")
MODES = ("plan", "ask", "edits", "auto")
EFFORTS = ("off", "low", "medium", "high")


class Arguments(Struct, frozen=True):
    """What the command line says. None: not said."""

    command: Literal[
        "run",
        "demo",
        "sessions",
        "config",
        "context",
        "instructions",
        "login",
        "logout",
        "doctor",
        "completion",
    ] = "run"
    action: str = ""
    """Of `sessions`, `config` and `instructions`: list, show, path, check, set, lint; of `completion` the shell."""
    session: str = ""
    """The session named by `sessions show`, `sessions export` or `context`."""
    words: tuple[str, ...] = ()
    """Of `sessions`: ids, or what is looked for."""
    as_json: bool = False
    all_projects: bool = False
    export_format: Literal["markdown", "json"] = "markdown"
    output: str | None = None
    """The file that `sessions export` writes."""
    force: bool = False
    key: str = ""
    """Of `config set`, dotted."""
    value: str | None = None
    unset: bool = False
    scope: Literal["user", "project", "local"] = "user"
    provider: str = ""
    """Of `login` and `logout`; empty: not said."""
    in_keyring: bool = False
    online: bool = False
    """Whether `doctor` may ask the providers' servers."""
    prompt: str = ""
    print_mode: bool = False
    output_format: Literal["text", "json", "stream-json"] = "text"
    input_format: Literal["text", "stream-json"] = "text"
    output_schema: str | None = None
    """The file of a JSON Schema."""
    model: str | None = None
    effort: str | None = None
    mode: str | None = None
    continue_last: bool = False
    resume: str | None = None
    """An id; empty: choose one."""
    fork: bool = False
    max_turns: int | None = None
    max_cost: float | None = None
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    """The only tools that the model is given; empty: none."""
    append_system_prompt: str = ""
    add_dirs: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    """KEY=VALUE, as given."""
    profile: str | None = None
    no_session: bool = False
    no_instructions: bool = False
    trust: bool = False
    yes: bool = False
    """Whether what is stated and cannot be asked about is accepted: a cost, or what is deleted."""


class UsageError(Exception):
    """The command line is wrong; the text says how, and `remedy`, where it is not empty, what to do."""

    def __init__(self, text: str, remedy: str = "") -> None:
        super().__init__(text)
        self.remedy = remedy


def parse(argv: Sequence[str]) -> Arguments:
    """
    Raises:
        UsageError: unknown or badly used options.
        SystemExit: after --help.
    """
    if not argv:
        return Arguments()  # the usual start does without the parser
    from tui.launch.options import parse_options

    return parse_options(argv)


def split_rules(values: Sequence[str]) -> tuple[str, ...]:
    """Rules separated by commas or blanks outside parentheses: 'edit, bash(git log)' → ('edit', 'bash(git log)')."""
    rules: list[str] = []
    for value in values:
        depth, current = 0, ""
        for char in value:
            if char in ", \n\t" and depth == 0:
                rules.append(current)
                current = ""
                continue
            depth += (char == "(") - (char == ")" and depth > 0)
            current += char
        rules.append(current)
    return tuple(rule for rule in rules if rule)

"""Keys and commands, made from the tables that the program itself runs on."""

from collections.abc import Sequence

from tui.commands import COMMANDS, KEYS, Command
from tui.exact import Row
from tui.screens.message import MessageScreen


def help_rows() -> list[Row]:
    rows = [Row("Keys", "title"), *_columns(KEYS), Row("")]
    rows += [Row("Commands", "title"), *_columns([line for c in COMMANDS for line in _lines(c)]), Row("")]
    rows += [
        Row("Modes", "title"),
        *_columns(
            [
                ("plan", "reads, and changes nothing"),
                ("ask", "asks before edits and commands"),
                ("edits", "edits in the workspace run, commands ask"),
                ("auto", "asks only for what leaves the workspace"),
            ]
        ),
    ]
    return rows


def _lines(command: Command) -> list[tuple[str, str]]:
    usage = f"/{command.name} {command.hint}".rstrip()
    return [
        (usage, _explained(command)),
        *((f"/{command.name} {form}", f"  {meaning}") for form, meaning in command.forms),
    ]


def _explained(command: Command) -> str:
    names = ", ".join(f"/{alias}" for alias in command.aliases)
    return f"{command.help}  (also {names})" if names else command.help


def _columns(pairs: Sequence[tuple[str, str]]) -> list[Row]:
    return [Row(f"{left:<30}{right}") for left, right in pairs]


class HelpScreen(MessageScreen):
    def __init__(self) -> None:
        super().__init__("Help", help_rows())

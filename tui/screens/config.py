"""The configuration in force, as `claw config show` writes it: every key, its value, and where that comes from."""

from tui.exact import Row
from tui.sanitize import clean
from tui.screens.message import MessageScreen


def config_rows(text: str) -> list[Row]:
    return [_row(line) for line in clean(text).rstrip("\n").split("\n")]


def _row(line: str) -> Row:
    if line.startswith("[") and line.endswith("]"):
        return Row(line, "title")
    if line.startswith("# error"):
        return Row(line, "warning")
    return Row(line, "dim" if line.startswith("#") else "text")


class ConfigScreen(MessageScreen):
    def __init__(self, text: str) -> None:
        """`text`: foreign."""
        super().__init__("Configuration", config_rows(text))

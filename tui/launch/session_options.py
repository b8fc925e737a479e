"""The command line of `claw sessions …`: which words and options belong to which of its actions."""

import argparse
from typing import Any

from tui.launch.arguments import UsageError

_ACTIONS = {
    "list": (0, 0, ("as_json", "all_projects")),
    "show": (1, 1, ("as_json",)),
    "search": (1, None, ("as_json",)),
    "export": (1, 1, ("export_format", "output", "force")),
    "rm": (1, None, ("yes",)),
    "du": (0, 0, ("as_json",)),
}
"""How many words at least and at most (None: any number), and the options."""
_OPTIONS = {
    "as_json": "--json",
    "all_projects": "--all",
    "export_format": "--format",
    "output": "--output",
    "force": "--force",
    "yes": "--yes",
}


def add_session_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=tuple(_ACTIONS))
    parser.add_argument(
        "words", nargs="*", metavar="ID|WORDS", help="an id, or the beginning of one; words to look for"
    )
    parser.add_argument("--json", action="store_true", dest="as_json", help="of list, show, search and du")
    parser.add_argument("--all", action="store_true", dest="all_projects", help="of list: not of this project alone")
    parser.add_argument("--format", choices=("markdown", "json"), dest="export_format", help="of export")
    parser.add_argument("-o", "--output", metavar="FILE", help="of export; otherwise it is printed")
    parser.add_argument("--force", action="store_true", help="of export: overwrite FILE")
    parser.add_argument("--yes", action="store_true", help="of rm: do not ask")


def session_values(given: dict[str, Any]) -> dict[str, Any]:
    """What was parsed, as the fields of `Arguments`.

    Raises:
        UsageError: a word too many or too few, or an option of another action.
    """
    action = given["action"]
    least, most, options = _ACTIONS[action]
    words = tuple(given.pop("words"))
    if len(words) < least or not all(word.strip() for word in words):
        what = "words to look for" if action == "search" else "a session id; `claw sessions list --all` shows them"
        raise UsageError(f"`claw sessions {action}` needs {what}.")
    if most is not None and len(words) > most:
        raise UsageError(f"`claw sessions {action}` cannot use {words[most]!r}.")
    for name, option in _OPTIONS.items():
        if given[name] and name not in options:
            owners = ", ".join(other for other, (_, _, known) in _ACTIONS.items() if name in known)
            raise UsageError(f"{option} belongs to `claw sessions {owners}`, not to {action}.")
    given["export_format"] = given["export_format"] or "markdown"
    one = action in ("show", "export")
    return given | {"session": words[0] if one else "", "words": () if one else words}

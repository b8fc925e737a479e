"""Which git commands drop uncommitted work, or rewrite or overwrite history."""

import re
from collections.abc import Sequence

from agent.permissions.shell_words import Word

_WITH_VALUE_TEXT = """
-C -c --git-dir --work-tree --namespace --exec-path --super-prefix --config-env --attr-source --shallow-file
"""
_WITH_VALUE = frozenset(_WITH_VALUE_TEXT.split())
_REBASE_HARMLESS = ("--abort", "--quit", "--show-current-patch")
_OVERWRITES = "overwrites or deletes what others may use"
_DROPS_WORK = "drops uncommitted work"
_DROPS_COMMITS = "drops what could bring commits back"
_MOVES_BRANCH = "drops or moves a branch by force"
_ALWAYS = {
    "filter-branch": "rewrites history",
    "filter-repo": "rewrites history",
    "replace": "rewrites history",
    "update-ref": "moves branches by force",
    "prune": _DROPS_COMMITS,
}
_BY_OPTION: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("push", "fd", ("--force", "--mirror", "--delete", "--prune"), _OVERWRITES),
    ("reset", "", ("--hard", "--merge"), _DROPS_WORK),
    ("checkout", "f", ("--force",), _DROPS_WORK),
    ("checkout", "B", (), _MOVES_BRANCH),
    ("switch", "f", ("--force", "--discard-changes"), _DROPS_WORK),
    ("switch", "C", (), _MOVES_BRANCH),
    ("rm", "f", ("--force",), _DROPS_WORK),
    ("checkout-index", "f", ("--force",), _DROPS_WORK),
    ("read-tree", "", ("--reset",), _DROPS_WORK),
    ("commit", "", ("--amend",), "rewrites the last commit"),
    ("branch", "DMCf", ("--force",), _MOVES_BRANCH),
    ("tag", "df", ("--delete", "--force"), "drops or moves a tag"),
    ("gc", "", ("--prune",), _DROPS_COMMITS),
)
"""Command, short options, long options, what they do."""
_BY_FIRST_WORD = {
    ("stash", "drop"): "drops stashed work",
    ("stash", "clear"): "drops stashed work",
    ("reflog", "expire"): _DROPS_COMMITS,
    ("reflog", "delete"): _DROPS_COMMITS,
}
_WHOLE_FOLDER = re.compile(r"[./*]+|:.*")
"""A path that is all that lies here or above, or one with a rule of git's own."""


def git_danger(arguments: Sequence[Word]) -> str:
    """Why `git ARGUMENTS` must be asked about, or an empty text."""
    index = 0
    while index < len(arguments) and arguments[index].text.startswith("-"):
        index += 2 if arguments[index].text in _WITH_VALUE else 1
    if index >= len(arguments):
        return ""
    command = arguments[index]
    if command.expands:
        return "which git command it is depends on an expansion"
    rest = [word.text for word in arguments[index + 1 :]]
    reason = _ALWAYS.get(command.text) or _by_command(command.text, rest)
    return f"git {command.text} {reason}" if reason else ""


def _by_command(name: str, rest: list[str]) -> str:
    for command, letters, options, reason in _BY_OPTION:
        if name == command and _has(rest, letters, *options):
            return reason
    if reason := _BY_FIRST_WORD.get((name, "".join(rest[:1])), ""):
        return reason
    match name:
        case "push" if any(re.match(r"\+|:.", text) for text in rest):
            return _OVERWRITES
        case "clean" if _has(rest, "f", "--force") and not _has(rest, "n", "--dry-run"):
            return "deletes files that are in no commit"
        case "checkout" | "restore" if any(map(_WHOLE_FOLDER.fullmatch, rest)):
            return _DROPS_WORK
        case "worktree" if "remove" in rest[:1] and _has(rest, "f", "--force"):
            return _DROPS_WORK
        case "rebase" if not _has(rest, "", *_REBASE_HARMLESS):
            return "rewrites history"
    return ""


def _has(rest: list[str], letters: str, *options: str) -> bool:
    """One of the letters among the short options, or one of the long options, also shortened or with a value."""
    for text in rest:
        if text == "--":
            return False
        if text.startswith("--"):
            name = text.partition("=")[0]
            if any(name.startswith(option) or option.startswith(name) for option in options):
                return True
        elif re.fullmatch(r"-\w+", text) and set(letters) & set(text[1:]):
            return True
    return False

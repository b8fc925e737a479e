"""A lone word that is nearly a subcommand: most likely one that was misspelt, and not a message for the model.

Only typing errors count: a few letters left out, added, changed or changed round.
"""

from tui.launch.arguments import SUBCOMMANDS

_LONG_CHARS = 8
"""From this length on two errors are forgiven, in shorter names one."""


def nearest_subcommand(word: str) -> str | None:
    """The subcommand that the word is one or two errors away from; None if there is none, or if the word is one."""
    if word in SUBCOMMANDS:
        return None
    near = {name: errors_between(word.lower(), name) for name in SUBCOMMANDS}
    name = min(near, key=lambda name: near[name])
    return name if near[name] <= (2 if len(name) >= _LONG_CHARS else 1) else None


def errors_between(word: str, name: str) -> int:
    """How many letters have to be put in, taken out, changed, or changed round with the next to get from one to the other."""
    before: list[int] = []
    row = list(range(len(name) + 1))
    for at, letter in enumerate(word, 1):
        older, before, row = before, row, [at]
        for place, wanted in enumerate(name, 1):
            errors = min(before[place] + 1, row[-1] + 1, before[place - 1] + (letter != wanted))
            if at > 1 and place > 1 and letter == name[place - 2] and word[at - 2] == wanted:
                errors = min(errors, older[place - 2] + 1)
            row.append(errors)
    return row[-1]

"""What the user decided about instruction files outside the workspace that a project's files include.

A decision holds for one target and one project, by real paths, and stands in the user's state file, never in the project:
what one project may show to the model is no business of another. Where nobody can be asked, what is undecided is refused.
"""

from pathlib import Path
from typing import Any

from agent.permissions.grants import DamagedStateError, State, StateError, edit_state, read_state
from agent.permissions.path_text import path_key

_TABLE = "includes"


class Consents:
    """The decisions for one project."""

    def __init__(self, state_file: Path, project: Path, *, can_ask: bool = True) -> None:
        """`project` is a real path. `can_ask` is false where no person sits at the terminal (print mode)."""
        self.state_file = state_file
        self.project = project
        self.can_ask = can_ask

    def decision(self, target: Path) -> bool | None:
        """Whether `target` (a real path) may be included; None: the user was not asked yet and can be.

        A state file that cannot be used holds no decision.
        """
        try:
            lists = _lists(read_state(self.state_file), self.project, self.state_file)
        except StateError:
            lists = ([], [])
        key = path_key(target)
        allowed, refused = (key in found for found in lists)
        if refused or not (allowed or self.can_ask):
            return False
        return True if allowed else None

    def decide(self, target: Path, allowed: bool) -> None:
        """Remember the user's decision about `target`, in place of an earlier one. Blocks.

        Raises:
            StateError: it could not be written; nothing changed.
        """
        key = path_key(target)

        def change(state: State) -> None:
            right, wrong = _lists(state, self.project, self.state_file)
            if not allowed:
                right, wrong = wrong, right
            if key not in right:
                right.append(key)
            while key in wrong:
                wrong.remove(key)

        edit_state(self.state_file, change)


def _lists(state: State, project: Path, file: Path) -> tuple[list[str], list[str]]:
    """The allowed and the refused targets, as they stand in `state`; made there if they are missing.

    Raises:
        DamagedStateError: something else stands in their place.
    """
    table: Any = state
    for name in (_TABLE, path_key(project)):
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise DamagedStateError(f"{file}: {name!r} must be a table; correct or remove it")
    found = table.setdefault("allowed", []), table.setdefault("refused", [])
    if not all(isinstance(paths, list) and all(isinstance(path, str) for path in paths) for paths in found):
        name = path_key(project)
        raise DamagedStateError(f'{file}: the values of [{_TABLE}."{name}"] must be lists of paths; correct them')
    return found

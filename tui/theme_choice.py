"""The theme that was chosen on the screen, kept in the user's state file. What the configuration says goes before it."""

from pathlib import Path
from typing import Any

_MAX_BYTES = 4 * 1024 * 1024


def kept_theme(state_file: Path) -> str | None:
    """The theme chosen last; None where none was, or where the file cannot be read, which is told elsewhere."""
    from agent.config.reading import UnreadableError, read_small

    try:
        file = read_small(state_file, _MAX_BYTES)
    except UnreadableError:
        return None
    if file is None or b"theme" not in file.data:
        return None
    import tomllib

    try:
        theme: Any = tomllib.loads(file.data.decode()).get("tui", {}).get("theme")
    except (ValueError, AttributeError, RecursionError):
        return None
    return theme if isinstance(theme, str) else None


def keep_theme(state_file: Path, name: str) -> None:
    """Blocks.

    Raises:
        StateError: it could not be written; nothing changed.
    """
    from agent.permissions.grants import State, edit_state

    def change(state: State) -> None:
        table = state.get("tui")
        state["tui"] = {**(table if isinstance(table, dict) else {}), "theme": name}

    edit_state(state_file, change)

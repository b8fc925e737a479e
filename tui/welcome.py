"""The first block of an empty transcript."""

from pathlib import Path

from tui.launch.listed_models import short_name
from tui.widgets.status import short_folder


def welcome_text(version: str, cwd: Path, model: str) -> str:
    """A few lines: what this is, where it works and with what, and three things worth knowing."""
    name = f"claw {version}".rstrip()
    return "\n".join(
        [
            f"{name} · {short_folder(cwd)}" + (f" · {short_name(model)}" if model else ""),
            "Enter sends, also while it works; Shift+Enter or Ctrl+J makes a new line.",
            "Shift+Tab changes what may run without asking. Esc interrupts.",
            "/ shows the commands, F1 all keys.",
        ]
    )

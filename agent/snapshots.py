"""Reads a file of the workspace as a text to pin: by the same rules as a tool reads, and once, since a pin is a snapshot."""

from collections.abc import Callable
from pathlib import Path

from agent.encodings import with_newlines
from agent.files import read_text
from agent.permissions.workspace import Workspace
from agent.tools.base import ToolError

ReadFile = Callable[[Path], str]
"""The whole text of a file with `\\n` line ends. Raises ToolError, whose text says why it cannot be read."""


def workspace_reader(workspace: Workspace, without_secrets: Callable[[str], str] = str) -> ReadFile:
    """Reads files inside the workspace, relative paths from where the session runs; what rules close stays closed, and what
    is secret in them is left out."""

    def read(path: Path) -> str:
        real = workspace.resolve(str(path))
        shown = workspace.display(real)
        if not workspace.contains(real, reading=True):
            raise ToolError(f"{shown} lies outside the workspace. Start claw with --add-dir to work with its folder.")
        if workspace.is_closed is not None and workspace.is_closed(real):
            raise ToolError(f"{shown} may not be read: a rule under [permissions] deny closes it.")
        with workspace.open_file(real) as opened:
            return without_secrets(with_newlines(read_text(opened, shown).text, "\n"))

    return read

"""Where a session runs: what decides which instruction files there are and what their variables mean."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from agent.config.paths import Paths

VARIABLES = ("workspaceFolder", "home", "cwd")
"""The names of `${…}` that stand for something."""


class Place(Struct, frozen=True):
    """Where a session runs. All paths are real."""

    paths: Paths
    project: Path
    cwd: Path
    added: tuple[Path, ...] = ()
    """Folders of --add-dir."""
    trusted: bool = True
    """Without it no file of the project or above it is looked at."""
    is_closed: Callable[[Path], bool] | None = None
    """Whether a rule of the user's forbids to read a real path, so that nothing may include it."""

    @property
    def variables(self) -> dict[str, str]:
        """What each variable stands for, as the paths are: they may hold what cannot be shown."""
        values = (self.project, self.paths.home, self.cwd)
        return dict(zip(VARIABLES, map(str, values), strict=True))

    def in_workspace(self, real: Path) -> bool:
        """Whether a real path lies in the project or an added folder."""
        return any(real.is_relative_to(folder) for folder in (self.project, *self.added))

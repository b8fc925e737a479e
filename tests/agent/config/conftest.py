from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from agent.config.layers import LoadedConfig, load_config
from agent.config.paths import Paths


class Bench:
    """A home, a managed folder and a project of their own, with the files that a test writes."""

    def __init__(self, root: Path) -> None:
        home = root / "home"
        self.paths = Paths(
            config=home / "config",
            data=home / "data",
            state=home / "state",
            cache=home / "cache",
            home=home,
            managed=root / "managed",
        )
        self.project = root / "project"
        for folder in (self.paths.config, self.paths.data, self.paths.managed, self.project / ".claw"):
            folder.mkdir(parents=True)
        self.user_file = self.paths.config_file
        self.managed_file = self.paths.managed_config_file
        self.project_file = self.project / ".claw" / "config.toml"
        self.local_file = self.project / ".claw" / "config.local.toml"

    def write(self, *, user: str = "", project: str = "", local: str = "", managed: str = "") -> "Bench":
        given = (
            (self.user_file, user),
            (self.project_file, project),
            (self.local_file, local),
            (self.managed_file, managed),
        )
        for path, text in given:
            if text:
                path.write_text(text, encoding="utf-8")
        return self

    def load(
        self,
        *overrides: str,
        env: Mapping[str, str] | None = None,
        profile: str | None = None,
        trusted: bool = True,
    ) -> LoadedConfig:
        return load_config(self.paths, self.project, env or {}, overrides, profile, trusted=trusted)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path.resolve())


def texts(loaded: LoadedConfig, severities: Sequence[str] = ("error", "warning", "notice")) -> list[str]:
    return [str(problem) for problem in loaded.problems if problem.severity in severities]

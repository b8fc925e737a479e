"""A workspace with further folders, and a home."""

from pathlib import Path

import pytest

from agent.permissions.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    for name in ("project/src", "project/.git", "extra", "spills", "home"):
        (tmp_path / name).mkdir(parents=True)
    project = tmp_path / "project"
    return Workspace(project, project / "src", extra=(tmp_path / "extra",), readable=(tmp_path / "spills",))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"

"""A real server and a desk for the tests that run claw as a process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.model_server import ModelServer
from tests.fakes.session_kit import Desk
from tests.fakes.wires import AnthropicSide, ResponsesSide
from tests.tui.in_process import Place


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
def desk(model_server: ModelServer, tmp_path: Path) -> Desk:
    """Over the API whose SDK is imported sooner."""
    (tmp_path / "project").mkdir()
    return Desk(ResponsesSide(model_server), tmp_path / "project", tmp_path / "home")


@pytest.fixture
def anthropic_desk(model_server: ModelServer, tmp_path: Path) -> Desk:
    (tmp_path / "project").mkdir()
    return Desk(AnthropicSide(model_server), tmp_path / "project", tmp_path / "home")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Place:
    """Where subcommands run within the test's process."""
    return Place(tmp_path, monkeypatch, capsys)

"""A real server for both wire APIs, and a desk where sessions are opened against it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.model_server import ModelServer
from tests.fakes.session_kit import Desk
from tests.fakes.wires import AnthropicSide, ChatSide, ResponsesSide, Wire


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture(params=["anthropic", "responses"])
def wire(request: pytest.FixtureRequest, model_server: ModelServer) -> Wire:
    """A test that asks for it runs over both vendors' APIs."""
    return AnthropicSide(model_server) if request.param == "anthropic" else ResponsesSide(model_server)


@pytest.fixture
def chat_desk(model_server: ModelServer, project: Path, tmp_path: Path) -> Desk:
    """A server that speaks the API of most compatible servers."""
    return Desk(ChatSide(model_server), project, tmp_path / "home")


@pytest.fixture
def one_wire(model_server: ModelServer) -> Wire:
    """For what does not depend on the API; the one whose SDK is imported sooner."""
    return ResponsesSide(model_server)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def desk(wire: Wire, project: Path, tmp_path: Path) -> Desk:
    return Desk(wire, project, tmp_path / "home")


@pytest.fixture
def one_desk(one_wire: Wire, project: Path, tmp_path: Path) -> Desk:
    return Desk(one_wire, project, tmp_path / "home")

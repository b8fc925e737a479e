"""Settings for the whole suite: property tests stay short, and nothing of the developer's own claw is seen or touched."""

import gc
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.examples import SUITE, THOROUGH
from tests.fakes.warm_claw import end_warm_claw

for name, count in (("suite", SUITE), ("thorough", THOROUGH)):
    settings.register_profile(name, max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
# As the program itself runs; otherwise a tenth of the time goes into looking for garbage.
gc.set_threshold(20_000, 20, 50)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are cores: a quarter of the time a test waits for a program or a clock."""
    return (os.cpu_count() or 1) + 1


_numbers = itertools.count()


@pytest.fixture(scope="session", autouse=True)
def _nothing_stays_warm() -> Iterator[None]:
    yield
    end_warm_claw()


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("claw-homes")


@pytest.fixture(autouse=True)
def _own_home(_homes: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty CLAW_HOME, and no keys or addresses from the developer's environment."""
    home = _homes / str(next(_numbers))  # `mktemp` would look through all that there are for a number
    home.mkdir()
    monkeypatch.setenv("CLAW_HOME", str(home))
    for name in (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_AUTH_TOKEN",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    return home

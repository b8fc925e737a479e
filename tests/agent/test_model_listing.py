import os
from pathlib import Path

import msgspec
import pytest

from agent.model_listing import read_listing, save_listing
from providers.base import ListedModel
from providers.types import ProviderConfig

CONFIG = ProviderConfig("anthropic", "anthropic", "http://127.0.0.1:9")
MODELS = (ListedModel("claude-next", "Next", 2_000_000, 64_000), ListedModel("claude-old"))


def test_a_listing_comes_back_for_its_own_provider_and_address_only(tmp_path: Path) -> None:
    assert read_listing(tmp_path, CONFIG) == ()
    save_listing(tmp_path / "models", CONFIG, MODELS)
    assert read_listing(tmp_path / "models", CONFIG) == MODELS
    assert read_listing(tmp_path / "models", msgspec.structs.replace(CONFIG, base_url=None)) == ()
    assert [path.suffix for path in (tmp_path / "models").iterdir()] == [".json"]


def test_an_empty_listing_replaces_nothing(tmp_path: Path) -> None:
    save_listing(tmp_path, CONFIG, MODELS)
    save_listing(tmp_path, CONFIG, ())
    assert read_listing(tmp_path, CONFIG) == MODELS


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"time_s": 0, "models": []}', b'{"time_s": 99999999999, "models": []}', b"\xff"]
)
def test_whatever_else_stands_there_is_no_listing(tmp_path: Path, data: bytes) -> None:
    save_listing(tmp_path, CONFIG, MODELS)
    (file,) = tmp_path.iterdir()
    file.write_bytes(data)
    assert read_listing(tmp_path, CONFIG) == ()


def test_odd_files_and_folders_do_no_harm(tmp_path: Path) -> None:
    save_listing(tmp_path, CONFIG, MODELS)
    (file,) = tmp_path.iterdir()
    file.unlink()
    os.mkfifo(file)
    assert read_listing(tmp_path, CONFIG) == ()
    blocked = tmp_path / "file"
    blocked.touch()
    save_listing(blocked, CONFIG, MODELS)
    assert read_listing(blocked, CONFIG) == ()

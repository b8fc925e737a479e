from pathlib import Path

import pytest

from tui.composing.dropped import dropped_paths


@pytest.fixture
def shot(tmp_path: Path) -> Path:
    path = tmp_path / "screen shot (1).png"
    path.write_bytes(b"x")
    return path


@pytest.mark.parametrize(
    "written",
    [
        lambda path: str(path),
        lambda path: f"'{path}'",
        lambda path: f'"{path}" ',
        lambda path: str(path).replace(" ", "\\ ").replace("(", "\\(").replace(")", "\\)"),
        lambda path: "file://" + str(path).replace(" ", "%20"),
        lambda path: "file://localhost" + str(path).replace(" ", "%20") + "\r\n",
    ],
)
def test_one_file_as_terminals_write_it(shot: Path, written: object) -> None:
    assert callable(written)
    assert dropped_paths(written(shot)) == [str(shot)]


def test_several_files(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b c")]
    for path in paths:
        path.touch()
    assert dropped_paths(f"{paths[0]} '{paths[1]}'") == [str(path) for path in paths]


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "/no/such/file", "hello /etc/hosts", "etc/hosts", "/etc/hosts and more", "file://host/etc/hosts",
        "/etc/hosts\nrm -rf /", "'/etc/hosts", "/" + "x" * 5_000, "/etc/ho\0sts", "~nobody-x/y",
    ],
)  # fmt: skip
def test_anything_else_is_text(text: str) -> None:
    assert dropped_paths(text) == []

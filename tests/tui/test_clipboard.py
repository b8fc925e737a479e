import stat
from pathlib import Path

import pytest

from tests.tui.test_editor import script
from tui.composing.clipboard import PastedImages, image_reader, read_image

PNG = b"\x89PNG\r\n\x1a\n and more"


def test_R8_the_reader_is_one_of_a_fixed_list_that_has_something_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    script(tmp_path / "path" / "pngpaste", "true")
    places = (str(tmp_path / "bin"),)
    assert image_reader(places) is None
    for name in ("wl-paste", "xclip"):
        script(tmp_path / "bin" / name, "true")
    reader = image_reader(places)
    assert reader is not None and reader[0] == str(tmp_path / "bin" / "xclip")


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("printf '\\211PNG\\r\\n\\032\\n and more'", PNG),
        ("echo no image", None),
        ("exit 1", None),
        ("cat /dev/zero", None),
        ("printf '\\211PNG\\r\\n\\032\\n'; cat /dev/zero", None),
    ],
)
async def test_only_an_image_counts(tmp_path: Path, body: str, found: bytes | None) -> None:
    assert await read_image([str(script(tmp_path / "reader", body))]) == found
    assert await read_image([str(tmp_path / "gone")]) is None


def test_images_are_kept_privately() -> None:
    images = PastedImages()
    first, second = images.keep(PNG), images.keep(PNG)
    assert first.read_bytes() == PNG and first != second
    assert stat.S_IMODE(first.stat().st_mode) == 0o600 and stat.S_IMODE(first.parent.stat().st_mode) == 0o700

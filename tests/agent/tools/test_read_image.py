import io
from pathlib import Path
from typing import cast

import msgspec
import pytest
from PIL import Image

from agent.images import ImageLimits
from agent.permissions.workspace import Workspace
from agent.processes import Spawner
from agent.results import SpillFolder, to_result
from agent.tools.base import ToolContext, ToolError, ToolOutput
from agent.tools.details import TextDetails
from agent.tools.read import Read, ReadParams
from providers.types import ImageBlock, TextBlock, ToolCall

LIMITS = ImageLimits(200, 1_000_000)


async def read(root: Path, name: str, limits: ImageLimits | None = LIMITS) -> ToolOutput:
    context = ToolContext(
        "c",
        Workspace(root, root),
        cast(Spawner, None),  # no file tool uses it
        {},
        lambda text: None,
        image_limits=limits,
    )
    return await Read().run(msgspec.convert({"path": name}, ReadParams), context)


def save(path: Path, kind: str, size: tuple[int, int] = (400, 100)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, "green").save(buffer, kind)
    path.write_bytes(buffer.getvalue())
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_an_image_is_shown_scaled_with_its_name_whatever_the_file_is_called(tmp_path: Path, kind: str) -> None:
    save(tmp_path / "shot.dat", kind)
    output = await read(tmp_path, "shot.dat")
    assert output.text == "[Image shot.dat, 200×50 pixels, scaled down from 400×100]"
    (block,), (blob,) = output.images, output.blobs
    assert (block.width, block.height, block.sha256, block.size_bytes) == (200, 50, blob.sha256, len(blob.data))
    assert isinstance(output.details, TextDetails)
    assert output.details.summary.startswith("image, 200×50 pixels")
    assert output.files == ()


async def test_the_bytes_go_into_the_record_with_the_result(tmp_path: Path) -> None:
    data = save(tmp_path / "a.png", "PNG", (30, 30))
    output = await read(tmp_path, "a.png")
    result, blobs = to_result(ToolCall("c", "read", "{}"), "a.png", output, 5, 1_000, SpillFolder(tmp_path), len)
    assert [type(block) for block in result.blocks] == [TextBlock, ImageBlock]
    assert [blob.data for blob in blobs] == [data]


async def test_a_model_that_sees_no_images_is_told_so(tmp_path: Path) -> None:
    save(tmp_path / "a.png", "PNG")
    with pytest.raises(ToolError, match=r"a\.png is a binary file \(a PNG image, .* and this model sees no images"):
        await read(tmp_path, "a.png", None)


async def test_a_damaged_image_is_an_error_for_the_model(tmp_path: Path) -> None:
    data = save(tmp_path / "a.png", "PNG")
    (tmp_path / "a.png").write_bytes(data[:60])
    with pytest.raises(ToolError, match=r"a\.png"):
        await read(tmp_path, "a.png")


async def test_text_that_speaks_of_images_is_text(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("GIF8 is how it begins\n")
    assert (await read(tmp_path, "a")).text == "1\tGIF8 is how it begins"

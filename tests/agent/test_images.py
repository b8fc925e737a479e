import hashlib
import io
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image, ImageOps

from agent.images import (
    ImageError,
    ImageLimits,
    image_limits,
    image_line,
    load_image,
    refuses_attachment,
    without_largest,
)
from agent.transcript import Assistant, AttachmentBlock, Clearing, Result, User
from providers.errors import BadRequestError, ContextOverflowError, ProviderError, classify
from providers.types import ImageBlock, TextBlock, Usage
from tests.agent.context.talk import Talk, texts

SMALL = ImageLimits(200, 3_000_000)


def encoded(
    size: tuple[int, int], kind: str = "PNG", mode: str = "RGB", noise: bool = False, **options: object
) -> bytes:
    picture = Image.effect_noise(size, 80).convert(mode) if noise else Image.new(mode, size, "red")
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


# --------------------------------------------------------------------------- on entry


@pytest.mark.parametrize(
    ("kind", "media_type"), [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("GIF", "image/gif"), ("WEBP", "image/webp")]
)
def test_what_fits_stays_as_it_is(kind: str, media_type: str) -> None:
    data = encoded((100, 60), kind)
    loaded = load_image(data, "shot.png", SMALL)
    assert loaded.blob.data == data
    assert loaded.block == ImageBlock(media_type, hashlib.sha256(data).hexdigest(), 100, 60, len(data))
    assert loaded.caption.text == "[Image shot.png, 100×60 pixels]"


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "PPM"])
def test_a_kind_that_no_provider_takes_is_sent_as_png(kind: str) -> None:
    loaded = load_image(encoded((100, 60), kind), "shot", SMALL)
    assert loaded.block.media_type == "image/png"
    assert opened(loaded.blob.data).size == (100, 60)
    assert "scaled" not in loaded.caption.text


@pytest.mark.parametrize(
    ("size", "scaled"),
    [((400, 100), (200, 50)), ((100, 800), (25, 200)), ((201, 200), (200, 199)), ((2_000, 1), (200, 1))],
)
def test_the_longest_edge_is_the_providers_and_the_shape_stays(size: tuple[int, int], scaled: tuple[int, int]) -> None:
    loaded = load_image(encoded(size), "shot.png", SMALL)
    assert (loaded.block.width, loaded.block.height) == scaled == opened(loaded.blob.data).size
    assert f"{scaled[0]}×{scaled[1]} pixels, scaled down from {size[0]:,}×{size[1]:,}]" in loaded.caption.text


def test_the_limits_are_the_providers() -> None:
    assert image_limits("anthropic").longest_edge_px == 1_568
    assert image_limits("responses").longest_edge_px == image_limits("chat").longest_edge_px == 2_048
    assert image_limits("anthropic").max_bytes * 4 / 3 <= 5_000_000


@pytest.mark.parametrize("max_bytes", [60_000, 20_000, 3_000])
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P"])
def test_too_many_bytes_are_brought_under_the_limit(max_bytes: int, mode: str) -> None:
    data = encoded((300, 300), mode=mode, noise=True)
    assert len(data) > max_bytes
    loaded = load_image(data, "noise.png", ImageLimits(1_000, max_bytes))
    assert len(loaded.blob.data) <= max_bytes
    assert loaded.block.size_bytes == len(loaded.blob.data)
    assert loaded.block.media_type == {"JPEG": "image/jpeg", "PNG": "image/png"}[opened(loaded.blob.data).format or ""]


def test_what_is_see_through_stays_so_where_it_is_scaled() -> None:
    picture = Image.new("RGBA", (400, 400), (255, 0, 0, 0))
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    scaled = opened(load_image(buffer.getvalue(), "glass.png", SMALL).blob.data)
    assert scaled.mode == "RGBA"
    assert scaled.getpixel((100, 100))[3] == 0  # type: ignore[index]  # a tuple in this mode


def test_a_turned_photograph_is_set_upright() -> None:
    picture = Image.new("RGB", (120, 60), "blue")
    exif = picture.getexif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", exif=exif)
    loaded = load_image(buffer.getvalue(), "photo.jpg", SMALL)
    assert (loaded.block.width, loaded.block.height) == (60, 120)
    upright = opened(loaded.blob.data)
    assert ImageOps.exif_transpose(upright).size == (60, 120)


def test_a_moving_image_that_is_scaled_keeps_its_first_frame() -> None:
    frames = [Image.new("RGB", (400, 400), colour) for colour in ("red", "blue")]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
    loaded = load_image(buffer.getvalue(), "moving.gif", SMALL)
    assert opened(loaded.blob.data).convert("RGB").getpixel((5, 5)) == (255, 0, 0)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no image"),
        (b"plain text", "no image"),
        (encoded((90, 90), noise=True)[:3_000], "damaged"),
        (encoded((90, 90), "JPEG", noise=True)[:400], "damaged"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 40, "image"),
    ],
)
def test_what_is_no_whole_image_is_refused_with_its_name(data: bytes, said: str) -> None:
    with pytest.raises(ImageError, match=r"shot\.png") as refused:
        load_image(data, "shot.png", SMALL)
    assert said in str(refused.value)


@pytest.mark.parametrize("pixels", [(20_000, 20_000), (60_000, 60_000)])
def test_a_picture_that_would_fill_the_memory_is_not_decoded(pixels: tuple[int, int]) -> None:
    head = bytearray(encoded((1, 1)))
    head[16:24] = pixels[0].to_bytes(4, "big") + pixels[1].to_bytes(4, "big")
    head[29:33] = zlib.crc32(bytes(head[12:29])).to_bytes(4, "big")
    with pytest.raises(ImageError):
        load_image(bytes(head), "bomb.png", SMALL)


def test_pillow_is_not_imported_before_there_is_an_image() -> None:
    code = "import sys, agent.images, agent.tools.read, agent.session; sys.exit('PIL' in sys.modules)"
    repository = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=repository, timeout=60, check=False).returncode == 0


# --------------------------------------------------------------------------- out of the window


def picture(n: int, size_bytes: int) -> ImageBlock:
    return ImageBlock("image/png", f"{n:064}", 10, 10, size_bytes)


def test_a_line_names_path_and_size_as_far_as_they_are_known() -> None:
    image = load_image(encoded((100, 60)), "docs/a, b.png", SMALL)
    line = image_line((image.caption, image.block), 1, 7)
    assert "docs/a, b.png, image/png, 100×60 pixels" in line
    assert f"{image.block.size_bytes:,} bytes; entry 7 of the session has it]" in line
    bare = image_line((TextBlock("[Image of something]"), ImageBlock("image/png", "0" * 64)), 1, 7)
    assert bare == "[An image was here and was taken out: image/png; entry 7 of the session has it]"


def _no_blob(sha256: str) -> int:
    raise AssertionError("the size is known")


def apply(talk: Talk, size_of: Callable[[str], int] = _no_blob) -> Clearing | None:
    clearing = without_largest(talk.transcript.branch, talk.window, size_of)
    if clearing is not None:
        assert clearing.reason == "budget"
        talk.append(clearing)
    return clearing


def test_the_largest_image_that_was_not_sent_yet_is_taken_out_first() -> None:
    talk = Talk()
    old = talk.append(User((picture(0, 9_000_000),))).key
    talk.reply("seen")
    new = talk.append(User((TextBlock("look"), picture(1, 10), picture(2, 4_000_000), picture(3, 20)))).key
    # The refused request left an empty reply, as every request does that broke off.
    talk.append(Assistant((), "p", "m", "anthropic", "m", None, Usage(), "unknown", interrupted=True))
    for key, place in ((new, 2), (new, 3), (new, 1), (old, 0)):
        clearing = apply(talk)
        assert clearing is not None
        assert [(item.key, item.block) for item in clearing.items] == [(key, place)]
    assert apply(talk) is None
    assert texts(talk.window).count("An image was here and was taken out") == 4
    assert "look" in texts(talk.window)


def test_an_attachment_counts_by_its_text_and_is_named_by_its_path() -> None:
    talk = Talk()
    block = AttachmentBlock("docs/long.md", "é" * 5_000)
    talk.append(User((TextBlock("see"), block, AttachmentBlock("a.md", "short"), picture(1, 9_000))))
    assert apply(talk) is not None
    sent = texts(talk.window)
    assert "[docs/long.md was attached here and was taken out: 10,000 bytes; read it in parts]" in sent
    assert "short" in sent


def test_images_of_a_result_go_and_its_text_stays() -> None:
    talk = Talk()
    talk.user("go")
    talk.reply("look", ("c",))
    talk.append(Result("c", "read", (TextBlock("a page"), picture(1, 0), TextBlock("more"))))
    assert apply(talk, lambda sha256: 77) is not None
    assert "a page\n[An image was here" in texts(talk.window)
    assert "more" in texts(talk.window)
    assert not talk.window.open_calls
    assert apply(talk, lambda sha256: 77) is None


def test_without_images_nothing_is_taken_out() -> None:
    talk = Talk()
    talk.user("go")
    talk.step("c", "text")
    assert apply(talk) is None


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (
            BadRequestError("messages.0.content.1.image: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes"),
            True,
        ),
        (BadRequestError("image dimensions exceed max allowed size: 8000 pixels"), True),
        (BadRequestError("image dimensions exceed max allowed size for many-image requests: 2000 pixels"), True),
        (BadRequestError("Invalid image: the image is too large. Maximum size is 20 MB."), True),
        (classify("Request exceeds the maximum allowed number of bytes.", status=413, kind="request_too_large"), True),
        (classify("", status=413), True),
        (BadRequestError("The file is too large"), True),
        (BadRequestError("image media type is not supported"), False),
        (BadRequestError("max_tokens is too large"), False),
        (ContextOverflowError("prompt is too long: 210000 tokens > 200000 maximum"), False),
        (ProviderError("overloaded"), False),
    ],
)
def test_the_providers_words_for_too_large_are_known(error: ProviderError, refused: bool) -> None:
    assert refuses_attachment(error) is refused

"""Images on their way into the record: scaled to what the provider looks at, named by a caption, and taken out again.

Nothing here sends or stores; the caller appends what comes back. Limits as of 2026-11: Anthropic scales what is longer than
1,568 pixels and takes 5 MB of base64 an image, OpenAI fits an image into 2,048 pixels. Decisions: bytes within the limits stay
as they are; of a moving image that has to be scaled the first frame is kept; what a provider refuses is cleared with reason
"budget", as is all that never reaches a model because of its size.
"""

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from agent.store.base import Blob
from agent.transcript import Assistant, AttachmentBlock, ClearedItem, Clearing, Entry, Result, User
from agent.window import Window
from providers.errors import ProviderError
from providers.types import ImageBlock, TextBlock, WireApi

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_FILE_BYTES = 64 * 1024 * 1024
_MOST_PIXELS = 120_000_000
"""A larger picture is not even decoded: it would take gigabytes."""
_SENT_AS_IS = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
_QUALITIES = (85, 70, 50)
_SHRINK = 0.75
_TRIES = 12
_ORIENTATION = 0x0112
_CAPTION = re.compile(r"\[Image (?P<name>.+), [\d,]+×[\d,]+ pixels(?:, scaled down from [\d,]+×[\d,]+)?\]")
_REFUSED = re.compile(
    r"image.{0,60}(?:exceeds?|too (?:large|big)|larger than|maximum)|(?:exceeds?|too (?:large|big)).{0,60}image"
    r"|(?:attachment|file|document|request).{0,40}(?:too large|exceeds? the maximum (?:allowed )?(?:size|number of bytes))"
    r"|request_too_large|payload too large",
    re.IGNORECASE | re.DOTALL,
)


class ImageError(Exception):
    """The file cannot be shown to a model; the text says why and what to do."""


class ImageLimits(Struct, frozen=True):
    longest_edge_px: int
    max_bytes: int
    """Of the image's own bytes, before base64."""


class LoadedImage(Struct, frozen=True):
    """`caption` is to stand right before `block`, and `blob` goes into the store in the same transaction."""

    caption: TextBlock
    block: ImageBlock
    blob: Blob


def image_limits(api: WireApi) -> ImageLimits:
    """What is worth sending at a wire API."""
    return ImageLimits(1_568 if api == "anthropic" else 2_048, 3_750_000)


def load_image(data: bytes, name: str, limits: ImageLimits) -> LoadedImage:
    """An image file's bytes as they are to be sent. Decodes and scales: call it in a thread. `name` is for the caption.

    Raises:
        ImageError: no image, a damaged one, or one that is far too large.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data)) as image:
            width, height = image.size
            if width * height > _MOST_PIXELS:
                raise ImageError(f"{name} has {width:,}×{height:,} pixels, which is too many. Scale it down first.")
            media_type = _SENT_AS_IS.get(image.format or "")
            turned = image.getexif().get(_ORIENTATION, 1) != 1
            fits = max(width, height) <= limits.longest_edge_px and len(data) <= limits.max_bytes
            if media_type is not None and fits and not turned:
                image.load()
                return _loaded(data, media_type, (width, height), None, name)
            return _scaled(image, name, limits)
    except UnidentifiedImageError:
        raise ImageError(f"{name} is no image that can be read (PNG, JPEG, GIF, WebP, BMP and TIFF can).") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ImageError(f"{name} is a damaged image: {error}.") from None


def _scaled(image: "Image", name: str, limits: ImageLimits) -> LoadedImage:
    from PIL import ImageOps

    original = image.size
    upright = ImageOps.exif_transpose(image)
    upright = upright.convert("RGBA" if upright.has_transparency_data else "RGB")
    edge = limits.longest_edge_px
    for _ in range(_TRIES):
        upright.thumbnail((edge, edge))
        for data, media_type in _encodings(upright):
            if len(data) <= limits.max_bytes:
                scaled = None if set(upright.size) == set(original) else original
                return _loaded(data, media_type, upright.size, scaled, name)
        edge = max(1, int(max(upright.size) * _SHRINK))
    raise ImageError(f"{name} cannot be made small enough.")


def _encodings(image: "Image") -> Iterator[tuple[bytes, str]]:
    """The picture encoded, best first."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    yield buffer.getvalue(), "image/png"
    flat = image.convert("RGB")
    for quality in _QUALITIES:
        buffer = io.BytesIO()
        flat.save(buffer, "JPEG", quality=quality)
        yield buffer.getvalue(), "image/jpeg"


def _loaded(
    data: bytes, media_type: str, size: tuple[int, int], scaled_from: tuple[int, int] | None, name: str
) -> LoadedImage:
    blob = Blob.of(data)
    was = "" if scaled_from is None else f", scaled down from {scaled_from[0]:,}×{scaled_from[1]:,}"
    caption = f"[Image {name}, {size[0]:,}×{size[1]:,} pixels{was}]"
    return LoadedImage(TextBlock(caption), ImageBlock(media_type, blob.sha256, *size, len(data)), blob)


# --------------------------------------------------------------------------- out of the window


def image_line(blocks: Sequence[object], place: int, key: int) -> str:
    """What stands instead of the image at `place` among an entry's blocks: its path where a caption says it, and its size."""
    image = blocks[place]
    assert isinstance(image, ImageBlock)
    before = blocks[place - 1] if place else None
    caption = _CAPTION.match(before.text) if isinstance(before, TextBlock) else None
    name = f"{caption['name']}, {image.media_type}" if caption else image.media_type
    pixels = f", {image.width:,}×{image.height:,} pixels" if image.width else ""
    size = f", {image.size_bytes:,} bytes" if image.size_bytes else ""
    return f"[An image was here and was taken out: {name}{pixels}{size}; entry {key} of the session has it]"


def refuses_attachment(error: ProviderError) -> bool:
    """Whether the provider says that an image, a file or the body is too large in bytes or pixels (not in tokens)."""
    return error.status == 413 or _REFUSED.search(error.message) is not None


def without_largest(branch: Sequence[Entry], window: Window, size_of: Callable[[str], int]) -> Clearing | None:
    """Take the largest image or attachment out, so that the request can be sent once more; None if there is none.

    What came since the last whole reply goes first: the rest was accepted before. `size_of`: bytes of a blob by its sha256;
    may raise KeyError.
    """
    places = {keys[0]: index for index, keys in enumerate(window.keys) if keys}
    replies = (e.key for e in reversed(branch) if isinstance(e.payload, Assistant) and not e.payload.interrupted)
    answered = next(replies, 0)
    found: list[tuple[bool, int, ClearedItem]] = []
    for entry in branch:
        if (index := places.get(entry.key)) is not None:
            standing = window.messages[index].blocks
            found += [(entry.key > answered, size, item) for size, item in _attached(entry, standing, size_of)]
    if not found:
        return None
    return Clearing((max(found, key=lambda each: each[:2])[2],), "budget")


def _attached(
    entry: Entry, standing: Sequence[object], size_of: Callable[[str], int]
) -> Iterator[tuple[int, ClearedItem]]:
    """Bytes of each image and attachment that stands in the entry's message, and what would stand instead."""
    payload = entry.payload
    if not isinstance(payload, User | Result):
        return
    shown = {block for block in standing if isinstance(block, ImageBlock)}
    for place, block in enumerate(payload.blocks):
        if isinstance(block, ImageBlock) and block in shown:
            size = block.size_bytes
            with contextlib.suppress(KeyError):
                size = size or size_of(block.sha256)
            if isinstance(payload, User):
                yield size, ClearedItem(entry.key, image_line(payload.blocks, place, entry.key), place)
            else:
                yield size, ClearedItem(entry.key, with_image_lines(payload, entry.key))
        elif isinstance(block, AttachmentBlock) and block.text and any(block.text in _text(b) for b in standing):
            size = len(block.text.encode("utf-8", "replace"))
            line = f"[{block.path} was attached here and was taken out: {size:,} bytes; read it in parts]"
            yield size, ClearedItem(entry.key, line, place)


def with_image_lines(result: Result, key: int) -> str:
    """The text of a result with a line instead of each of its images."""
    return "\n".join(
        block.text if isinstance(block, TextBlock) else image_line(result.blocks, place, key)
        for place, block in enumerate(result.blocks)
    )


def _text(block: object) -> str:
    return block.text if isinstance(block, TextBlock) else ""

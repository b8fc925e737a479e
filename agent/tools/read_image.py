"""What `read` gives of an image file: the picture, scaled for the model, with a caption. Knows nothing of text."""

import os

from agent.files import describe_binary, read_bytes
from agent.images import MOST_FILE_BYTES, ImageError, ImageLimits, load_image
from agent.permissions.workspace import OpenedFile
from agent.tools.base import ToolError, ToolOutput
from agent.tools.details import TextDetails

_HEAD_BYTES = 12
_MAGIC = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")


def is_image(opened: OpenedFile) -> bool:
    """Whether the file begins as a PNG, JPEG, GIF or WebP does; False where it cannot be read."""
    try:
        head = os.pread(opened.fd, _HEAD_BYTES, 0)
    except OSError:
        return False
    return head.startswith(_MAGIC) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")


def read_image(opened: OpenedFile, shown: str, limits: ImageLimits | None) -> ToolOutput:
    """The image itself. Decodes and scales: call it in a thread. `limits` of None: the model sees no images.

    Raises:
        ToolError: it cannot be shown; the text says why.
    """
    if limits is None:
        what = describe_binary(os.pread(opened.fd, _HEAD_BYTES, 0), opened.stat.st_size)
        raise ToolError(f"{shown} is {what}, and this model sees no images. Use a command for what you need of it.")
    try:
        loaded = load_image(read_bytes(opened, MOST_FILE_BYTES, shown), shown, limits)
    except ImageError as error:
        raise ToolError(str(error)) from None
    block = loaded.block
    details = TextDetails(f"image, {block.width:,}×{block.height:,} pixels, {block.size_bytes:,} bytes")
    return ToolOutput(loaded.caption.text, details, (block,), (loaded.blob,))

"""An image as requests carry it: its bytes in base64, or where they cannot be had a sentence that stands instead."""

import base64
from collections.abc import Callable

from providers.types import ImageBlock

LoadBlob = Callable[[str], bytes]
"""sha256 → bytes; raises KeyError or OSError where there are none."""


def image_base64(block: ImageBlock, load_blob: LoadBlob | None) -> str:
    """The image's bytes in base64; "" where they cannot be had."""
    try:
        data = load_blob(block.sha256) if load_blob is not None else b""
    except (KeyError, OSError):
        data = b""
    return base64.b64encode(data).decode()


def missing_image(block: ImageBlock) -> str:
    """What stands instead of an image that cannot be sent."""
    return f"[An image of type {block.media_type} ({block.sha256[:12]}) that cannot be sent.]"

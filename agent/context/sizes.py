"""The size of contents as the meter adds it up: text, images in tokens, images in bytes. Plain arithmetic."""

from collections.abc import Iterable
from typing import NamedTuple


class Size(NamedTuple):
    """Uncalibrated tokens, text and images apart since they are counted in different ways; and bytes of images."""

    text: int = 0
    images: int = 0
    image_bytes: int = 0

    def plus(self, other: "Size") -> "Size":
        return Size(self.text + other.text, self.images + other.images, self.image_bytes + other.image_bytes)

    def minus(self, other: "Size") -> "Size":
        return Size(self.text - other.text, self.images - other.images, self.image_bytes - other.image_bytes)

    def calibrated(self, factor: float) -> int:
        """Tokens as the provider counts them; images are its own figures already."""
        return round(self.text * factor) + self.images


def total(sizes: Iterable[Size]) -> Size:
    added = Size()
    for size in sizes:
        added = added.plus(size)
    return added

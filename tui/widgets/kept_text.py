"""A text that is kept for as long as its session is open and seldom looked at: long ones are packed. Pure."""

import zlib

_PACKED_CHARS = 400


class KeptText:
    """Gives back the very text it was made of. False where that is empty."""

    __slots__ = ("_kept",)

    def __init__(self, text: str) -> None:
        self._kept: str | bytes = text
        if len(text) >= _PACKED_CHARS:
            self._kept = zlib.compress(text.encode("utf-8", "surrogatepass"), 1)

    @property
    def text(self) -> str:
        kept = self._kept
        return kept if isinstance(kept, str) else zlib.decompress(kept).decode("utf-8", "surrogatepass")

    def __bool__(self) -> bool:
        return bool(self._kept)

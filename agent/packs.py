"""What was said long ago, kept small: values of many entries in one compressed piece, and the pieces that were opened last.

It knows bytes and how to make values of them; whose values they are is the transcript's to know.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

_OPEN = 4
_MOST_VALUES, _MOST_BYTES = 64, 256 * 1024
"""Of one pack."""


class Opened(Generic[T]):
    """The pieces looked into last, shared by the packs of one transcript: whoever goes through it opens each once."""

    def __init__(self, decode: Callable[[bytes], Sequence[T]]) -> None:
        """`decode` makes the values of a JSON list."""
        self.decode = decode
        self.newest: tuple[tuple[Pack[T], Sequence[T]], ...] = ()
        """Replaced and never changed, since threads read it too."""


class Pack(Generic[T]):
    """Some values, in order."""

    __slots__ = ("_data", "_opened")

    def __init__(self, encoded: Sequence[bytes], opened: Opened[T]) -> None:
        """`encoded`: the JSON of each value."""
        self._data = zlib.compress(b"[%b]" % b",".join(encoded), 3)
        self._opened = opened

    def values(self) -> Sequence[T]:
        opened = self._opened
        newest = opened.newest
        if newest and newest[0][0] is self:
            return newest[0][1]
        found = next((values for pack, values in newest if pack is self), None)
        values = opened.decode(zlib.decompress(self._data)) if found is None else found
        others = [pair for pair in newest if pair[0] is not self]
        opened.newest = ((self, values), *others[: _OPEN - 1])
        return values


def packed(encoded: Sequence[bytes], opened: Opened[T]) -> Iterator[tuple[Pack[T], int]]:
    """For each value the pack that has it, and its place there."""
    start = 0
    while start < len(encoded):
        end, size = start, 0
        while end < len(encoded) and (end == start or (end - start < _MOST_VALUES and size < _MOST_BYTES)):
            size += len(encoded[end])
            end += 1
        pack = Pack(encoded[start:end], opened)
        yield from ((pack, place) for place in range(end - start))
        start = end

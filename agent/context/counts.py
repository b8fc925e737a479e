"""Token counts by entry key, four bytes each: a long session has tens of thousands."""

from array import array
from collections.abc import Iterable

_NONE = -1
_MOST = (1 << 31) - 1
_FAR = 1 << 16
"""A key so far behind the last one stands alone: keys are dense but for what a damaged file may claim."""


class Counts:
    """Entry key → tokens. Keys are positive."""

    def __init__(self) -> None:
        self._dense = array("i")
        self._far: dict[int, int] = {}

    def __contains__(self, key: int) -> bool:
        return self.get(key) is not None

    def __getitem__(self, key: int) -> int:
        if (count := self.get(key)) is None:
            raise KeyError(key)
        return count

    def get(self, key: int) -> int | None:
        if 0 <= key < len(self._dense) and (count := self._dense[key]) != _NONE:
            return count
        return self._far.get(key)

    def __setitem__(self, key: int, count: int) -> None:
        dense = self._dense
        if not 0 <= key < len(dense) + _FAR:
            self._far[key] = count
            return
        if key >= len(dense):
            dense.extend([_NONE] * (key + 1 - len(dense)))
        self._far.pop(key, None)
        dense[key] = min(count, _MOST)

    def discard(self, key: int) -> None:
        if 0 <= key < len(self._dense):
            self._dense[key] = _NONE
        self._far.pop(key, None)

    def items(self) -> Iterable[tuple[int, int]]:
        yield from ((key, count) for key, count in enumerate(self._dense) if count != _NONE)
        yield from self._far.items()

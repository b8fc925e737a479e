"""The ids of all calls that a session has had, of each only a hash: there are thousands, and one thing is asked of them."""

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable


class CallIds:
    """Providers use their ids again, and some refuse a request in which one stands twice.

    An id whose hash is another one's passes for known, which gives it a suffix that it would not need.
    """

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._hashes = array("q", sorted(set(map(hash, ids))))

    def add(self, ids: Iterable[str]) -> None:
        for id_ in ids:
            if id_ not in self:
                insort(self._hashes, hash(id_))

    def __contains__(self, id_: object) -> bool:
        wanted = hash(id_)
        place = bisect_left(self._hashes, wanted)
        return place < len(self._hashes) and self._hashes[place] == wanted

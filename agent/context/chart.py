"""The gauge over a session as far as the record tells: what each reply reported, and where the window was made smaller.

Between reports the sizes of entries are added up, so that a server which reports nothing has a chart too. Pure; it costs
one pass over the branch. Decisions: a clearing or drop takes off what it removed by the sizes of entries; undoing an edit
or a compaction puts back what that took.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from agent.context.pieces import ChartPoint
from agent.transcript import Assistant, Clearing, Compaction, Drop, Entry, Pin, Prefix, Reminder, Result, Undo, User

_Event = Literal["step", "compaction", "clearing", "edit", "undo"]


def chart(branch: Sequence[Entry], size: Callable[[Entry], int], count: Callable[[str], int]) -> list[ChartPoint]:
    """A point for each reply and for each change of the window, in the order of the record.

    `size` gives the tokens that an entry adds to a request (of a prefix: all of it), `count` those of a text.
    """
    return _Chart(branch, size, count).points


class _Chart:
    def __init__(self, branch: Sequence[Entry], size: Callable[[Entry], int], count: Callable[[str], int]) -> None:
        self.points: list[ChartPoint] = []
        self._size = size
        self._count = count
        self._used = 0
        self._prefix = 0
        self._sizes: dict[int, int] = {}
        """Key → tokens, as far as entries were met, and what stands of them now."""
        self._taken: dict[int, int] = {}
        """Key of an edit or compaction → tokens that it took."""
        for entry in branch:
            self._meet(entry)

    def _meet(self, entry: Entry) -> None:
        match entry.payload:
            case Prefix():
                size = self._size(entry)
                self._used, self._prefix = self._used + size - self._prefix, size
            case User() | Result() | Reminder(of=None) | Pin(keys=()):
                self._add(entry)
            case Assistant() as reply:
                self._add(entry)
                if reply.usage.reported:
                    self._used = reply.usage.prompt_tokens + reply.usage.output_tokens - reply.usage.thinking_tokens
                self._mark(entry.key, "step")
            case Compaction(tokens_before=before, tokens_after=after):
                self._take(entry.key, before - after, "compaction")
                self._used = after
                self.points[-1] = ChartPoint(entry.key, after, "compaction")
            case Clearing(items=items, reason=reason):
                whole = {item.key for item in items}
                taken = sum(self._sizes.get(key, 0) for key in whole) - sum(self._count(item.text) for item in items)
                self._take(entry.key, max(0, taken), "edit" if reason == "user" else "clearing")
            case Drop(keys=keys):
                self._take(entry.key, sum(self._sizes.get(key, 0) for key in keys), "edit")
            case Undo(keys=keys):
                self._take(entry.key, -sum(self._taken.get(key, 0) for key in keys), "undo")

    def _add(self, entry: Entry) -> None:
        self._sizes[entry.key] = size = self._size(entry)
        self._used += size

    def _take(self, key: int, tokens: int, event: _Event) -> None:
        self._taken[key] = tokens
        self._used = max(0, self._used - tokens)
        self._mark(key, event)

    def _mark(self, key: int, event: _Event) -> None:
        self.points.append(ChartPoint(key, max(0, self._used), event))

"""Where a compaction cuts: which messages stay word for word behind the summary. Pure; knows window and estimates only.

A group is a user message, or a reply with its results, so that a cut between groups never parts a call from its result.
"""

from collections.abc import Sequence

from msgspec import Struct

from agent.window import Window
from providers.types import ToolResultMessage


class Cut(Struct, frozen=True):
    first_kept: int
    """Key of the first entry that stays."""
    index: int
    """Index in the window of the first message that stays."""
    first_replaced: int
    """Index of the first message that is summarised: 1 behind an earlier compaction's message, else 0."""
    kept_tokens: int


class NoCut(Struct, frozen=True):
    reason: str


class _Group(Struct, frozen=True):
    index: int
    first_key: int
    tokens: int


def find_cut(
    window: Window,
    sizes: Sequence[int],
    *,
    room_tokens: int,
    keep_tokens: int,
    preserve_recent: int,
) -> Cut | NoCut:
    """Cut so that the tail holds at most min(`keep_tokens`, room / 4) tokens, but at least the last `preserve_recent`
    groups; fewer of these if they are over half of the room, and one in any case.

    `sizes` are the tokens of each of the window's messages. With `keep_tokens` = 0 only `preserve_recent` counts.
    """
    first = 0 if window.compaction is None else 1
    groups = _groups(window, sizes, first)
    if not groups:
        return NoCut("there are no messages behind the last compaction" if first else "there are no messages yet")
    kept = _kept_groups(groups, room_tokens, min(keep_tokens, room_tokens // 4), preserve_recent)
    if kept == len(groups):
        what = "the only message stays as it is" if kept == 1 else f"all {kept} messages stay as they are"
        return NoCut(f"there is nothing to compact: {what}")
    start = groups[len(groups) - kept]
    return Cut(start.first_key, start.index, first, sum(group.tokens for group in groups[-kept:]))


def smallest_tail_tokens(window: Window, sizes: Sequence[int]) -> int:
    """Tokens of the newest group, which every compaction keeps; 0 if there is none."""
    groups = _groups(window, sizes, 0 if window.compaction is None else 1)
    return groups[-1].tokens if groups else 0


def _kept_groups(groups: Sequence[_Group], room: int, target: int, preserve: int) -> int:
    total = kept = 0
    for group in reversed(groups):
        total += group.tokens
        within = total <= target or (kept < preserve and total <= room // 2)
        if kept and not within:
            break
        kept += 1
    return kept


def _groups(window: Window, sizes: Sequence[int], first: int) -> list[_Group]:
    groups: list[_Group] = []
    last_key = 0
    for index in range(first, len(window.messages)):
        keys = window.keys[index]
        if groups and isinstance(window.messages[index], ToolResultMessage):
            last = groups[-1]
            groups[-1] = _Group(last.index, last.first_key, last.tokens + sizes[index])
        else:
            # A reminder that waited for this message has a smaller key and has to stay with it.
            earliest = min(keys)
            groups.append(_Group(index, earliest if earliest > last_key else keys[0], sizes[index]))
        last_key = max(last_key, *keys, 0)
    return groups

"""Where a compaction cuts: which messages go and which stay word for word. Pure; knows window and estimates only.

A group is a user message, or a reply with its results, so that a cut between groups never parts a call from its result.
What the user asks for ("from here", "up to here") is moved to the next boundary between groups.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from agent.transcript import Compaction, Entry, of_kinds, undone_keys
from agent.window import Window
from providers.types import ToolResultMessage


class Cut(Struct, frozen=True):
    first_kept: int
    """Key of the first entry that stays; one past the head if none stays."""
    start: int
    """Index in the window of the first message that is summarised: 1 behind an earlier compaction's message, else 0."""
    end: int
    """Index in the window of the first message behind those that are summarised."""
    kept_tokens: int
    """Of the messages from `end` on."""
    first_replaced: int = 0
    """Not 0: key of the first entry that goes; what stands before `start` stays."""


class NoCut(Struct, frozen=True):
    reason: str


class Group(Struct, frozen=True):
    """One boundary's worth of messages."""

    index: int
    """Of its first message in the window."""
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
    first = _start(window)
    groups = message_groups(window, sizes)
    if not groups:
        return NoCut("there are no messages behind the last compaction" if first else "there are no messages yet")
    kept = _kept_groups(groups, room_tokens, min(keep_tokens, room_tokens // 4), preserve_recent)
    if kept == len(groups):
        what = "the only message stays as it is" if kept == 1 else f"all {kept} messages stay as they are"
        return NoCut(f"there is nothing to compact: {what}")
    return _cut_before(groups, len(groups) - kept, first)


def cut_up_to(window: Window, sizes: Sequence[int], key: int) -> Cut | NoCut:
    """Everything before the first group that begins with entry `key` or later."""
    groups = message_groups(window, sizes)
    place = next((place for place, group in enumerate(groups) if group.first_key >= key), None)
    if place is None:
        return NoCut(f"no message begins at entry {key} or later, so nothing would stay")
    if place == 0:
        return NoCut(
            f"there is nothing to compact: no message stands before entry {key} that is not summarised already"
        )
    return _cut_before(groups, place, _start(window))


def cut_from(window: Window, sizes: Sequence[int], key: int, head: int) -> Cut | NoCut:
    """Everything from the first group on that begins with entry `key` or later; `head` is the branch's newest key."""
    groups = message_groups(window, sizes)
    place = next((place for place, group in enumerate(groups) if group.first_key >= key), None)
    if place is None:
        return NoCut(f"there is nothing to compact: no message begins at entry {key} or later")
    group = groups[place]
    if place == 0 and group.index == 0:
        # Nothing stands before it, so this is all of the window: a compaction like any other.
        return Cut(head + 1, 0, len(window.messages), 0)
    return Cut(head + 1, group.index, len(window.messages), 0, first_replaced=group.first_key)


def with_whole_ranges(cut: Cut, branch: Sequence[Entry]) -> Cut:
    """The cut with its keys moved to where earlier compactions "from a message on" begin whose message it cuts before.

    So their entries belong to the part that their message belongs to, and return to it when they are undone.
    """
    undone = undone_keys(branch)
    first_kept, first_replaced = cut.first_kept, cut.first_replaced
    for entry in of_kinds(branch, Compaction):
        payload = entry.payload
        if isinstance(payload, Compaction) and payload.first_replaced and entry.key not in undone:
            if payload.first_replaced <= first_kept <= entry.key:
                first_kept = payload.first_replaced
            if payload.first_replaced <= first_replaced <= entry.key:
                first_replaced = payload.first_replaced
    return replace(cut, first_kept=first_kept, first_replaced=first_replaced)


def smallest_tail_tokens(window: Window, sizes: Sequence[int]) -> int:
    """Tokens of the newest group, which every compaction keeps; 0 if there is none."""
    groups = message_groups(window, sizes)
    return groups[-1].tokens if groups else 0


def message_groups(window: Window, sizes: Sequence[int]) -> list[Group]:
    """The window's groups, oldest first, without an earlier compaction's message at its front."""
    groups: list[Group] = []
    last_key = 0
    for index in range(_start(window), len(window.messages)):
        keys = window.keys[index]
        if groups and isinstance(window.messages[index], ToolResultMessage):
            last = groups[-1]
            groups[-1] = Group(last.index, last.first_key, last.tokens + sizes[index])
        else:
            # A reminder that waited for this message has a smaller key and has to stay with it.
            earliest = min(keys)
            groups.append(Group(index, earliest if earliest > last_key else keys[0], sizes[index]))
        last_key = max(last_key, *keys, 0)
    return groups


def _start(window: Window) -> int:
    return 0 if window.compaction is None else 1


def _cut_before(groups: Sequence[Group], place: int, first: int) -> Cut:
    start = groups[place]
    return Cut(start.first_key, first, start.index, sum(group.tokens for group in groups[place:]))


def _kept_groups(groups: Sequence[Group], room: int, target: int, preserve: int) -> int:
    total = kept = 0
    for group in reversed(groups):
        total += group.tokens
        within = total <= target or (kept < preserve and total <= room // 2)
        if kept and not within:
            break
        kept += 1
    return kept

"""Which contents give way to a shorter text: the result budget of a step, and the clearing of old results and images.

Both are pure: (branch, window, meter, thresholds) → one `Clearing`, or None. Calls and messages stay, so that pairs never part.
Decisions: the budget cuts the largest results of a step to a common length; a result with images is left alone by it.
Clearing protects min(40,000, effective / 4) tokens of the newest results and images and everything not sent yet, and acts
when it frees at least min(20,000, effective / 8). Copies that a later result has made old go first: they go although they
are new, and are not counted among what is protected.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from agent.context.budget import Thresholds, step_results_cap_tokens
from agent.context.meter import Meter
from agent.context.shorten import common_length, cut_middle
from agent.context.superseded import ByKey, results_in, superseded, superseded_text
from agent.images import image_line, with_image_lines
from agent.transcript import ClearedItem, Clearing, Entry, Result, User
from agent.window import Window
from providers.types import AssistantMessage, ImageBlock, Message, TextBlock, ToolResultMessage

CLEARED_TEXT = "[Old tool result content cleared]"
CLEARABLE_TOOLS = frozenset({"read", "grep", "glob", "bash"})
_PROTECTED_TOKENS = 40_000
_LEAST_FREED_TOKENS = 20_000
MOST_IMAGE_BYTES = 20_000_000
"""Of all images of a request before base64: Anthropic takes 32 MB a request, OpenAI 50 (2026-11)."""
LEAST_GAIN_TOKENS = 20
"""A result that gains less stays; so does one that was cleared before."""
_HEAD_SHARE = 0.7


class Freeing(Struct, frozen=True):
    """A clearing that is proposed, and the tokens it frees."""

    clearing: Clearing
    freed_tokens: int


def result_budget(branch: Sequence[Entry], window: Window, meter: Meter, limits: Thresholds) -> Freeing | None:
    """Shorten the newest step's results if together they are over the budget; they were not sent yet."""
    results = [(index, meter.message_tokens(index)) for index in _unsent_results(window)]
    budget = step_results_cap_tokens(limits)
    if sum(size for _, size in results) <= budget:
        return None
    whole = {index: text for index, _ in results if (text := _only_text(window, index)) is not None}
    fixed = sum(size for index, size in results if index not in whole)
    length = common_length([size for index, size in results if index in whole], max(0, budget - fixed))
    if length is None:
        return None
    items: list[ClearedItem] = []
    freed = 0
    for index, size in results:
        if index not in whole or size <= length:
            continue
        key = window.keys[index][0]
        tokens = meter.count(whole[index])
        short = _shortened(find(branch, key), whole[index], length - (size - tokens), meter)
        if (gain := tokens - meter.count(short)) >= LEAST_GAIN_TOKENS:
            items.append(ClearedItem(key, short))
            freed += gain
    return Freeing(Clearing(tuple(items), "budget"), freed) if items else None


def old_results(
    branch: Sequence[Entry], window: Window, meter: Meter, limits: Thresholds, spared: Collection[int] = ()
) -> Freeing | None:
    """Clear old results that can be had again, and old images, in one batch, if that frees enough.

    `spared`: keys of entries that stay as they are.
    """
    protected = min(_PROTECTED_TOKENS, limits.effective // 4)
    entries = ByKey(branch)
    old = _superseded(entries, window)
    items: list[ClearedItem] = []
    newer = freed = 0
    for index in range(len(window.messages) - 1, -1, -1):
        if not window.keys[index] or isinstance(window.messages[index], AssistantMessage):
            continue
        entry = entries[window.keys[index][0]]
        size = _clearable_tokens(window.messages[index], entry, meter)
        copy = None
        if index < window.stable and entry.key not in spared:
            copy = old.get(entry.key)
            if newer + size > protected or copy is not None:
                gone = list(_cleared(window.messages[index], entry, meter, copy))
                items += [item for item, _ in reversed(gone)]
                freed += sum(gain for _, gain in gone)
        newer += size if copy is None else 0
    if not items or freed < min(_LEAST_FREED_TOKENS, limits.effective // 8):
        return None
    return Freeing(Clearing(tuple(reversed(items)), "clear"), freed)


def images_over_limit(branch: Sequence[Entry], window: Window, meter: Meter) -> Freeing | None:
    """Take the oldest images out if all together are more bytes than a request may have; in one batch, to a half of that."""
    over = meter.image_bytes - MOST_IMAGE_BYTES
    if over <= 0:
        return None
    to_free = over + MOST_IMAGE_BYTES // 2
    items: list[ClearedItem] = []
    freed = 0
    for index, message in enumerate(window.messages):
        sizes = [block.size_bytes for block in message.blocks if isinstance(block, ImageBlock)]
        if not sizes or not window.keys[index] or to_free <= 0:
            continue
        for item, gain in _cleared(message, find(branch, window.keys[index][0]), meter, None, images_only=True):
            items.append(item)
            freed += gain
        to_free -= sum(sizes)
    return Freeing(Clearing(tuple(items), "budget"), freed) if items else None


def _superseded(entries: ByKey, window: Window) -> dict[int, str]:
    """Key of each read in the window that is superseded → what stands instead."""
    standing = [entry for _, entry, _ in results_in(window, entries.get)]
    return {copy.key: superseded_text(copy) for copy in superseded(standing)}


def _clearable_tokens(message: Message, entry: Entry, meter: Meter) -> int:
    """Of a result all its own tokens, of a user message its images."""
    if isinstance(message, ToolResultMessage):
        return meter.own_tokens(entry.key)
    return sum(meter.image_tokens(block) for block in message.blocks if isinstance(block, ImageBlock))


def _cleared(
    message: Message, entry: Entry, meter: Meter, copy: str | None, images_only: bool = False
) -> Iterator[tuple[ClearedItem, int]]:
    """What of one message gives way, and the tokens that each frees."""
    payload = entry.payload
    if isinstance(payload, User):
        for place, block in enumerate(payload.blocks):
            if isinstance(block, ImageBlock) and block in message.blocks:
                text = image_line(payload.blocks, place, entry.key)
                yield from _worth(ClearedItem(entry.key, text, place), meter.image_tokens(block), meter)
    elif isinstance(payload, Result):
        images = [place for place, block in enumerate(payload.blocks) if isinstance(block, ImageBlock)]
        if images and any(isinstance(block, ImageBlock) for block in message.blocks):
            text = with_image_lines(payload, entry.key)
        elif payload.tool in CLEARABLE_TOOLS and not images_only:
            text = copy or CLEARED_TEXT
        else:
            return
        yield from _worth(ClearedItem(entry.key, text), meter.own_tokens(entry.key), meter)


def _worth(item: ClearedItem, tokens: int, meter: Meter) -> Iterator[tuple[ClearedItem, int]]:
    if (gain := tokens - meter.count(item.text)) >= LEAST_GAIN_TOKENS:
        yield item, gain


def find(branch: Sequence[Entry], key: int) -> Entry:
    """The entry `key` of a branch.

    Raises:
        KeyError: it is not on the branch.
    """
    place = bisect_left(branch, key, key=lambda entry: entry.key)
    if place == len(branch) or branch[place].key != key:
        raise KeyError(key)
    return branch[place]


def _unsent_results(window: Window) -> Iterator[int]:
    for index in range(window.stable, len(window.messages)):
        if isinstance(window.messages[index], ToolResultMessage) and window.keys[index]:
            yield index


def _only_text(window: Window, index: int) -> str | None:
    """A result's own text without reminders; None if it has an image."""
    blocks = window.messages[index].blocks
    own = blocks[: len(blocks) - len(window.keys[index]) + 1]
    texts = [block.text for block in own if isinstance(block, TextBlock)]
    return "\n".join(texts) if len(texts) == len(own) else None


def _shortened(entry: Entry, text: str, length: int, meter: Meter) -> str:
    def note(left_out: int) -> str:
        return (
            f"[About {left_out:,} tokens are left out here, because the results of this step were too long together. "
            f"Entry {entry.key} of the session has all of it; ask again for the part you need.]"
        )

    return cut_middle(text, length, meter.count, note, _HEAD_SHARE)

"""Which tool results give way to a shorter text: the result budget of a step, and the clearing of old results.

Both are pure: (branch, window, meter, thresholds) → one `Clearing`, or None. Calls and messages stay, so that pairs never part.
Decisions: the budget cuts the largest results of a step to a common length; a result with images is left alone by it.
Clearing protects min(40,000, effective / 4) tokens of the newest results and everything not sent yet, and acts when it
frees at least min(20,000, effective / 8).
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from msgspec import Struct

from agent.context.budget import Thresholds, step_results_cap_tokens
from agent.context.meter import Meter
from agent.context.shorten import common_length, cut_middle
from agent.context.tokens import message_overhead
from agent.transcript import ClearedItem, Clearing, Entry, Result
from agent.window import Window
from providers.types import TextBlock, ToolResultMessage

CLEARED_TEXT = "[Old tool result content cleared]"
CLEARABLE_TOOLS = frozenset({"read", "grep", "glob", "bash"})
_PROTECTED_TOKENS = 40_000
_LEAST_FREED_TOKENS = 20_000
_LEAST_GAIN_TOKENS = 20
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
        if (gain := tokens - meter.count(short)) >= _LEAST_GAIN_TOKENS:
            items.append(ClearedItem(key, short))
            freed += gain
    return Freeing(Clearing(tuple(items), "budget"), freed) if items else None


def old_results(branch: Sequence[Entry], window: Window, meter: Meter, limits: Thresholds) -> Freeing | None:
    """Clear the old results of the tools whose results can be had again, in one batch, if that frees enough."""
    protected = min(_PROTECTED_TOKENS, limits.effective // 4)
    placeholder = meter.count(CLEARED_TEXT)
    items: list[ClearedItem] = []
    newer = freed = 0
    for index in range(len(window.messages) - 1, -1, -1):
        message = window.messages[index]
        if not isinstance(message, ToolResultMessage) or not window.keys[index]:
            continue
        size = meter.message_tokens(index)
        newer += size
        gain = size - placeholder - meter.calibrated(message_overhead(message))
        if index >= window.stable or newer <= protected or gain < _LEAST_GAIN_TOKENS:
            continue
        entry = find(branch, window.keys[index][0])
        if isinstance(entry.payload, Result) and entry.payload.tool in CLEARABLE_TOOLS:
            items.append(ClearedItem(entry.key, CLEARED_TEXT))
            freed += gain
    if not items or freed < min(_LEAST_FREED_TOKENS, limits.effective // 8):
        return None
    return Freeing(Clearing(tuple(reversed(items)), "clear"), freed)


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

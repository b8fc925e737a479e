"""Spends the room for instructions: a cap for one file, one for all, and a share of the window. Pure.

Managed policy is served first, so that no project can push it out; then the nearest item, so that the most general file
is cut first. The cap of a file holds for each file that an item includes, too.
"""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from agent.config.reading import printable
from agent.instructions.item import CONFIG_PATH, InstructionItem, all_includes

WINDOW_SHARE = 4
"""All instructions together take at most this part of the effective window: a quarter."""


def estimate_tokens(text: str) -> int:
    """A rough count for when no tokenizer is at hand: a token for four bytes of UTF-8."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


class Allowance(Struct, frozen=True):
    max_file_chars: int = 40_000
    max_total_chars: int = 120_000
    effective_window_tokens: int | None = None
    """None: unknown, so only the characters count."""
    count_tokens: Callable[[str], int] = estimate_tokens

    @property
    def max_tokens(self) -> int | None:
        return None if self.effective_window_tokens is None else self.effective_window_tokens // WINDOW_SHARE


def order_of_room(items: Sequence[InstructionItem]) -> list[int]:
    """The places of the items in the order in which they get room."""
    return sorted(range(len(items)), key=lambda place: (items[place].layer != "managed", -place))


def spend(items: Sequence[InstructionItem], allowance: Allowance) -> tuple[InstructionItem, ...]:
    """The items in the same order, those cut at a line that are over a cap; the cut says so in the text.

    What has a condition is not sent with the others: it is cut by itself and takes no room from them.
    """
    chars_left, tokens_left = allowance.max_total_chars, allowance.max_tokens
    spent = list(items)
    for place in order_of_room(items):
        item = items[place]
        files = 1 + sum(include.status == "followed" for _, include in all_includes(item))
        max_chars = allowance.max_file_chars * files
        if item.status == "conditional":
            room = min(max_chars, allowance.max_total_chars)
            spent[place] = _fit(item, room, allowance.max_tokens, allowance.count_tokens)
        if not item.is_loaded:
            continue
        fitted = _fit(item, min(max_chars, chars_left), tokens_left, allowance.count_tokens)
        spent[place] = fitted
        chars_left = max(0, chars_left - len(fitted.text))
        if tokens_left is not None:
            tokens_left = max(0, tokens_left - allowance.count_tokens(fitted.text))
    return tuple(spent)


def _fit(item: InstructionItem, max_chars: int, max_tokens: int | None, count: Callable[[str], int]) -> InstructionItem:
    text = item.text
    # Where there are includes, the text says already which of its files was cut.
    is_whole = len(text) <= max_chars and (item.cut_chars == 0 or bool(item.includes))
    if is_whole and (max_tokens is None or count(text) <= max_tokens):
        return item
    keep = max(0, max_chars - len(_note(item, item.chars + item.cut_chars)) - 1)
    kept = cut_at_line(text, keep)
    while kept and max_tokens is not None and (tokens := count(_with_note(item, kept))) > max_tokens:
        keep = min(keep * max_tokens // tokens, keep * 9 // 10)
        kept = cut_at_line(text, keep)
    cut = item.cut_chars + len(text) - len(kept)
    return msgspec.structs.replace(item, text=_with_note(item, kept), cut_chars=cut)


def cut_at_line(text: str, keep: int) -> str:
    """The first lines of `text` within `keep` characters; part of a line only if not even one fits."""
    if keep >= len(text):
        return text
    end = text.rfind("\n", 0, keep + 1)
    return text[: end if end > 0 else keep].rstrip()


def _with_note(item: InstructionItem, kept: str) -> str:
    note = _note(item, item.cut_chars + len(item.text) - len(kept))
    return f"{kept}\n{note}" if kept else note


def _note(item: InstructionItem, cut: int) -> str:
    return cut_note(item.path, cut)


def cut_note(path: str, cut: int) -> str:
    """What stands where a text was cut: how many characters are missing and where they are."""
    rest = "shorten it in config.toml" if path == CONFIG_PATH else f"read {printable(path)} for the rest"
    return f"[Cut here: {cut:,} more characters did not fit; {rest}.]"

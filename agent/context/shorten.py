"""Shortens texts to a number of tokens, leaving a note where something was taken out. Knows nothing of entries."""

from collections.abc import Callable, Iterable

Count = Callable[[str], int]
_TRIES = 20


def common_length(sizes: Iterable[int], budget: int) -> int | None:
    """The largest length L for which the sizes, each cut to L, sum up to at most `budget`; None if nothing need be cut.

    0 where even a length of 1 is too much.
    """
    ordered = sorted(sizes)
    if sum(ordered) <= budget:
        return None
    left = budget
    for place, size in enumerate(ordered):
        share = left // (len(ordered) - place)
        if size > share:
            return max(0, share)
        left -= size
    return None


def cut_middle(text: str, most: int, count: Count, note: Callable[[int], str], head_share: float = 0.5) -> str:
    """`text` in at most `most` tokens: its head, a note, its tail. Unchanged if it is short enough.

    `note` is given about how many tokens are left out. Where `most` cannot even hold the note, only the note is returned.
    """
    total = count(text)
    if total <= max(0, most):
        return text
    chars = len(text) * max(0, most - count(note(total))) / total
    for _ in range(_TRIES):
        if chars < 1:
            break
        head, tail = _ends(text, int(chars), head_share)
        left_out = max(1, total - count(head) - count(tail))
        short = "\n".join(part for part in (head, note(left_out), tail) if part)
        size = count(short)
        if size <= most:
            return short
        chars *= min(0.985, most / size)
    return note(total)


def _ends(text: str, chars: int, head_share: float) -> tuple[str, str]:
    """Head and tail of together at most `chars` characters, at line ends where these are near."""
    head_chars = round(chars * head_share)
    head = text[:head_chars]
    tail = text[len(text) - (chars - head_chars) :]
    if (end := head.rfind("\n")) > head_chars * 0.8:
        head = head[:end]
    start = tail.find("\n")
    if 0 <= start < len(tail) * 0.2:
        tail = tail[start + 1 :]
    return head, tail

"""The transcript of a compaction in parts that each fit one request: rounds, taken from the front as many as there is room.

A round is a group of the window (a user message, or a reply with its results), told in pieces. It stays whole in one part
unless it alone is longer than a part; then its pieces are spread over several.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from msgspec import Struct

from agent.context.cut import Cut, message_groups
from agent.context.render import RenderedPiece, pieces_of
from agent.transcript import Compaction, Entry, FileFact, Result
from agent.window import Window


class Round(Struct, frozen=True):
    pieces: tuple[RenderedPiece, ...]
    tokens: int

    @staticmethod
    def of(pieces: Iterable[RenderedPiece]) -> "Round":
        every = tuple(pieces)
        return Round(every, sum(piece.tokens for piece in every))


def rounds_of(
    branch: Sequence[Entry], window: Window, cut: Cut, sizes: Sequence[int], attached: Iterable[str] = ()
) -> list[Round]:
    """What the cut takes away, oldest first. `sizes`: tokens of the window's messages; `attached`: paths of files that are
    attached again, whose text is left out."""
    stands_for = _stand_ins(branch, window, set(attached))
    part = slice(cut.start, cut.end)
    pieces = pieces_of(window.messages[part], window.keys[part], sizes[part], stands_for)
    starts = [group.index for group in message_groups(window, sizes) if cut.start <= group.index < cut.end]
    ends = [*starts[1:], cut.end]
    return [
        Round.of(piece for message in pieces[start - cut.start : end - cut.start] for piece in message)
        for start, end in zip(starts, ends, strict=True)
    ]


def take_part(queue: deque[Round], room_tokens: int) -> list[Round]:
    """Take from the front of `queue` the rounds that fit, at least a piece of one; `queue` must not be empty."""
    part: list[Round] = []
    left = room_tokens
    while queue and queue[0].tokens <= left:
        part.append(queue.popleft())
        left -= part[-1].tokens
    if part or not queue:
        return part
    # Longer than a whole part: piece by piece.
    pieces = deque(queue.popleft().pieces)
    taken = [pieces.popleft()]
    left -= taken[0].tokens
    while pieces and pieces[0].tokens <= left:
        taken.append(pieces.popleft())
        left -= taken[-1].tokens
    if pieces:
        queue.appendleft(Round.of(pieces))
    return [Round.of(taken)]


def drop_oldest(part: Sequence[Round], fraction: float) -> list[Round]:
    """Without the oldest rounds, so that at least this fraction of the tokens goes; the newest one stays in any case."""
    left = sum(item.tokens for item in part) * fraction
    kept = deque(part)
    while len(kept) > 1 and left > 0:
        left -= kept.popleft().tokens
    return list(kept)


def _stand_ins(branch: Sequence[Entry], window: Window, attached: set[str]) -> dict[int, tuple[str, str]]:
    """Entries whose text is told in other words: earlier summaries, and what is attached again."""
    standing = {keys[0] for keys in window.keys if keys}
    found: dict[int, tuple[str, str]] = {}
    for entry in branch:
        if entry.key not in standing:
            continue
        match entry.payload:
            case Compaction(summary=summary):
                found[entry.key] = ("EARLIER SUMMARY", summary)
            case Result(files=(FileFact(path=path, change="read"),)) if path in attached:
                found[entry.key] = ("RESULT of read", f"(the text of {path}, which is attached again)")
            case _:
                pass
    return found

"""A part of a window as plain text for a summariser: entry keys and roles named, images stripped, long pieces cut.

The pieces are made without counting a token, from what the messages are known to have; a text is counted and cut when it
is rendered, so that the transcript of a huge session costs one part at a time.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from agent.context.shorten import Count, common_length, cut_middle
from providers.types import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

PIECE_TOKENS = 2_000
"""No piece is longer in a rendered transcript: the record has the user's words, and `recall` the rest."""
_LEAST_PIECE_TOKENS = 40
_LABEL_TOKENS = 8
_CHARS_PER_TOKEN = 3
_INDEX_CHARS = 60


class RenderedPiece(Struct, frozen=True):
    """One text of a transcript."""

    key: int | None
    """Its entry; None where the program filled in a missing result."""
    label: str
    text: str
    tokens: int
    """About what it takes when it is rendered, at most `PIECE_TOKENS`."""

    def __str__(self) -> str:
        entry = "" if self.key is None else f"[{self.key}] "
        return f"{entry}{self.label}: {self.text}"


def pieces_of(
    messages: Sequence[Message],
    keys: Sequence[tuple[int, ...]],
    sizes: Sequence[int],
    stands_for: Mapping[int, tuple[str, str]] | None = None,
) -> list[list[RenderedPiece]]:
    """The pieces of each message, in order. `keys` and `sizes` are those of the window's messages.

    `stands_for`: entry key → (label, text) for messages that are told in other words, because they are attached again or are
    summaries themselves.
    """
    tools: dict[str, str] = {}
    rendered = []
    for message, names, size in zip(messages, keys, sizes, strict=True):
        if isinstance(message, AssistantMessage):
            tools.update({block.id: block.name for block in message.blocks if isinstance(block, ToolCall)})
        key = names[0] if names else None
        replaced = None if key is None or stands_for is None else stands_for.get(key)
        texts = [replaced] if replaced is not None else _texts(message, tools)
        rendered.append(_sized(key, texts, None if replaced else message, size))
    return rendered


def render(pieces: Sequence[RenderedPiece], most_tokens: int, count: Count) -> str:
    """The pieces as text in about `most_tokens` at most.

    A piece has at most 2,000 tokens, or fewer, all alike, where that is too much; if even 40 each are, the oldest pieces
    are left out and a line says so.
    """
    texts = [cut_middle(str(piece), PIECE_TOKENS, count, _note) for piece in pieces]
    sizes = [count(text) + 2 for text in texts]
    length = common_length(sizes, most_tokens)
    dropped = 0
    if length is not None and length < _LEAST_PIECE_TOKENS:
        dropped = _too_old(sizes, most_tokens)
        length = _LEAST_PIECE_TOKENS
    if length is not None:
        texts = [cut_middle(text, length - 2, count, _note) for text in texts[dropped:]]
    if dropped:
        texts.insert(0, f"[{dropped:,} older pieces of the transcript are left out here.]")
    return "\n\n".join(texts)


def entry_index(pieces: Iterable[RenderedPiece], most_tokens: int, count: Count) -> str:
    """A line for each entry (key, kind, first words), the oldest and the newest first where there is no room for all."""
    lines = _index_lines(pieces)
    left = most_tokens - _LABEL_TOKENS * 2
    head = tail = 0
    while head + tail < len(lines):
        line = lines[head] if head <= tail else lines[-1 - tail]
        left -= count(line) + 1
        if left < 0:
            break
        if head <= tail:
            head += 1
        else:
            tail += 1
    if (missing := len(lines) - head - tail) == 0:
        return "\n".join(lines)
    between = f"(… {missing:,} entries between these are not listed …)"
    return "\n".join((*lines[:head], between, *lines[len(lines) - tail :]))


# --------------------------------------------------------------------------- pieces


def _texts(message: Message, tools: Mapping[str, str]) -> list[tuple[str, str]]:
    """(label, text) of each piece of a message."""
    match message:
        case UserMessage(blocks=blocks):
            return [("USER", _joined(blocks))]
        case ToolResultMessage(call_id=call_id, blocks=blocks, is_error=is_error):
            name = f" of {tools[call_id]}" if call_id in tools else ""
            return [(f"{'RESULT (ERROR)' if is_error else 'RESULT'}{name}", _joined(blocks))]
        case AssistantMessage(blocks=blocks):
            return [
                ("ASSISTANT", block.text)
                if isinstance(block, TextBlock)
                else (f"CALL of {block.name}", block.arguments)
                for block in blocks
                if isinstance(block, TextBlock | ToolCall)
            ]


def _sized(
    key: int | None, texts: Sequence[tuple[str, str]], message: Message | None, size: int
) -> list[RenderedPiece]:
    """The pieces with about their tokens: shares of what the message has, unless it has more than text."""
    chars = sum(len(text) for _, text in texts)
    known = message is not None and all(isinstance(block, TextBlock | ToolCall) for block in message.blocks)
    pieces = []
    for label, text in texts:
        tokens = size * len(text) // max(1, chars) if known else len(text) // _CHARS_PER_TOKEN
        pieces.append(RenderedPiece(key, label, text, min(PIECE_TOKENS, tokens + _LABEL_TOKENS)))
    return pieces


def _joined(blocks: Sequence[TextBlock | ImageBlock]) -> str:
    return "\n".join("[image]" if isinstance(block, ImageBlock) else block.text for block in blocks)


def _index_lines(pieces: Iterable[RenderedPiece]) -> list[str]:
    lines: dict[int, str] = {}
    for piece in pieces:
        if piece.key is None:
            continue
        words = " ".join(piece.text[: _INDEX_CHARS * 4].split())
        words = words if len(words) <= _INDEX_CHARS else f"{words[:_INDEX_CHARS]}…"
        what = f"{piece.label.lower()}: {words}"
        before = lines.get(piece.key)
        lines[piece.key] = f"[{piece.key}] {what}" if before is None else f"{before}; {piece.label.lower()}"
    return list(lines.values())


def _too_old(sizes: Sequence[int], most_tokens: int) -> int:
    left = most_tokens
    for place in range(len(sizes) - 1, -1, -1):
        left -= min(sizes[place], _LEAST_PIECE_TOKENS)
        if left < 0:
            return place + 1
    return 0


def _note(left_out: int) -> str:
    return f"[… about {left_out:,} tokens …]"

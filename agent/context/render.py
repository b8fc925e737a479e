"""A part of a window as plain text for a summariser: roles named, images stripped, long pieces cut in their middle."""

from collections.abc import Sequence

from agent.context.shorten import Count, common_length, cut_middle
from providers.types import (
    AssistantBlock,
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)

_PIECE_TOKENS = 2_000
_LEAST_PIECE_TOKENS = 40


def render(messages: Sequence[Message], most_tokens: int, count: Count) -> str:
    """The messages as text in about `most_tokens` at most.

    A piece has at most 2,000 tokens, or fewer, all alike, where that is too much; if even 40 each are, the oldest pieces
    are left out and a line says so.
    """
    pieces = [piece for message in messages for piece in _pieces(message)]
    pieces = [cut_middle(piece, _PIECE_TOKENS, count, _note) for piece in pieces]
    sizes = [count(piece) + 2 for piece in pieces]
    length = common_length(sizes, most_tokens)
    dropped = 0
    if length is not None and length < _LEAST_PIECE_TOKENS:
        dropped = _too_old(sizes, most_tokens)
        length = _LEAST_PIECE_TOKENS
    if length is not None:
        pieces = [cut_middle(piece, length - 2, count, _note) for piece in pieces[dropped:]]
    if dropped:
        pieces.insert(0, f"[{dropped:,} older pieces of the transcript are left out here.]")
    return "\n\n".join(pieces)


def _too_old(sizes: Sequence[int], most_tokens: int) -> int:
    left = most_tokens
    for place in range(len(sizes) - 1, -1, -1):
        left -= min(sizes[place], _LEAST_PIECE_TOKENS)
        if left < 0:
            return place + 1
    return 0


def _pieces(message: Message) -> list[str]:
    match message:
        case UserMessage(blocks=blocks):
            return ["USER: " + _text(blocks)]
        case ToolResultMessage(blocks=blocks, is_error=is_error):
            return [f"{'RESULT (ERROR)' if is_error else 'RESULT'}: " + _text(blocks)]
        case AssistantMessage(blocks=blocks):
            return [piece for block in blocks if (piece := _reply_piece(block))]


def _reply_piece(block: AssistantBlock) -> str:
    if isinstance(block, TextBlock):
        return "ASSISTANT: " + block.text
    if isinstance(block, ToolCall):
        return f"ASSISTANT CALLS {block.name}: {block.arguments}"
    return ""


def _text(blocks: Sequence[UserBlock]) -> str:
    return "\n".join("[image]" if isinstance(block, ImageBlock) else block.text for block in blocks)


def _note(left_out: int) -> str:
    return f"[… about {left_out:,} tokens …]"

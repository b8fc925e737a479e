"""What of an entry's blocks is sent, and as which text: pure functions of the blocks and of what was cleared.

The window decides where a message stands; here is what stands in it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from xml.sax.saxutils import quoteattr

from msgspec.structs import replace

from agent.transcript import AttachmentBlock, Entry, Pin, Reminder, ShellBlock, User
from providers.types import AssistantBlock, ImageBlock, OpaqueBlock, TextBlock, ThinkingBlock, ToolCall, UserBlock

Cleared = Mapping[tuple[int, int | None], str]
"""(entry key, place of the block, or None for all of it) → the text that stands instead."""

_REASONING = frozenset({"reasoning", "redacted_thinking"})


def user_blocks(key: int, payload: User, cleared: Cleared) -> tuple[UserBlock, ...]:
    """A user message without blank text; empty if nothing is left."""
    whole = cleared.get((key, None))
    if whole is not None:
        return (TextBlock(whole),)
    blocks: list[UserBlock] = []
    for index, block in enumerate(payload.blocks):
        text = cleared.get((key, index))
        if text is not None:
            blocks.append(TextBlock(text))
        elif isinstance(block, ShellBlock):
            blocks.append(TextBlock(f"I ran this command:\n$ {block.command}\n{block.output}"))
        elif isinstance(block, AttachmentBlock):
            blocks.append(TextBlock(f"<attachment path={quoteattr(block.path)}>\n{block.text or ''}\n</attachment>"))
        else:
            blocks.append(block)
    return visible(blocks)


def assistant_blocks(
    key: int, blocks: Sequence[AssistantBlock], cleared: Cleared, dropped: Collection[str], keep_reasoning: bool
) -> tuple[AssistantBlock, ...]:
    """What of a reply is sent back; empty if nothing is left. Only its texts can be cleared; `dropped` are ids of calls
    whose results were dropped."""
    shortened = [_shortened(cleared.get((key, index)), block) for index, block in enumerate(blocks)]
    left = [
        replace(block, finished=False) if isinstance(block, ToolCall) and block.id in dropped else block
        for block in shortened
    ]
    return sendable_blocks(left, keep_reasoning)


def _shortened(text: str | None, block: AssistantBlock) -> AssistantBlock:
    return block if text is None or not isinstance(block, TextBlock) else TextBlock(text)


def sendable_blocks(blocks: Iterable[AssistantBlock], keep_reasoning: bool) -> tuple[AssistantBlock, ...]:
    """What of a reply may be sent back.

    Left out: blank text, unsigned thinking, unfinished calls with the reasoning that led to them, reasoning that nothing
    follows, and all reasoning and opaque blocks unless `keep_reasoning` (same wire API and model family).
    """
    kept: list[AssistantBlock] = []
    for block in blocks:
        match block:
            case TextBlock() if not block.text.strip():
                continue
            case ThinkingBlock(signature=None):
                continue
            case ThinkingBlock() | OpaqueBlock() if not keep_reasoning:
                continue
            case ToolCall(finished=False):
                _drop_trailing_reasoning(kept)
            case _:
                kept.append(block)
    _drop_trailing_reasoning(kept)
    return tuple(kept)


def _drop_trailing_reasoning(blocks: list[AssistantBlock]) -> None:
    while blocks:
        last = blocks[-1]
        opaque_reasoning = isinstance(last, OpaqueBlock) and last.raw.get("type") in _REASONING
        if not (isinstance(last, ThinkingBlock) or opaque_reasoning):
            return
        blocks.pop()


def visible(blocks: Sequence[TextBlock | ImageBlock]) -> tuple[UserBlock, ...]:
    """Without blank text, which providers refuse."""
    return tuple(b for b in blocks if not (isinstance(b, TextBlock) and not b.text.strip()))


def render_rider(entry: Entry) -> TextBlock:
    """What rides on another entry's message: a reminder, or the text of a pin."""
    payload = entry.payload
    if isinstance(payload, Pin):
        path = f" path={quoteattr(payload.path)}" if payload.path else ""
        lines = f' lines="{payload.lines[0]}-{payload.lines[1]}"' if payload.lines else ""
        return TextBlock(f"<pinned{path}{lines}>\n{payload.text}\n</pinned>")
    assert isinstance(payload, Reminder)
    return TextBlock(f"<reminder kind={quoteattr(payload.kind)}>\n{payload.text}\n</reminder>")

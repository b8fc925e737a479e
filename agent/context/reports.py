"""What a provider's report of one reply measures, and which entries it can be compared with. Pure functions of entries."""

from collections.abc import Sequence

from agent.transcript import (
    Assistant,
    Clearing,
    Compaction,
    Drop,
    Entry,
    Payload,
    Pin,
    Prefix,
    Reminder,
    Result,
    Rewind,
    Setting,
    Undo,
    User,
)
from agent.window import Window
from agent.window_blocks import render_rider, sendable_blocks
from providers.types import (
    AssistantBlock,
    AssistantMessage,
    Message,
    OpaqueBlock,
    ThinkingBlock,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)


def place_behind(window: Window, key: int) -> int:
    """How many of the window's messages were made of entries up to `key`, the fillers for missing results included."""
    place = len(window.keys)
    while place and (not window.keys[place - 1] or window.keys[place - 1][0] > key):
        place -= 1
    if place and window.keys[place - 1][0] == key:
        return place
    while place < len(window.keys) and not window.keys[place]:
        place += 1
    return place


def sent_output(payload: Assistant, message: Message) -> int | None:
    """Reported tokens of that part of a reply that is sent back; None where the report does not tell."""
    usage = payload.usage
    if payload.interrupted or usage.output_tokens <= 0:
        return None
    if any(is_reasoning(block) for block in message.blocks):
        return usage.output_tokens
    if not usage.thinking_tokens and any(is_reasoning(block) for block in payload.blocks):
        return None
    return max(0, usage.output_tokens - usage.thinking_tokens)


def is_reasoning(block: UserBlock | AssistantBlock) -> bool:
    return isinstance(block, ThinkingBlock) or (
        isinstance(block, OpaqueBlock) and block.raw.get("type") in ("reasoning", "redacted_thinking")
    )


def first_sent(entry: Entry) -> Message | None:
    """The message that an entry alone makes, or for what rides on another's message the block it adds to that."""
    match entry.payload:
        case Assistant(blocks=blocks):
            sent = sendable_blocks(blocks, keep_reasoning=True)
            return AssistantMessage(sent) if sent else None
        case Result(call_id=call_id, blocks=result_blocks):
            return ToolResultMessage(call_id, result_blocks)
        case User():
            return next(iter(Window([entry]).messages), None)
        case Reminder() | Pin(keys=()):
            return UserMessage((render_rider(entry),))
    return None


def may_break(payload: Payload) -> bool:
    """Whether an entry can have broken the prefix; a setting that repeats what is in force counts too."""
    if isinstance(payload, Setting):
        changed = (payload.provider, payload.model, payload.family, payload.api, payload.effort)
        return any(value is not None for value in changed)
    if isinstance(payload, Reminder):
        return payload.of is not None
    return isinstance(payload, Compaction | Clearing | Drop | Undo | Rewind | Prefix)


def changed_keys(branch: Sequence[Entry], window: Window) -> set[int]:
    """Keys of entries that may stand in the window in another form than the one first sent."""
    changed = set(window.thinned)
    for entry in branch:
        payload = entry.payload
        if isinstance(payload, Clearing):
            changed.update(item.key for item in payload.items)
        elif isinstance(payload, Assistant) and (payload.api, payload.family) != (window.api, window.family):
            changed.add(entry.key)
    return changed

"""One message as the Anthropic Messages API wants it: blocks as JSON bytes. Pure; knows neither requests nor caches."""

import json
from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from providers.images import LoadBlob, image_base64, missing_image
from providers.types import (
    AssistantBlock,
    AssistantMessage,
    ImageBlock,
    Message,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from providers.unicode import to_json, wire_id, wire_name

Role = Literal["user", "assistant"]
_ID_CHARS = 64
_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class EncodedMessage(Struct, frozen=True):
    """The blocks of one message, joined by commas, without brackets. Empty if nothing of it can be sent."""

    role: Role
    blocks: bytes
    mark_at: int
    """Offset in `blocks` at which a cache mark can be put into its last block; -1 if that block can bear none."""


def encode_message(message: Message, load_blob: LoadBlob | None = None) -> EncodedMessage:
    match message:
        case UserMessage():
            role: Role = "user"
            blocks = list(_user_blocks(message.blocks, load_blob))
        case ToolResultMessage():
            role, blocks = "user", [_result(message, load_blob)]
        case AssistantMessage():
            role, blocks = "assistant", [raw for block in message.blocks if (raw := _assistant_block(block))]
    joined = b",".join(blocks)
    bears_mark = bool(blocks) and not blocks[-1].startswith((b'{"type":"thinking"', b'{"type":"redacted_thinking"'))
    return EncodedMessage(role, joined, len(joined) - 1 if bears_mark else -1)


def _user_blocks(blocks: Iterable[UserBlock], load_blob: LoadBlob | None) -> Iterable[bytes]:
    for block in blocks:
        if isinstance(block, ImageBlock):
            yield _image(block, load_blob)
        elif block.text.strip():  # blank text is refused
            yield to_json({"type": "text", "text": block.text})


def _image(block: ImageBlock, load_blob: LoadBlob | None) -> bytes:
    data = image_base64(block, load_blob) if block.media_type in _IMAGE_TYPES else ""
    if not data:
        return to_json({"type": "text", "text": missing_image(block)})
    source = {"type": "base64", "media_type": block.media_type, "data": data}
    return to_json({"type": "image", "source": source})


def _result(message: ToolResultMessage, load_blob: LoadBlob | None) -> bytes:
    head = to_json({"type": "tool_result", "tool_use_id": wire_id(message.call_id, _ID_CHARS)})[:-1]
    content = b",".join(_user_blocks(message.blocks, load_blob))
    if content:
        head += b',"content":[' + content + b"]"
    return head + (b',"is_error":true}' if message.is_error else b"}")


def _assistant_block(block: AssistantBlock) -> bytes | None:
    match block:
        case TextBlock():
            return to_json({"type": "text", "text": block.text}) if block.text.strip() else None
        case ThinkingBlock(signature=None) | ThinkingBlock(signature=""):
            return None
        case ThinkingBlock():
            return to_json({"type": "thinking", "thinking": block.text, "signature": block.signature})
        case ToolCall(finished=False):
            return None
        case ToolCall():
            head = to_json({"type": "tool_use", "id": wire_id(block.id, _ID_CHARS), "name": wire_name(block.name)})
            return head[:-1] + b',"input":' + input_object(block.arguments) + b"}"
        case OpaqueBlock():
            # `type` goes first: that is how a block that may bear no mark is recognised.
            ordered = {"type": block.raw.get("type"), **block.raw}
            return to_json(ordered) if block.api == "anthropic" else None


def input_object(arguments: str) -> bytes:
    """A call's arguments as the JSON object that the API demands: as they are if they are one, else wrapped in one."""
    if not arguments.strip():
        return b"{}"
    try:
        raw = arguments.encode()
        if isinstance(msgspec.json.decode(raw), dict):
            return raw
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        if (repaired := _repaired(arguments)) is not None:
            return repaired
    return to_json({"invalid_json": arguments})


def _repaired(arguments: str) -> bytes | None:
    """An object whose only fault are lone surrogates, without them."""
    try:
        value = json.loads(arguments, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return to_json(value) if isinstance(value, dict) else None


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")

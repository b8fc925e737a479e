"""Requests of the OpenAI Responses API as JSON bytes. Pure: no client, no clock, no network.

Each message is encoded once and its bytes are kept; a body is a small head and those bytes joined. What is not sent:
visible thinking (it has no signature here), opaque blocks of another wire API or model family, and reasoning items that
carry nothing a stateless server could read.

Decisions: an assistant message's `phase` arrives before its text and travels as an opaque block in front of it. Arguments
that are no JSON object are sent inside one, since servers parse them; the model's words are all there.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from providers.base import ModelRequest
from providers.encoded import Conversations
from providers.images import LoadBlob, image_base64, missing_image
from providers.model_table import model_family, table_row
from providers.types import (
    AssistantBlock,
    AssistantMessage,
    Effort,
    ImageBlock,
    Message,
    OpaqueBlock,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    ToolSpec,
    UserBlock,
)
from providers.unicode import to_json, wire_id, wire_name

ERROR_MARK = "[This tool call failed]"
NO_OUTPUT = "(no output)"
UNPARSED = "unparsed_arguments"
MIN_OUTPUT_TOKENS = 16
"""The API refuses a smaller `max_output_tokens`."""
_CACHE_KEY_CHARS = 64
_ID_CHARS = 64
_COUNTED = frozenset({"model", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning"})


class RequestEncoder:
    """Makes bodies, and remembers the bytes of the messages it has seen, per conversation and model family."""

    def __init__(self) -> None:
        self.encoded_messages = 0
        """How many messages were encoded so far; what came from memory is not counted."""
        self._conversations = Conversations()

    def body(self, request: ModelRequest) -> bytes:
        """The whole request. Costs the new messages, and one copy of the bytes."""
        return self._joined(_head(request), request)

    def counting_body(self, request: ModelRequest) -> bytes:
        """The request that asks for a count of the same input."""
        head = {name: value for name, value in _head(request).items() if name in _COUNTED}
        return self._joined(head, request)

    def _joined(self, head: dict[str, Any], request: ModelRequest) -> bytes:
        family = model_family(request.model)
        encoded = self._conversations.of(request)
        encoded.follow(request, lambda place: self._encode(request.messages[place], request, family))
        extra = b"".join(self._encode(message, request, family) for message in request.extra)
        with memoryview(encoded.items) as items:
            # Every item brings the comma before it; the first one of all has none.
            first, rest = (items[1:], extra) if items else (items, extra[1:])
            return b"".join((to_json(head)[:-1], b',"input":[', first, rest, b"]}"))

    def _encode(self, message: Message, request: ModelRequest, family: str) -> bytes:
        self.encoded_messages += 1
        return b"".join(b"," + to_json(item) for item in message_items(message, family, request.load_blob))


def message_items(message: Message, family: str, load_blob: LoadBlob | None) -> list[dict[str, Any]]:
    """The input items of one message, in order; empty if nothing of it can be sent."""
    if isinstance(message, AssistantMessage):
        return _assistant_items(message.blocks, family)
    if isinstance(message, ToolResultMessage):
        output = _result_output(message, load_blob)
        return [{"type": "function_call_output", "call_id": wire_id(message.call_id, _ID_CHARS), "output": output}]
    content = _input_parts(message.blocks, load_blob)
    return [{"type": "message", "role": "user", "content": content}] if content else []


def _assistant_items(blocks: Sequence[AssistantBlock], family: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    phase: str | None = None
    for block in blocks:
        match block:
            case TextBlock() if block.text.strip():
                _add_output_text(items, block.text, phase)
            case ToolCall(finished=True):
                arguments = wire_arguments(block.arguments)
                call = {
                    "type": "function_call",
                    "call_id": wire_id(block.id, _ID_CHARS),
                    "name": wire_name(block.name),
                    "arguments": arguments,
                }
                items.append(call)
            case OpaqueBlock(api="responses") if block.family == family:
                if block.raw.get("type") == "message":
                    phase = block.raw.get("phase")
                elif _readable(block.raw):
                    items.append(block.raw)
            case _:
                pass
    while items and items[-1]["type"] == "reasoning":
        # Refused without the item it led to; it can be left over where only the phase of that item arrived.
        items.pop()
    return items


def _add_output_text(items: list[dict[str, Any]], text: str, phase: str | None) -> None:
    part = {"type": "output_text", "text": text}
    last = items[-1] if items else {}
    if last.get("type") == "message" and last.get("phase") == phase:
        last["content"].append(part)
        return
    item: dict[str, Any] = {"type": "message", "role": "assistant", "content": [part]}
    items.append(item if phase is None else {**item, "phase": phase})


def _readable(raw: dict[str, Any]) -> bool:
    """Nothing is stored on the server, so a reasoning item must carry its content itself."""
    return raw.get("type") != "reasoning" or bool(raw.get("encrypted_content") or raw.get("content"))


def wire_arguments(arguments: str) -> str:
    """The call's arguments as JSON text of an object; anything else is wrapped in one, word for word."""
    try:
        msgspec.json.decode(arguments, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return to_json({UNPARSED: arguments}).decode()
    return arguments


def _result_output(message: ToolResultMessage, load_blob: LoadBlob | None) -> str | list[dict[str, Any]]:
    """Plain text wherever possible: not every server takes a list."""
    if any(isinstance(block, ImageBlock) for block in message.blocks):
        parts = _input_parts(message.blocks, load_blob)
        return [{"type": "input_text", "text": ERROR_MARK}, *parts] if message.is_error else parts
    texts = [block.text for block in message.blocks if isinstance(block, TextBlock) and block.text.strip()]
    if message.is_error:
        texts.insert(0, ERROR_MARK)
    return "\n".join(texts) or NO_OUTPUT


def _input_parts(blocks: Iterable[UserBlock], load_blob: LoadBlob | None) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, ImageBlock):
            parts.append(_image_part(block, load_blob))
        elif block.text.strip():
            parts.append({"type": "input_text", "text": block.text})
    return parts


def _image_part(block: ImageBlock, load_blob: LoadBlob | None) -> dict[str, Any]:
    data = image_base64(block, load_blob)
    if not data:
        return {"type": "input_text", "text": missing_image(block)}
    return {"type": "input_image", "image_url": f"data:{block.media_type};base64,{data}", "detail": "auto"}


def _head(request: ModelRequest) -> dict[str, Any]:
    """Everything of a body but its input."""
    row = table_row(request.model, "responses")
    head: dict[str, Any] = {"model": request.model}
    if instructions := "\n\n".join(section.text for section in request.system if section.text.strip()):
        head["instructions"] = instructions
    if request.tools:
        head["tools"] = [_tool(tool) for tool in request.tools]
        head |= {"tool_choice": "auto", "parallel_tool_calls": True}
    if row is None or row.efforts:
        # A model that does not reason refuses the request for its reasoning.
        head["include"] = ["reasoning.encrypted_content"]
    if (reasoning := reasoning_setting(request.model, request.effort)) is not None:
        head["reasoning"] = reasoning
    if request.cache_key:
        head["prompt_cache_key"] = request.cache_key[:_CACHE_KEY_CHARS]
    head["max_output_tokens"] = max(request.max_tokens, MIN_OUTPUT_TOKENS)
    return head | {"store": False, "stream": True}


def reasoning_setting(model: str, effort: Effort | None) -> dict[str, str] | None:
    """The `reasoning` parameter, or None where nothing is sent: no effort asked for, or a model known not to reason.

    `off` becomes the least that a model takes: `none`, also for unknown models; where the model refuses that, `minimal`
    or `low`.
    """
    row = table_row(model, "responses")
    if effort is None or (row is not None and not row.efforts):
        return None
    if effort != "off":
        return {"effort": effort, "summary": "auto"}
    if row is None or "off" in row.efforts:
        return {"effort": "none"}
    return {"effort": row.lowest, "summary": "auto"}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }

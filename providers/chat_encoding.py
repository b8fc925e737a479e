"""Requests of the Chat Completions API as JSON bytes. Pure: no client, no clock, no network.

Each message is encoded once and its bytes are kept; a body is a small head and those bytes joined. Decisions: a message
of one text is sent as a string, since not every server takes a list; images that a tool gave follow in a user message
behind the results of their step, since a tool message holds text only; arguments that are no JSON object are sent inside
one, since servers parse them.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from providers.base import ModelRequest
from providers.chat_quirks import ChatQuirks
from providers.encoded import Conversations
from providers.images import LoadBlob, image_base64, missing_image
from providers.model_table import model_family
from providers.responses_encoding import ERROR_MARK, NO_OUTPUT, wire_arguments
from providers.types import (
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
from providers.unicode import nine_characters, to_json, wire_id, wire_name

REASONING = "reasoning"
"""The type under which a reply's reasoning is kept where the server wants it back."""
_CACHE_KEY_CHARS = 64
_ID_CHARS = 40
"""OpenAI refuses longer ids of calls; those of other APIs are."""
_EFFORTS: dict[Effort, str] = {"off": "none", "low": "low", "medium": "medium", "high": "high"}


class ChatEncoder:
    """Makes bodies, and remembers the bytes of the messages it has seen, per conversation and model family."""

    def __init__(self, quirks: ChatQuirks) -> None:
        self.encoded_messages = 0
        """How many messages were encoded so far; what came from memory is not counted."""
        self._quirks = quirks
        self._conversations = Conversations()

    def body(self, request: ModelRequest) -> bytes:
        """The whole request. Costs the new messages, and one copy of the bytes."""
        family = model_family(request.model)
        encoded = self._conversations.of(request)
        encoded.follow(request, lambda place: self._encode(request.messages, place, request, family))
        front = _joined(_system(request, self._quirks))
        behind = [item for message in request.extra for item in message_items(message, family, self._quirks)]
        if (images := _images_message(request.messages, len(request.messages), request.load_blob)) is not None:
            behind.insert(0, images)
        # Every item brings the comma before it; the first one of all has none.
        messages = b"".join((front, encoded.items, _joined(behind)))[1:]
        return b"".join((to_json(self._head(request))[:-1], b',"messages":[', messages, b"]}"))

    def _encode(self, messages: Sequence[Message], index: int, request: ModelRequest, family: str) -> bytes:
        self.encoded_messages += 1
        items = message_items(messages[index], family, self._quirks, request.load_blob)
        if not isinstance(messages[index], ToolResultMessage):
            # The results before it are complete now, so that their images can follow them.
            images = _images_message(messages, index, request.load_blob)
            items = [images, *items] if images else items
        return _joined(items)

    def _head(self, request: ModelRequest) -> dict[str, Any]:
        """Everything of a body but its messages."""
        quirks = self._quirks
        head: dict[str, Any] = {"model": request.model}
        if request.tools:
            head["tools"] = [_tool(tool) for tool in request.tools]
            if quirks.parallel_calls is not None:
                head["parallel_tool_calls"] = quirks.parallel_calls
        if request.effort is not None and quirks.effort != "none":
            head[quirks.effort] = _EFFORTS[request.effort]
        if request.cache_key and quirks.cache_key:
            head["prompt_cache_key"] = request.cache_key[:_CACHE_KEY_CHARS]
        head[quirks.output_cap] = request.max_tokens
        head["stream"] = True
        if quirks.usage == "asked":
            head["stream_options"] = {"include_usage": True}
        return head


def _joined(items: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(b"," + to_json(item) for item in items)


def message_items(
    message: Message, family: str, quirks: ChatQuirks, load_blob: LoadBlob | None = None
) -> list[dict[str, Any]]:
    """The wire's messages for one of claw's; empty if nothing of it can be sent."""
    if isinstance(message, AssistantMessage):
        return _assistant(message, family, quirks)
    if isinstance(message, ToolResultMessage):
        texts = [block.text for block in message.blocks if isinstance(block, TextBlock) and block.text.strip()]
        images = sum(1 for block in message.blocks if isinstance(block, ImageBlock))
        if images:
            texts.append(f"[{images} image{'s' if images > 1 else ''}, shown below the results]")
        if message.is_error:
            texts.insert(0, ERROR_MARK)
        return [
            {"role": "tool", "tool_call_id": _id(message.call_id, quirks), "content": "\n".join(texts) or NO_OUTPUT}
        ]
    content = _content(message.blocks, load_blob)
    return [{"role": "user", "content": content}] if content else []


def _assistant(message: AssistantMessage, family: str, quirks: ChatQuirks) -> list[dict[str, Any]]:
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    reasoning: list[str] = []
    for block in message.blocks:
        match block:
            case TextBlock() if block.text.strip():
                texts.append(block.text)
            case ToolCall(finished=True):
                function = {"name": wire_name(block.name), "arguments": wire_arguments(block.arguments)}
                calls.append({"id": _id(block.id, quirks), "type": "function", "function": function})
            case OpaqueBlock(api="chat") if block.family == family and block.raw.get("type") == REASONING:
                reasoning.append(str(block.raw.get("text", "")))
    if not texts and not calls:
        return []
    item: dict[str, Any] = {"role": "assistant", "content": "\n\n".join(texts) or None}
    if quirks.calls_as_text:
        written = [_written_call(call["function"]) for call in calls]
        return [{"role": "assistant", "content": "\n".join([*texts, *written])}]
    if calls:
        item["tool_calls"] = calls
    if reasoning and quirks.reasoning_back:
        item[quirks.reasoning_back] = "\n".join(reasoning)
    return [item]


def _id(call_id: str, quirks: ChatQuirks) -> str:
    return nine_characters(call_id) if quirks.call_ids == "nine" else wire_id(call_id, _ID_CHARS)


def _written_call(function: dict[str, str]) -> str:
    """A call as the model wrote it, for models that know no other form."""
    return f'<tool_call>\n{{"name": "{function["name"]}", "arguments": {function["arguments"]}}}\n</tool_call>'


def _content(blocks: Iterable[UserBlock], load_blob: LoadBlob | None) -> str | list[dict[str, Any]]:
    kept = [block for block in blocks if isinstance(block, ImageBlock) or block.text.strip()]
    if len(kept) == 1 and isinstance(only := kept[0], TextBlock):
        return only.text
    return [_image_part(b, load_blob) if isinstance(b, ImageBlock) else {"type": "text", "text": b.text} for b in kept]


def _image_part(block: ImageBlock, load_blob: LoadBlob | None) -> dict[str, Any]:
    data = image_base64(block, load_blob)
    if not data:
        return {"type": "text", "text": missing_image(block)}
    return {"type": "image_url", "image_url": {"url": f"data:{block.media_type};base64,{data}"}}


def _images_message(messages: Sequence[Message], end: int, load_blob: LoadBlob | None) -> dict[str, Any] | None:
    """The images of the results that stand right before place `end`, as a user message."""
    parts: list[dict[str, Any]] = []
    while end and isinstance(message := messages[end - 1], ToolResultMessage):
        parts[:0] = [_image_part(block, load_blob) for block in message.blocks if isinstance(block, ImageBlock)]
        end -= 1
    if not parts:
        return None
    return {"role": "user", "content": [{"type": "text", "text": "Images of the results above:"}, *parts]}


def _system(request: ModelRequest, quirks: ChatQuirks) -> list[dict[str, Any]]:
    text = "\n\n".join(section.text for section in request.system if section.text.strip())
    return [{"role": quirks.system_role, "content": text}] if text else []


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}

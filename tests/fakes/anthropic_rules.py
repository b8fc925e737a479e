"""What the Anthropic Messages API refuses, in its own words, so that a test fails where the real service would answer 400.

Pure: a request's body goes in, the error's text comes out. Wordings as seen in public reports; version 2026-10-21 of the API.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import Any

_TOP_LEVEL = {
    "model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "thinking", "output_config",
    "metadata", "stop_sequences", "service_tier",
}  # fmt: skip
_GONE = ("temperature", "top_p", "top_k")
_USER_TYPES = {"text", "image", "document", "tool_result", "search_result"}
_ASSISTANT_TYPES = {"text", "thinking", "redacted_thinking", "tool_use"}
_IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_SERVER_BLOCK = re.compile(r"server_tool_use|mcp_tool_use|\w+_tool_result|container_upload")


def refusal(raw: bytes) -> str | None:
    """The message of the 400 that the API would give to this body, or None if it is valid."""
    try:
        body = json.loads(raw.decode("utf-8"))
        json.dumps(body, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return "The request body is not valid JSON: no low surrogate in string"
    except ValueError as error:
        return f"The request body is not valid JSON: {error}"
    if not isinstance(body, dict):
        return "Input should be a valid dictionary"
    return next(_problems(body), None)


def _problems(body: dict[str, Any]) -> Iterator[str]:
    yield from _top_level(body)
    yield from _cache_marks(body)
    for index, tool in enumerate(body.get("tools", [])):
        yield from _tool(index, tool)
    names = [tool.get("name") for tool in body.get("tools", [])]
    if len(names) != len(set(names)):
        yield "tools: Tool names must be unique."
    system = body.get("system", [])
    for index, block in enumerate(system if isinstance(system, list) else []):
        yield from _text(block, f"system.{index}", "system")
    yield from _messages(body["messages"])


def _top_level(body: dict[str, Any]) -> Iterator[str]:
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            yield f"{name}: Field required"
    for name in _GONE:
        if name in body:
            yield f"{name}: This parameter is not supported by this API version."
    for name in body:
        if name not in _TOP_LEVEL:
            yield f"{name}: Extra inputs are not permitted"
    if type(body["max_tokens"]) is not int or body["max_tokens"] < 0:
        yield "max_tokens: Input should be a valid integer"
    thinking = body.get("thinking", {"type": "disabled"})
    kind = thinking.get("type")
    if kind not in ("adaptive", "enabled", "disabled"):
        yield "thinking.type: Input tag does not match any of the expected tags: 'adaptive', 'disabled', 'enabled'"
    if kind == "enabled" and thinking.get("budget_tokens", 0) < 1024:
        yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    if kind == "enabled" and thinking["budget_tokens"] >= body["max_tokens"]:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`."
    effort = body.get("output_config", {}).get("effort", "high")
    if effort not in ("low", "medium", "high", "xhigh", "max"):
        yield "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"


def _cache_marks(body: dict[str, Any]) -> Iterator[str]:
    found = 0
    pending: list[Any] = [body]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if value.get("type") == "ephemeral" or "cache_control" in value:
                found += "cache_control" in value
            # A tool's schema and a call's input are data: what is in there is no mark.
            pending.extend(v for k, v in value.items() if k not in ("input_schema", "input", "cache_control"))
        elif isinstance(value, list):
            pending.extend(value)
    if found > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {found}."


def _tool(index: int, tool: dict[str, Any]) -> Iterator[str]:
    if not _TOOL_NAME.fullmatch(tool.get("name", "")):
        yield f"tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
    if tool.get("input_schema", {}).get("type") != "object":
        yield f"tools.{index}.custom.input_schema.type: Input should be 'object'"


def _text(block: dict[str, Any], place: str, root: str) -> Iterator[str]:
    if block.get("type") != "text" or not isinstance(block.get("text"), str):
        yield f"{place}.text: Input should be a valid string"
    if not block["text"]:
        yield f"{root}: text content blocks must be non-empty"
    if not block["text"].strip():
        yield f"{root}: text content blocks must contain non-whitespace text"


def _messages(messages: list[dict[str, Any]]) -> Iterator[str]:
    if not messages:
        yield "messages: at least one message is required"
    if messages[0].get("role") != "user":
        yield 'messages: first message must use the "user" role'
    merged = _merge_roles(messages)
    open_calls: list[str] = []
    seen: set[str] = set()
    for index, message in enumerate(merged):
        content = message["content"]
        if not content:
            yield f"messages.{index}: all messages must have non-empty content"
        if message["role"] == "user":
            yield from _user(index, content, open_calls)
            open_calls = []
        elif message["role"] == "assistant":
            yield from _assistant(index, content)
            open_calls = [block["id"] for block in content if block["type"] == "tool_use"]
            if seen & set(open_calls):
                yield f"messages.{index}: `tool_use` ids must be unique: {', '.join(sorted(seen & set(open_calls)))}"
            seen |= set(open_calls)
        else:
            yield f"messages.{index}.role: Input should be 'user' or 'assistant'"
    if open_calls:
        yield _unanswered(len(merged) - 1, open_calls)
    last = merged[-1]
    if last["role"] == "assistant" and not any(_SERVER_BLOCK.fullmatch(b["type"]) for b in last["content"]):
        yield "This model does not support assistant message prefill. The conversation must end with a user message."


def _merge_roles(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As the API does: neighbours of one role are one message."""
    merged: list[dict[str, Any]] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if merged and merged[-1]["role"] == message["role"]:
            merged[-1]["content"] = merged[-1]["content"] + blocks
        else:
            merged.append({"role": message["role"], "content": blocks})
    return merged


def _unanswered(index: int, ids: list[str]) -> str:
    return (
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(ids)}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _user(index: int, content: list[dict[str, Any]], open_calls: list[str]) -> Iterator[str]:
    answered: list[str] = []
    behind_text = False
    for position, block in enumerate(content):
        place = f"messages.{index}.content.{position}"
        kind = block.get("type")
        if kind not in _USER_TYPES:
            yield f"{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags for user messages"
        if kind == "text":
            yield from _text(block, place, "messages")
        if kind == "image":
            yield from _image(block, place)
        if kind != "tool_result":
            behind_text = True
            continue
        if behind_text:
            yield _unanswered(index - 1, [str(block.get("tool_use_id"))])
        yield from _result(block, place, open_calls, answered)
        answered.append(block["tool_use_id"])
    missing = [call_id for call_id in open_calls if call_id not in answered]
    if missing:
        yield _unanswered(index - 1, missing)
    if answered != open_calls:
        # The service itself takes any order; claw promises call order, so another one is a defect.
        yield f"messages.{index}: `tool_result` blocks are not in the order of their calls: {', '.join(answered)}"


def _result(block: dict[str, Any], place: str, open_calls: list[str], answered: list[str]) -> Iterator[str]:
    call_id = block.get("tool_use_id")
    if call_id not in open_calls:
        yield (
            f"{place}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each `tool_result` block must "
            "have a corresponding `tool_use` block in the previous message."
        )
    if call_id in answered:
        yield f"{place}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {call_id}"
    for position, part in enumerate(block.get("content", [])):
        inner = f"{place}.tool_result.content.{position}"
        yield from _text(part, inner, "messages") if part.get("type") == "text" else _image(part, inner)


def _assistant(index: int, content: list[dict[str, Any]]) -> Iterator[str]:
    ids: set[str] = set()
    for position, block in enumerate(content):
        place = f"messages.{index}.content.{position}"
        kind = str(block.get("type"))
        if kind not in _ASSISTANT_TYPES and not _SERVER_BLOCK.fullmatch(kind):
            yield f"{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
        if kind == "text":
            yield from _text(block, place, "messages")
        if kind in ("thinking", "redacted_thinking"):
            yield from _thinking(block, place)
        if kind == "tool_use":
            yield from _call(block, place, ids)
    if content and content[-1]["type"] in ("thinking", "redacted_thinking"):
        yield f"messages.{index}: The final block in an assistant message cannot be `thinking`."


def _thinking(block: dict[str, Any], place: str) -> Iterator[str]:
    if "cache_control" in block:
        yield f"{place}.{block['type']}.cache_control: Extra inputs are not permitted"
    if block["type"] == "thinking" and not block.get("signature"):
        yield f"{place}.thinking.signature: Field required"
    if block["type"] == "thinking" and not isinstance(block.get("thinking"), str):
        yield f"{place}.thinking.thinking: Field required"
    if block["type"] == "redacted_thinking" and not block.get("data"):
        yield f"{place}.redacted_thinking.data: Field required"


def _call(block: dict[str, Any], place: str, ids: set[str]) -> Iterator[str]:
    if not _ID.fullmatch(str(block.get("id", ""))):
        yield f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if block["id"] in ids:
        yield f"{place}: `tool_use` ids must be unique"
    ids.add(block["id"])
    if not _TOOL_NAME.fullmatch(block.get("name", "")):
        yield f"{place}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
    if not isinstance(block.get("input"), dict):
        yield f"{place}.tool_use.input: Input should be a valid dictionary"


def _image(block: dict[str, Any], place: str) -> Iterator[str]:
    source = block.get("source", {})
    if source.get("type") != "base64" or source.get("media_type") not in _IMAGES:
        yield f"{place}.image.source.base64.media_type: Input should be {sorted(_IMAGES)}"
    try:
        if not base64.b64decode(source.get("data", ""), validate=True):
            yield f"{place}.image.source.base64: image cannot be empty"
    except binascii.Error:
        yield f"{place}.image.source.base64.data: Invalid base64 data"

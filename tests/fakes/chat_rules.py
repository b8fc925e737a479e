"""What a strict server of the Chat Completions API refuses, so that a test fails where a real one would answer 400.

Pure: a request's body goes in, (message, param, code) comes out. Wordings as seen in public reports; some rules are claw's
own promises (noted where they stand).
"""

import json
import re
from collections.abc import Iterator
from typing import Any

Problem = tuple[str, str | None, str | None]
"""(message, param, code)"""

_TOP_LEVEL = {
    "model", "messages", "tools", "parallel_tool_calls", "reasoning_effort", "prompt_cache_key", "max_tokens",
    "max_completion_tokens", "stream", "stream_options",
}  # fmt: skip
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST_ID_CHARS = 40
_ASSISTANT_FIELDS = {"role", "content", "tool_calls", "reasoning_content", "reasoning"}
_DATA_URL = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*")


def refusal(raw: bytes) -> Problem | None:
    """The 400 that the API would give to this body, or None if it is valid."""
    try:
        body = json.loads(raw.decode("utf-8"))
        json.dumps(body, ensure_ascii=False).encode("utf-8")
    except ValueError as error:
        return f"We could not parse the JSON body of your request. ({error})", None, None
    if not isinstance(body, dict):
        return "Invalid type for the request body: expected an object.", None, "invalid_type"
    return next(_problems(body), None)


def _problems(body: dict[str, Any]) -> Iterator[Problem]:
    for name in body:
        if name not in _TOP_LEVEL:
            yield f"Unrecognized request argument supplied: {name}", name, None
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "you must provide a model parameter", "model", None
    if body.get("stream") is not True:
        yield "claw always streams: 'stream' must be true.", "stream", None
    caps = [body[name] for name in ("max_tokens", "max_completion_tokens") if name in body]
    if len(caps) != 1 or type(caps[0]) is not int or caps[0] < 1:
        yield "Invalid 'max_tokens': give exactly one cap of at least 1.", "max_tokens", "invalid_value"
    if "tools" in body and not body["tools"]:
        yield "Invalid 'tools': empty array.", "tools", "empty_array"
    for index, tool in enumerate(body.get("tools", [])):
        function = tool.get("function", {})
        if tool.get("type") != "function" or not _TOOL_NAME.fullmatch(str(function.get("name"))):
            yield f"Invalid 'tools[{index}].function.name'.", f"tools[{index}]", "invalid_value"
        if not isinstance(function.get("parameters"), dict):
            yield (
                f"Invalid schema for function {function.get('name')!r}.",
                f"tools[{index}]",
                "invalid_function_parameters",
            )
    if "parallel_tool_calls" in body and not body.get("tools"):
        yield "'parallel_tool_calls' is only allowed when 'tools' are specified.", "parallel_tool_calls", None
    yield from _messages(body.get("messages"))


def _messages(messages: Any) -> Iterator[Problem]:
    if not isinstance(messages, list) or not messages:
        yield "Invalid 'messages': empty array.", "messages", "empty_array"
        return
    open_calls: list[str] = []
    seen: set[str] = set()
    for index, message in enumerate(messages):
        place, role = f"messages[{index}]", message.get("role")
        if role != "tool" and open_calls:
            yield (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following did not have response messages: {', '.join(open_calls)}",
                place,
                None,
            )
        match role:
            case "system" | "developer":
                if index:
                    yield "claw promises one system message, the first.", place, None
                yield from _text(place, message.get("content"))
            case "user":
                yield from _content(place, message.get("content"))
            case "assistant":
                yield from _assistant(place, message)
                open_calls = [call["id"] for call in message.get("tool_calls", [])]
                if seen & set(open_calls):
                    # Servers take it; claw promises that no id stands twice in a conversation.
                    yield f"ids of calls that were used before: {', '.join(seen & set(open_calls))}", place, None
                seen |= set(open_calls)
            case "tool":
                yield from _result(place, message, open_calls)
                open_calls = open_calls[1:]
            case _:
                yield f"Invalid value: {role!r}.", f"{place}.role", "invalid_value"
    if open_calls:
        yield f"Tool calls without results at the end: {', '.join(open_calls)}", "messages", None


def _assistant(place: str, message: dict[str, Any]) -> Iterator[Problem]:
    content, calls = message.get("content"), message.get("tool_calls")
    if calls is not None and not calls:
        yield f"Invalid '{place}.tool_calls': empty array.", f"{place}.tool_calls", "empty_array"
    if not calls or content is not None:
        yield from _text(place, content)
    if unknown := message.keys() - _ASSISTANT_FIELDS:
        yield f"Unknown fields in '{place}': {sorted(unknown)}", place, "unknown_parameter"
    ids = [call.get("id") for call in calls or []]
    if long := [id_ for id_ in ids if isinstance(id_, str) and len(id_) > _MOST_ID_CHARS]:
        yield (
            f"Invalid '{place}.tool_calls[0].id': string too long. Expected a string with maximum length {_MOST_ID_CHARS}, "
            f"but got a string with length {len(long[0])} instead.",
            f"{place}.tool_calls[0].id",
            "string_above_max_length",
        )
    if len(ids) != len(set(ids)) or not all(isinstance(id_, str) and id_ for id_ in ids):
        yield f"Invalid '{place}.tool_calls': ids must be unique and not empty.", place, "invalid_value"
    for number, call in enumerate(calls or []):
        function = call.get("function", {})
        if call.get("type") != "function" or not _TOOL_NAME.fullmatch(str(function.get("name"))):
            yield f"Invalid '{place}.tool_calls[{number}].function.name'.", place, "invalid_value"
        try:
            arguments = json.loads(function.get("arguments", ""))
        except (ValueError, TypeError):
            arguments = None
        if not isinstance(arguments, dict):
            yield f"Invalid '{place}.tool_calls[{number}].function.arguments': not the JSON of an object.", place, None


def _result(place: str, message: dict[str, Any], open_calls: list[str]) -> Iterator[Problem]:
    call_id = message.get("tool_call_id")
    if not open_calls or call_id not in open_calls:
        yield "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'.", place, None
    elif call_id != open_calls[0]:
        # claw promises call order.
        yield f"The result of {call_id} stands before that of {open_calls[0]}.", place, None
    yield from _text(place, message.get("content"))


def _text(place: str, content: Any) -> Iterator[Problem]:
    if not isinstance(content, str) or not content.strip():
        yield f"Invalid type for '{place}.content': expected a string that is not blank.", place, "invalid_type"


def _content(place: str, content: Any) -> Iterator[Problem]:
    if not isinstance(content, list):
        yield from _text(place, content)
        return
    if not content:
        yield f"Invalid '{place}.content': empty array.", place, "empty_array"
    for part in content:
        if part.get("type") == "text":
            yield from _text(place, part.get("text"))
        elif part.get("type") != "image_url" or not _DATA_URL.fullmatch(part.get("image_url", {}).get("url", "")):
            yield f"Invalid '{place}.content': {str(part)[:80]}", place, "invalid_value"

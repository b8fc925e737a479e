"""What the OpenAI Responses API refuses, in its own manner, so that a test fails where the real service would answer 400.

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
    "model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "store", "include", "reasoning",
    "prompt_cache_key", "max_output_tokens", "stream", "text", "truncation", "metadata", "service_tier", "background",
}  # fmt: skip
_COUNTED = {"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning"}
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_PLAIN_MODEL = re.compile(r"gpt-4")
_NEVER_OFF = re.compile(r"gpt-6\.2|o\d")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DATA_URL = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*")


def refusal(raw: bytes, counting: bool = False) -> Problem | None:
    """The 400 that the API would give to this body, or None if it is valid."""
    try:
        body = json.loads(raw.decode("utf-8"))
        json.dumps(body, ensure_ascii=False).encode("utf-8")
    except ValueError as error:
        return f"We could not parse the JSON body of your request. ({error})", None, None
    if not isinstance(body, dict):
        return "Invalid type for the request body: expected an object.", None, "invalid_type"
    return next(_problems(body, counting), None)


def _problems(body: dict[str, Any], counting: bool) -> Iterator[Problem]:
    for name in body:
        if name not in (_COUNTED if counting else _TOP_LEVEL):
            yield f"Unknown parameter: '{name}'.", name, "unknown_parameter"
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "Missing required parameter: 'model'.", "model", "missing_required_parameter"
    if not counting:
        yield from _switches(body)
    yield from _reasoning(body)
    for index, tool in enumerate(body.get("tools", [])):
        yield from _tool(f"tools[{index}]", tool)
    names = [tool.get("name") for tool in body.get("tools", [])]
    if len(names) != len(set(names)):
        yield "Tool names must be unique.", "tools", None
    if "tool_choice" in body and not body.get("tools"):
        yield "Tool choice 'auto' must be specified with 'tools' parameter.", "tool_choice", None
    if "instructions" in body and not str(body["instructions"]).strip():
        yield "Invalid 'instructions': string is blank.", "instructions", None
    yield from _input(body.get("input"))


def _switches(body: dict[str, Any]) -> Iterator[Problem]:
    cap = body.get("max_output_tokens", 16)
    if type(cap) is not int or cap < 16:
        yield (
            f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got {cap} instead.",
            "max_output_tokens",
            "integer_below_min_value",
        )
    if len(body.get("prompt_cache_key", "")) > 64:
        yield "Invalid 'prompt_cache_key': string too long.", "prompt_cache_key", "string_above_max_length"
    if body.get("store") is not False:
        # The service would take it; claw promises to leave nothing on the server.
        yield "claw stores nothing: 'store' must be false.", "store", None
    if body.get("stream") is not True:
        yield "This server only streams.", "stream", None


def _reasoning(body: dict[str, Any]) -> Iterator[Problem]:
    model, plain = body["model"], _PLAIN_MODEL.match(body["model"])
    if "reasoning.encrypted_content" in body.get("include", []) and plain:
        yield "Encrypted content is not supported with this model.", "include", None
    if "reasoning" not in body:
        return
    effort = body["reasoning"].get("effort", "medium")
    if plain:
        yield (
            f"Unsupported parameter: 'reasoning.effort' is not supported with this model: {model}.",
            "reasoning.effort",
            "unsupported_parameter",
        )
    if effort not in _EFFORTS or (effort in ("none", "minimal") and _NEVER_OFF.match(model)):
        yield (
            f"Unsupported value: '{effort}' is not supported with the '{model}' model.",
            "reasoning.effort",
            "unsupported_value",
        )


def _tool(place: str, tool: dict[str, Any]) -> Iterator[Problem]:
    if tool.get("type") != "function":
        yield f"Invalid value: '{tool.get('type')}'.", f"{place}.type", "invalid_value"
    if not _TOOL_NAME.fullmatch(tool.get("name", "")):
        yield (
            f"Invalid '{place}.name': string does not match pattern '^[a-zA-Z0-9_-]+$'.",
            f"{place}.name",
            "invalid_value",
        )
    if tool.get("parameters", {}).get("type") != "object":
        yield (
            f"Invalid schema for function '{tool.get('name')}': schema must be a JSON Schema of 'type: \"object\"'.",
            f"{place}.parameters",
            "invalid_function_parameters",
        )


def _input(items: Any) -> Iterator[Problem]:
    if not isinstance(items, list) or not items:
        yield "One of 'input' or 'previous_response_id' must be provided.", "input", "missing_required_parameter"
        return
    open_calls: list[str] = []
    seen: set[str] = set()
    ids: set[str] = set()
    for index, item in enumerate(items):
        place = f"input[{index}]"
        kind = item.get("type", "message")
        if (item_id := item.get("id")) is not None:
            if item_id in ids:
                yield f"Duplicate item found with id {item_id}. Remove duplicate items from your input.", "input", None
            ids.add(item_id)
        if kind == "message":
            yield from _message(place, item)
            if open_calls and item.get("role") != "assistant":
                # The service waits for the end of the input; claw promises results right behind the reply that calls.
                yield _unanswered(open_calls)
        elif kind == "function_call":
            yield from _call(place, item, seen)
            open_calls.append(item["call_id"])
            seen.add(item["call_id"])
        elif kind == "function_call_output":
            yield from _output(place, item, open_calls)
            open_calls.remove(item["call_id"])
        elif kind == "reasoning":
            yield from _reasoning_item(place, item, items[index + 1 :])
        elif not re.fullmatch(r"\w+_call(_output)?|compaction", kind):
            yield f"Invalid value: '{kind}'.", f"{place}.type", "invalid_value"
    if open_calls:
        yield _unanswered(open_calls)


def _unanswered(open_calls: list[str]) -> Problem:
    return f"No tool output found for function call {open_calls[0]}.", "input", None


def _message(place: str, item: dict[str, Any]) -> Iterator[Problem]:
    role = item.get("role")
    if role not in ("user", "assistant", "developer", "system"):
        yield f"Invalid value: '{role}'.", f"{place}.role", "invalid_value"
    if item.get("phase") not in (None, "commentary", "final_answer") or (role != "assistant" and "phase" in item):
        yield f"Invalid value for 'phase': '{item['phase']}'.", f"{place}.phase", "invalid_value"
    content = item.get("content")
    if not content:
        yield f"Invalid '{place}.content': empty.", f"{place}.content", "empty_array"
    parts: Any = [{"type": "input_text", "text": content}] if isinstance(content, str) else content or []
    for position, part in enumerate(parts):
        yield from _part(f"{place}.content[{position}]", part, assistant=role == "assistant")


def _part(place: str, part: dict[str, Any], assistant: bool) -> Iterator[Problem]:
    kind = part.get("type")
    allowed = ("output_text", "refusal") if assistant else ("input_text", "input_image", "input_file")
    if kind not in allowed:
        supported = " and ".join(f"'{name}'" for name in allowed)
        yield f"Invalid value: '{kind}'. Supported values are: {supported}.", place, "invalid_value"
    if kind in ("input_text", "output_text") and not str(part.get("text", "")).strip():
        yield f"Invalid '{place}.text': blank text.", f"{place}.text", "empty_string"
    if kind == "input_image" and not _DATA_URL.fullmatch(part.get("image_url", "")):
        yield (
            f"Invalid '{place}.image_url'. Expected a base64-encoded data URL with an image MIME type.",
            f"{place}.image_url",
            "invalid_value",
        )


def _call(place: str, item: dict[str, Any], seen: set[str]) -> Iterator[Problem]:
    call_id = item.get("call_id")
    if not isinstance(call_id, str) or not 0 < len(call_id) <= 64:
        yield f"Invalid '{place}.call_id': empty or too long.", f"{place}.call_id", "invalid_value"
    if call_id in seen:
        yield f"Duplicate function call with call_id {call_id}.", "input", None
    if not _TOOL_NAME.fullmatch(item.get("name", "")):
        yield f"Invalid '{place}.name'.", f"{place}.name", "invalid_value"
    try:
        arguments = json.loads(item.get("arguments", ""))
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        # Compatible servers parse the arguments; the service itself takes any string.
        yield f"Invalid '{place}.arguments': not the JSON of an object.", f"{place}.arguments", "invalid_value"


def _output(place: str, item: dict[str, Any], open_calls: list[str]) -> Iterator[Problem]:
    call_id = item.get("call_id")
    if call_id not in open_calls:
        yield f"No tool call found for function call output with call_id {call_id}.", "input", None
    if call_id != open_calls[0]:
        # claw promises call order.
        yield f"The output of {call_id} stands before that of {open_calls[0]}.", "input", None
    output = item.get("output")
    if isinstance(output, list):
        for position, part in enumerate(output):
            yield from _part(f"{place}.output[{position}]", part, assistant=False)
    if not output:
        yield f"Invalid '{place}.output': empty.", f"{place}.output", "invalid_value"


def _reasoning_item(place: str, item: dict[str, Any], behind: list[dict[str, Any]]) -> Iterator[Problem]:
    if not isinstance(item.get("summary"), list):
        yield f"Missing required parameter: '{place}.summary'.", f"{place}.summary", "missing_required_parameter"
    if not item.get("encrypted_content") and not item.get("content"):
        yield (
            f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false. Try again "
            "with `store` set to true, or remove this item from your input.",
            "input",
            None,
        )
    following = next((entry for entry in behind if entry.get("type") != "reasoning"), {})
    ours = following.get("type") not in (None, "function_call_output") and following.get("role") != "user"
    if not ours:
        yield (
            f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item.",
            "input",
            None,
        )

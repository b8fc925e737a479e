"""The chunks of a Chat Completions stream as servers really send them, and what their reports mean.

Loosely typed: no unknown field and no odd value of one that is known can fail.
"""

import json
from typing import Any

import msgspec

from providers.errors import ProtocolError, ProviderError, classify
from providers.figures import tokens
from providers.types import StopReason, Usage
from providers.unicode import clean

STOPS: dict[str, StopReason] = {
    "stop": "end_turn",
    "eos": "end_turn",
    "end_turn": "end_turn",
    "stop_sequence": "stop_sequence",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "tool_use": "tool_use",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "content_filter": "refusal",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_window_exceeded",
}


def decode(data: bytes) -> dict[str, Any]:
    """One chunk.

    Raises:
        ProtocolError: not JSON, or no object.
    """
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        try:
            value = json.loads(data.decode("utf-8", "replace"))  # lone surrogates are JSON and no UTF-8
        except (ValueError, RecursionError):
            start = data[:200].decode("utf-8", "replace")
            raise ProtocolError(f"The server sent an event that is not JSON: {start}") from error
    if not isinstance(value, dict):
        raise ProtocolError(f"The server sent an event that is no object: {data[:200].decode('utf-8', 'replace')}")
    return value


def failure(chunk: dict[str, Any]) -> ProviderError | None:
    """The error that a chunk reports after the status line said 200."""
    error = chunk.get("error")
    if not error:
        return None
    fields = error if isinstance(error, dict) else {"message": error}
    code = next((str(fields[name]) for name in ("code", "type") if fields.get(name)), "")
    message = fields.get("message")
    text = clean(message) if isinstance(message, str) and message else code or "The provider reported a failure."
    status = int(code) if code.isdecimal() and len(code) == 3 else None
    return classify(text, status=status, kind=code)


def text_of(value: Any) -> str:
    """A piece of text: a string, or a list of parts that have one."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(part["text"] for part in value if isinstance(part, dict) and isinstance(part.get("text"), str))
    return ""


def reasoning_of(delta: dict[str, Any]) -> str:
    """The piece of reasoning in a delta, under whichever name the server gives it."""
    for name in ("reasoning_content", "reasoning", "thinking"):
        if text := text_of(delta.get(name)):
            return text
    # Some servers send thinking as parts of the content.
    content = delta.get("content")
    parts = content if isinstance(content, list) else []
    return "".join(text_of(part.get("thinking")) for part in parts if isinstance(part, dict))


def usage_of(value: Any) -> Usage | None:
    """A report, normalised: `prompt_tokens` holds what came from a cache; None where there is none."""
    if not isinstance(value, dict):
        return None
    prompt, output = tokens(value.get("prompt_tokens")), tokens(value.get("completion_tokens"))
    inputs, outputs = value.get("prompt_tokens_details"), value.get("completion_tokens_details")
    read = _detail(inputs, "cached_tokens") or tokens(value.get("prompt_cache_hit_tokens"))
    written = _detail(inputs, "cache_write_tokens")
    thinking = _detail(outputs, "reasoning_tokens")
    if thinking > output:  # a server that does not count reasoning into the reply
        output += thinking
    # A server whose total is smaller than its parts does not count the cached ones in.
    fresh = prompt - read - written if prompt >= read + written else prompt
    found = Usage(fresh, read, written, output, thinking)
    return found if found.reported or output else None


def _detail(holder: Any, field: str) -> int:
    return tokens(holder.get(field)) if isinstance(holder, dict) else 0

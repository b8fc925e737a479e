"""Conversations and requests that the adapters' tests share."""

from collections.abc import Sequence
from typing import Any

from providers.base import ModelRequest
from providers.types import (
    AssistantMessage,
    Message,
    PromptSection,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
)

SYSTEM = (
    PromptSection("identity", "You are claw.", True),
    PromptSection("tools", "Use tools.", True),
    PromptSection("instructions", "Use tabs.", False),
)
READ = ToolSpec(
    "read",
    "Read a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": False},
)


def user(*texts: str) -> UserMessage:
    return UserMessage(tuple(map(TextBlock, texts)))


def calls(*ids: str) -> AssistantMessage:
    return AssistantMessage(tuple(ToolCall(call_id, "read", '{"path": "a"}') for call_id in ids))


def result(call_id: str, text: str = "done", is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(call_id, (TextBlock(text),), is_error)


def request(messages: Sequence[Message], **changes: Any) -> ModelRequest:
    """A request in which everything but the last message is stable."""
    fields: dict[str, Any] = {
        "model": "claude-sonnet-5-5",
        "system": (),
        "tools": (),
        "messages": messages,
        "generation": 0,
        "stable": max(len(messages) - 1, 0),
        "max_tokens": 1_000,
        **changes,
    }
    return ModelRequest(**fields)

"""Replies written in one vocabulary for all wire APIs, so that a fault is written down once and played on each of them.

A pen writes what `wires` does not: blocks left open, odd reasons to stop, failures in the middle. What an API has no words
for is written as that API's nearest.
"""

import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from tests.fakes.anthropic_wire import MESSAGES, MessageStream
from tests.fakes.anthropic_wire import error_reply as anthropic_error
from tests.fakes.chat_wire import CHAT, ChatStream
from tests.fakes.model_server import End, Reply, Script, json_reply
from tests.fakes.responses_wire import RESPONSES, ResponseStream
from tests.fakes.responses_wire import error_reply as openai_error
from tests.fakes.wires import Wire

Stop = Literal["done", "calls", "cut", "refused", "paused", "sequence", "full", "odd", "none"]
Kind = Literal["overloaded", "rate", "server", "auth", "billing", "invalid", "overflow", "odd"]

_ANTHROPIC_STOPS: dict[Stop, str | None] = {
    "done": "end_turn", "calls": "tool_use", "cut": "max_tokens", "refused": "refusal", "paused": "pause_turn",
    "sequence": "stop_sequence", "full": "model_context_window_exceeded", "odd": "something_new", "none": None,
}  # fmt: skip
_CHAT_STOPS: dict[Stop, str | None] = {
    "done": "stop", "calls": "tool_calls", "cut": "length", "refused": "content_filter", "paused": "pause_turn",
    "sequence": "stop_sequence", "full": "model_context_window_exceeded", "odd": "something_new", "none": None,
}  # fmt: skip
_INCOMPLETE: dict[Stop, str] = {
    "cut": "max_output_tokens", "refused": "content_filter", "full": "model_context_window_exceeded",
    "paused": "pause_turn", "odd": "something_new", "none": "",
}  # fmt: skip
_ANTHROPIC_KINDS: dict[Kind, str] = {
    "overloaded": "overloaded_error", "rate": "rate_limit_error", "server": "api_error", "auth": "authentication_error",
    "billing": "billing_error", "invalid": "invalid_request_error", "overflow": "invalid_request_error", "odd": "new_error",
}  # fmt: skip
_OPENAI_KINDS: dict[Kind, str] = {
    "overloaded": "server_overloaded", "rate": "rate_limit_exceeded", "server": "server_error", "auth": "invalid_api_key",
    "billing": "insufficient_quota", "invalid": "invalid_prompt", "overflow": "context_length_exceeded", "odd": "new_error",
}  # fmt: skip
_PROMPT_TOKENS = 6_000
_ids = itertools.count(1)


class Pen(Protocol):
    """One reply, written piece by piece; every method returns self."""

    @property
    def data(self) -> bytes: ...
    def thinking(self, text: str) -> "Pen": ...
    def text(self, text: str) -> "Pen": ...
    def call(self, name: str, arguments: Any, id: str | None = None) -> "Pen": ...
    def half(self, name: str, arguments: str) -> "Pen":
        """A call whose arguments do not go on."""
        ...

    def unknown(self) -> "Pen":
        """What a later version of the API may send."""
        ...

    def served(self) -> "Pen":
        """A tool that the server itself runs, with what it gave."""
        ...

    def error(self, kind: Kind, words: str) -> "Pen": ...
    def stop(self, how: Stop = "done") -> "Pen": ...
    def raw(self, data: bytes) -> "Pen": ...
    def reply(self, end: End = "complete") -> Reply: ...


class Pens:
    """The pens of one wire, and its refusals."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.api = {"anthropic": "anthropic", "openai": "responses"}.get(wire.provider, "chat")
        self.path = {"anthropic": MESSAGES, "responses": RESPONSES, "chat": CHAT}[self.api]

    def new(self) -> Pen:
        return PENS[self.api](self.wire.model)

    def refuse(self, status: int, kind: Kind, words: str, headers: Mapping[str, str] | None = None) -> Reply:
        if self.api == "anthropic":
            return anthropic_error(status, _ANTHROPIC_KINDS[kind], words, headers)
        return openai_error(status, (words, None, _OPENAI_KINDS[kind]), headers)

    def script(self, *scripts: Script) -> None:
        self.wire.server.queue(self.path, *scripts)

    def whole_answer(self, text: str) -> Reply:
        """The answer of a server that does not know streaming."""
        values: dict[str, Any] = {
            "anthropic": {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "text", "text": text}],
                "stop_reason": "end_turn",
            },
            "responses": {"object": "response", "status": "completed", "output": [], "output_text": text},
            "chat": {
                "object": "chat.completion",
                "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            },
        }
        return json_reply(values[self.api])


class _Anthropic:
    def __init__(self, model: str) -> None:
        self._stream = MessageStream(model, {"input_tokens": _PROMPT_TOKENS, "output_tokens": 5})

    @property
    def data(self) -> bytes:
        return self._stream.data

    def thinking(self, text: str) -> "Pen":
        self._stream.thinking(text)
        return self

    def text(self, text: str) -> "Pen":
        self._stream.text(text)
        return self

    def call(self, name: str, arguments: Any, id: str | None = None) -> "Pen":
        self._stream.tool(name, arguments, id, piece_chars=_piece(arguments))
        return self

    def half(self, name: str, arguments: str) -> "Pen":
        self._stream.tool(name, arguments, close=False)
        return self

    def unknown(self) -> "Pen":
        self._stream.block({"type": "hologram", "data": {"a": [1]}}, [{"type": "hologram_delta", "light": 1}])
        return self.raw(b'event: weather\ndata: {"type":"weather","sun":true}\n\n')

    def served(self) -> "Pen":
        id_ = f"search_{next(_ids)}"
        found = [{"type": "web_search_result", "url": "https://example.com", "title": "t", "encrypted_content": "e"}]
        self._stream.block({"type": "server_tool_use", "id": id_, "name": "web_search", "input": {"query": "q"}})
        self._stream.block({"type": "web_search_tool_result", "tool_use_id": id_, "content": found})
        return self

    def error(self, kind: Kind, words: str) -> "Pen":
        self._stream.error(_ANTHROPIC_KINDS[kind], words)
        return self

    def stop(self, how: Stop = "done") -> "Pen":
        self._stream.stop(_ANTHROPIC_STOPS[how])
        return self

    def raw(self, data: bytes) -> "Pen":
        self._stream.raw(data)
        return self

    def reply(self, end: End = "complete") -> Reply:
        return self._stream.reply(end)


class _Responses:
    def __init__(self, model: str) -> None:
        self._stream = ResponseStream(model, {"input_tokens": _PROMPT_TOKENS})

    @property
    def data(self) -> bytes:
        return self._stream.data

    def thinking(self, text: str) -> "Pen":
        self._stream.reasoning(text)
        return self

    def text(self, text: str) -> "Pen":
        self._stream.text(text)
        return self

    def call(self, name: str, arguments: Any, id: str | None = None) -> "Pen":
        self._stream.tool(name, arguments, id, piece_chars=_piece(arguments))
        return self

    def half(self, name: str, arguments: str) -> "Pen":
        self._stream.tool(name, arguments, close=False)
        return self

    def unknown(self) -> "Pen":
        self._stream.add("response.weather", sun=True, delta=[1], output_index="x")
        return self

    def served(self) -> "Pen":
        self._stream.item(
            {
                "id": f"search_{next(_ids)}",
                "type": "web_search_call",
                "status": "completed",
                "action": {"type": "search"},
            }
        )
        return self

    def error(self, kind: Kind, words: str) -> "Pen":
        self._stream.error(_OPENAI_KINDS[kind], words)
        return self

    def stop(self, how: Stop = "done") -> "Pen":
        if how in _INCOMPLETE:
            self._stream.incomplete(_INCOMPLETE[how])
        else:
            self._stream.complete()
        return self

    def raw(self, data: bytes) -> "Pen":
        self._stream.raw(data)
        return self

    def reply(self, end: End = "complete") -> Reply:
        return self._stream.reply(end)


class _Chat:
    def __init__(self, model: str) -> None:
        self._stream = ChatStream(model, {"prompt_tokens": _PROMPT_TOKENS, "completion_tokens": 5})

    @property
    def data(self) -> bytes:
        return self._stream.data

    def thinking(self, text: str) -> "Pen":
        self._stream.reasoning(text)
        return self

    def text(self, text: str) -> "Pen":
        self._stream.text(text)
        return self

    def call(self, name: str, arguments: Any, id: str | None = None) -> "Pen":
        self._stream.tool(name, arguments, id, piece_chars=_piece(arguments))
        return self

    def half(self, name: str, arguments: str) -> "Pen":
        self._stream.tool(name, arguments)
        return self

    def unknown(self) -> "Pen":
        self._stream.delta(hologram={"light": 1}, audio=[1])
        self._stream.chunk(object="weather", sun=True, choices="none")
        return self

    def served(self) -> "Pen":
        return self

    def error(self, kind: Kind, words: str) -> "Pen":
        self._stream.chunk(error={"message": words, "code": _OPENAI_KINDS[kind]})
        return self

    def stop(self, how: Stop = "done") -> "Pen":
        self._stream.stop(_CHAT_STOPS[how])
        return self

    def raw(self, data: bytes) -> "Pen":
        self._stream.raw(data)
        return self

    def reply(self, end: End = "complete") -> Reply:
        return self._stream.reply(end)


def _piece(arguments: Any) -> int:
    """Characters of an event: twelve, or more where these would be hundreds of events."""
    return max(12, len(arguments if isinstance(arguments, str) else json.dumps(arguments)) // 100)


PENS: dict[str, Callable[[str], Pen]] = {"anthropic": _Anthropic, "responses": _Responses, "chat": _Chat}
"""Model → a pen, by the API."""

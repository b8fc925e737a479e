"""Anthropic Messages over the fake server: builds its event streams, and judges requests by `anthropic_rules`.

`server.anthropic.reply(text="…", tools=[("bash", {"command": "ls"})])` queues one answer to the next request.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.fakes.anthropic_rules import refusal
from tests.fakes.model_server import (
    Chunk,
    End,
    ModelServer,
    RecordedRequest,
    Reply,
    Script,
    json_reply,
    stream_reply,
)

MESSAGES = "/v1/messages"
COUNT_TOKENS = "/v1/messages/count_tokens"
MODELS = "/v1/models"
_MAX_REQUEST_BYTES = 32 * 1024 * 1024
_ids = itertools.count(1)


def sse(event: str, data: Mapping[str, Any]) -> bytes:
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


class MessageStream:
    """A reply written block by block. `events` holds the bytes of each server-sent event; every method returns self."""

    def __init__(self, model: str = "claude-test", usage: Mapping[str, Any] | None = None) -> None:
        self.events: list[bytes] = []
        self._usage = dict(usage or {"input_tokens": 25, "output_tokens": 1})
        self._blocks = 0
        message: dict[str, Any] = {
            "id": f"msg_{next(_ids):04}", "type": "message", "role": "assistant", "model": model, "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": {**self._usage, "output_tokens": 1},
        }  # fmt: skip
        self._add("message_start", message=message)

    @property
    def data(self) -> bytes:
        return b"".join(self.events)

    def text(self, text: str, piece_chars: int = 16) -> "MessageStream":
        deltas = [{"type": "text_delta", "text": piece} for piece in _cut(text, piece_chars)]
        return self.block({"type": "text", "text": ""}, deltas)

    def thinking(self, text: str, signature: str | None = "c2lnbmVk", piece_chars: int = 16) -> "MessageStream":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _cut(text, piece_chars)]
        if signature is not None:
            deltas.append({"type": "signature_delta", "signature": signature})
        return self.block({"type": "thinking", "thinking": "", "signature": ""}, deltas)

    def redacted_thinking(self, data: str = "ZW5jcnlwdGVk") -> "MessageStream":
        return self.block({"type": "redacted_thinking", "data": data}, [])

    def tool(
        self, name: str, arguments: Any, call_id: str | None = None, piece_chars: int = 12, close: bool = True
    ) -> "MessageStream":
        """A call; `arguments` as a value, or as raw JSON text where it is a string. `close=False` leaves the block open."""
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call_id = call_id if call_id is not None else f"toolu_{next(_ids):04}"
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *_cut(raw, piece_chars))]
        return self.block({"type": "tool_use", "id": call_id, "name": name, "input": {}}, deltas, close)

    def block(
        self, content_block: Mapping[str, Any], deltas: Sequence[Mapping[str, Any]] = (), close: bool = True
    ) -> "MessageStream":
        index = self._blocks
        self._blocks += 1
        self._add("content_block_start", index=index, content_block=content_block)
        for delta in deltas:
            self._add("content_block_delta", index=index, delta=delta)
        if close:
            self._add("content_block_stop", index=index)
        return self

    def ping(self) -> "MessageStream":
        return self._add("ping")

    def error(self, kind: str, message: str) -> "MessageStream":
        """The event that reports a failure after the status line said 200."""
        return self._add("error", error={"type": kind, "message": message}, request_id="req_fake")

    def raw(self, data: bytes) -> "MessageStream":
        self.events.append(data)
        return self

    def stop(
        self, reason: str | None = "end_turn", usage: Mapping[str, Any] | None = None, **delta: Any
    ) -> "MessageStream":
        """message_delta and message_stop; `usage` is added to what the start said (cumulative, as the API reports it)."""
        total = {**self._usage, **(usage or {})}
        self._add("message_delta", delta={"stop_reason": reason, "stop_sequence": None, **delta}, usage=total)
        return self._add("message_stop")

    def reply(self, end: End = "complete", delay_s: float = 0.0) -> Reply:
        """One chunk a server-sent event."""
        return stream_reply(*self.events, end=end, delay_s=delay_s)

    def reply_at_once(self, end: End = "complete") -> Reply:
        return stream_reply(Chunk(self.data), end=end)

    def _add(self, event: str, **fields: Any) -> "MessageStream":
        self.events.append(sse(event, {"type": event, **fields}))
        return self


class AnthropicWire:
    """The Anthropic side of a server. Requests that the real API would refuse get its 400 and use up no reply."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self.key: str | None = None
        """Where set, any other key gets a 401."""
        self.window_tokens: int | None = None
        """Where set, a request over it (a token is four bytes of body) gets "prompt is too long"."""
        self.refusals: list[str] = []
        """The texts of all 400s that the rules gave."""
        server.judge(MESSAGES, self._judge)

    @property
    def requests(self) -> list[RecordedRequest]:
        return self._server.to(MESSAGES)

    @property
    def bodies(self) -> list[Any]:
        return [request.json for request in self.requests]

    def script(self, *scripts: Script) -> None:
        self._server.queue(MESSAGES, *scripts)

    def stream(self, stream: MessageStream, end: End = "complete") -> None:
        self.script(stream.reply(end))

    def reply(
        self,
        text: str = "",
        *,
        thinking: str | None = None,
        tools: Sequence[tuple[str, Any] | tuple[str, Any, str]] = (),
        stop_reason: str | None = None,
        usage: Mapping[str, Any] | None = None,
        end: End = "complete",
        delay_s: float = 0.0,
    ) -> None:
        """Queue one whole answer. A tool is (name, arguments[, id]); without `usage` input is a quarter of the body's bytes."""

        def script(request: RecordedRequest) -> Reply:
            counted = usage or {"input_tokens": len(request.body) // 4, "output_tokens": 1 + len(text) // 4}
            stream = MessageStream(str(request.json.get("model")), counted)
            if thinking is not None:
                stream.thinking(thinking)
            if text:
                stream.text(text)
            for tool in tools:
                stream.tool(*tool)
            return stream.stop(stop_reason or ("tool_use" if tools else "end_turn")).reply(end, delay_s)

        self.script(script)

    def error(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        self.script(error_reply(status, kind, message, headers))

    def models(self, *models: Mapping[str, Any]) -> None:
        """What `/v1/models` lists, in this order."""
        data = [{"type": "model", "display_name": m["id"], "created_at": "2026-01-01T00:00:00Z", **m} for m in models]
        ends = {"first_id": data[0]["id"] if data else None, "last_id": data[-1]["id"] if data else None}
        self._server.always(MODELS, json_reply({"data": data, "has_more": False, **ends}))

    def token_count(self, input_tokens: int) -> None:
        self._server.always(COUNT_TOKENS, json_reply({"input_tokens": input_tokens}))

    def _judge(self, request: RecordedRequest) -> Reply | None:
        sent_key = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        if not sent_key or (self.key is not None and sent_key != self.key):
            return error_reply(401, "authentication_error", "invalid x-api-key")
        if len(request.body) > _MAX_REQUEST_BYTES:
            return error_reply(413, "request_too_large", "Request exceeds the maximum allowed number of bytes.")
        if "anthropic-version" not in request.headers:
            return self._refuse("anthropic-version: header is required")
        if (problem := refusal(request.body)) is not None:
            return self._refuse(problem)
        tokens = len(request.body) // 4
        if self.window_tokens is not None and tokens > self.window_tokens:
            return error_reply(
                400, "invalid_request_error", f"prompt is too long: {tokens} tokens > {self.window_tokens} maximum"
            )
        return None

    def _refuse(self, problem: str) -> Reply:
        self.refusals.append(problem)
        return error_reply(400, "invalid_request_error", problem)


def error_reply(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Reply:
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fake"}
    return json_reply(body, status, {"request-id": "req_fake", **(headers or {})})


def _cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]

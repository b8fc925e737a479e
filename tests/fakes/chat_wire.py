"""Chat Completions over the fake server: builds its streams of chunks, and judges requests by `chat_rules`.

`server.chat.reply(text="…", tools=[("bash", {"command": "ls"})])` queues one answer to the next request. A client's
base_url is `server.url + "/v1"`.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.fakes.chat_rules import refusal
from tests.fakes.model_server import Chunk, End, ModelServer, RecordedRequest, Reply, Script, stream_reply
from tests.fakes.responses_wire import cut, error_reply

CHAT = "/v1/chat/completions"
_ids = itertools.count(1)


class ChatStream:
    """A reply written piece by piece. `events` holds the bytes of each server-sent event; every method returns self."""

    def __init__(self, model: str = "chat-test", usage: Mapping[str, Any] | None = None) -> None:
        """`usage` None: the server reports nothing."""
        self.events: list[bytes] = []
        self._head = {"id": f"chatcmpl-{next(_ids)}", "object": "chat.completion.chunk", "created": 1, "model": model}
        self._usage = usage
        self._calls = 0
        self.delta(role="assistant", content="")

    @property
    def data(self) -> bytes:
        return b"".join(self.events)

    def text(self, text: str, piece_chars: int = 16) -> "ChatStream":
        for piece in cut(text, piece_chars):
            self.delta(content=piece)
        return self

    def reasoning(self, text: str, field: str = "reasoning_content", piece_chars: int = 16) -> "ChatStream":
        for piece in cut(text, piece_chars):
            self.delta(**{field: piece})
        return self

    def tool(
        self, name: str, arguments: Any, call_id: str | None = None, piece_chars: int = 12, index: int | None = None
    ) -> "ChatStream":
        """A call; `arguments` as a value, or as raw text where it is a string."""
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
        index = self._calls if index is None else index
        self._calls += 1
        id_ = f"call_{next(_ids):04}" if call_id is None else call_id
        first = {"index": index, "id": id_, "type": "function", "function": {"name": name, "arguments": ""}}
        self.delta(tool_calls=[first])
        for piece in cut(raw, piece_chars):
            self.delta(tool_calls=[{"index": index, "function": {"arguments": piece}}])
        return self

    def stop(self, reason: str | None = "stop", done: bool = True) -> "ChatStream":
        """The last chunks: why it stopped, the report, and the mark of the end."""
        if reason is not None:
            self.chunk(choices=[{"index": 0, "delta": {}, "finish_reason": reason}])
        if self._usage is not None:
            self.chunk(choices=[], usage=dict(self._usage))
        return self.raw(b"data: [DONE]\n\n") if done else self

    def delta(self, **fields: Any) -> "ChatStream":
        return self.chunk(choices=[{"index": 0, "delta": fields, "finish_reason": None}])

    def chunk(self, **fields: Any) -> "ChatStream":
        return self.raw(f"data: {json.dumps({**self._head, **fields}, ensure_ascii=False)}\n\n".encode())

    def raw(self, data: bytes) -> "ChatStream":
        self.events.append(data)
        return self

    def reply(self, end: End = "complete", delay_s: float = 0.0) -> Reply:
        """One chunk a server-sent event."""
        return stream_reply(*self.events, end=end, delay_s=delay_s)

    def reply_at_once(self, end: End = "complete") -> Reply:
        return stream_reply(Chunk(self.data), end=end)


class ChatWire:
    """The Chat Completions side of a server. Requests that a strict one would refuse get its 400 and use up no reply."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self.key: str | None = None
        """Where set, any other key gets a 401."""
        self.window_tokens: int | None = None
        """Where set, a request over it (a token is four bytes of body) is refused as too long."""
        self.refusals: list[str] = []
        """The texts of all 400s that the rules gave."""
        server.judge(CHAT, self._judge)

    @property
    def requests(self) -> list[RecordedRequest]:
        return self._server.to(CHAT)

    @property
    def bodies(self) -> list[Any]:
        return [request.json for request in self.requests]

    def script(self, *scripts: Script) -> None:
        self._server.queue(CHAT, *scripts)

    def stream(self, stream: ChatStream, end: End = "complete") -> None:
        self.script(stream.reply(end))

    def reply(
        self,
        text: str = "",
        *,
        thinking: str | None = None,
        tools: Sequence[tuple[str, Any] | tuple[str, Any, str]] = (),
        usage: Mapping[str, Any] | None = None,
    ) -> None:
        """Queue one whole answer. A tool is (name, arguments[, id]); without `usage` input is a quarter of the body's bytes."""

        def script(request: RecordedRequest) -> Reply:
            counted = usage or {"prompt_tokens": len(request.body) // 4, "completion_tokens": 1 + len(text) // 4}
            stream = ChatStream(str(request.json.get("model")), counted)
            if thinking is not None:
                stream.reasoning(thinking)
            if text:
                stream.text(text)
            for tool in tools:
                stream.tool(*tool)
            return stream.stop("tool_calls" if tools else "stop").reply()

        self.script(script)

    def error(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        self.script(error_reply(status, (message, None, code), headers))

    def _judge(self, request: RecordedRequest) -> Reply | None:
        sent_key = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.key is not None and sent_key != self.key:
            return error_reply(401, (f"Incorrect API key provided: {sent_key}.", None, "invalid_api_key"))
        if (problem := refusal(request.body)) is not None:
            self.refusals.append(problem[0])
            return error_reply(400, problem)
        if self.window_tokens is not None and (size := len(request.body) // 4) > self.window_tokens:
            message = f"the request ({size} tokens) exceeds the available context size ({self.window_tokens} tokens)"
            return error_reply(400, (message, None, "exceed_context_size_error"))
        return None

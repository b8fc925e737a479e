"""OpenAI Responses over the fake server: builds its event streams, and judges requests by `responses_rules`.

`server.responses.reply(text="…", tools=[("bash", {"command": "ls"})])` queues one answer to the next request. A client's
base_url is `server.url + "/v1"`.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

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
from tests.fakes.responses_rules import Problem, refusal

RESPONSES = "/v1/responses"
INPUT_TOKENS = "/v1/responses/input_tokens"
MODELS = "/v1/models"
_ids = itertools.count(1)


def sse(data: Mapping[str, Any]) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


class ResponseStream:
    """A reply written item by item. `events` holds the bytes of each server-sent event; every method returns self."""

    def __init__(self, model: str = "gpt-test", usage: Mapping[str, Any] | None = None) -> None:
        self.events: list[bytes] = []
        self.items: list[dict[str, Any]] = []
        self._model = model
        self._usage = {"input_tokens": 25, "output_tokens": 5, **(usage or {})}
        self._sequence = 0
        self._id = f"resp_{next(_ids):04}"
        self.add("response.created", response=self._response("in_progress"))
        self.add("response.in_progress", response=self._response("in_progress"))

    @property
    def data(self) -> bytes:
        return b"".join(self.events)

    def text(
        self, text: str, piece_chars: int = 16, phase: str | None = None, refusal: bool = False
    ) -> "ResponseStream":
        item: dict[str, Any] = {"id": f"msg_{next(_ids):04}", "type": "message", "role": "assistant"}
        if phase is not None:
            item["phase"] = phase
        kind, field = ("refusal", "refusal") if refusal else ("output_text", "text")
        index = self._begin({**item, "status": "in_progress", "content": []})
        place = {"item_id": item["id"], "output_index": index, "content_index": 0}
        self.add("response.content_part.added", **place, part={"type": kind, field: ""})
        delta = "response.refusal.delta" if refusal else "response.output_text.delta"
        for piece in cut(text, piece_chars):
            self.add(delta, **place, delta=piece)
        self.add(delta.replace(".delta", ".done"), **place, **{field: text})
        part = {"type": kind, field: text} if refusal else {"type": kind, field: text, "annotations": []}
        self.add("response.content_part.done", **place, part=part)
        return self._end(index, {**item, "status": "completed", "content": [part]})

    def reasoning(
        self, *summary: str, encrypted: str | None = "gAAAAencrypted", piece_chars: int = 16
    ) -> "ResponseStream":
        item: dict[str, Any] = {"id": f"rs_{next(_ids):04}", "type": "reasoning", "summary": []}
        index = self._begin(item)
        for number, text in enumerate(summary):
            place = {"item_id": item["id"], "output_index": index, "summary_index": number}
            self.add("response.reasoning_summary_part.added", **place, part={"type": "summary_text", "text": ""})
            for piece in cut(text, piece_chars):
                self.add("response.reasoning_summary_text.delta", **place, delta=piece)
            self.add("response.reasoning_summary_text.done", **place, text=text)
        done = {**item, "summary": [{"type": "summary_text", "text": text} for text in summary]}
        return self._end(index, done if encrypted is None else {**done, "encrypted_content": encrypted})

    def tool(
        self, name: str, arguments: Any, call_id: str | None = None, piece_chars: int = 12, close: bool = True
    ) -> "ResponseStream":
        """A call; `arguments` as a value, or as raw text where it is a string. `close=False` leaves it open."""
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
        item: dict[str, Any] = {"id": f"fc_{next(_ids):04}", "type": "function_call", "name": name}
        item["call_id"] = call_id if call_id is not None else f"call_{next(_ids):04}"
        index = self._begin({**item, "status": "in_progress", "arguments": ""})
        place = {"item_id": item["id"], "output_index": index}
        for piece in cut(raw, piece_chars):
            self.add("response.function_call_arguments.delta", **place, delta=piece)
        if not close:
            return self
        self.add("response.function_call_arguments.done", **place, arguments=raw)
        return self._end(index, {**item, "status": "completed", "arguments": raw})

    def item(self, item: Mapping[str, Any]) -> "ResponseStream":
        """Any other item, whole."""
        return self._end(self._begin(item), item)

    def error(self, code: str, message: str) -> "ResponseStream":
        """The event that reports a failure after the status line said 200."""
        return self.add("error", code=code, message=message, param=None)

    def failed(self, code: str, message: str) -> "ResponseStream":
        response = {**self._response("failed"), "error": {"code": code, "message": message}}
        return self.add("response.failed", response=response)

    def complete(self) -> "ResponseStream":
        response = {**self._response("completed"), "output": self.items, "usage": self._report()}
        return self.add("response.completed", response=response)

    def incomplete(self, reason: str = "max_output_tokens") -> "ResponseStream":
        response = {**self._response("incomplete"), "output": self.items, "usage": self._report()}
        return self.add("response.incomplete", response={**response, "incomplete_details": {"reason": reason}})

    def raw(self, data: bytes) -> "ResponseStream":
        self.events.append(data)
        return self

    def add(self, event: str, **fields: Any) -> "ResponseStream":
        """Any event of the API; numbers itself."""
        self.events.append(sse({"type": event, **fields, "sequence_number": self._sequence}))
        self._sequence += 1
        return self

    def reply(self, end: End = "complete", delay_s: float = 0.0) -> Reply:
        """One chunk a server-sent event."""
        return stream_reply(*self.events, end=end, delay_s=delay_s)

    def reply_at_once(self, end: End = "complete") -> Reply:
        return stream_reply(Chunk(self.data), end=end)

    def _begin(self, item: Mapping[str, Any]) -> int:
        index = len(self.items)
        self.items.append(dict(item))
        self.add("response.output_item.added", output_index=index, item=item)
        return index

    def _end(self, index: int, item: Mapping[str, Any]) -> "ResponseStream":
        self.items[index] = dict(item)
        return self.add("response.output_item.done", output_index=index, item=item)

    def _response(self, status: str) -> dict[str, Any]:
        return {
            "id": self._id, "object": "response", "status": status, "model": self._model, "output": [], "usage": None,
            "error": None, "incomplete_details": None, "store": False,
        }  # fmt: skip

    def _report(self) -> dict[str, Any]:
        details = {
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        total = self._usage["input_tokens"] + self._usage["output_tokens"]
        return {**details, "total_tokens": total, **self._usage}


class ResponsesWire:
    """The Responses side of a server. Requests that the real API would refuse get its 400 and use up no reply."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self.key: str | None = None
        """Where set, any other key gets a 401."""
        self.window_tokens: int | None = None
        """Where set, a request over it (a token is four bytes of body) is refused as too long."""
        self.refusals: list[str] = []
        """The texts of all 400s that the rules gave."""
        server.judge(RESPONSES, self._judge)
        server.judge(INPUT_TOKENS, self._judge)

    @property
    def requests(self) -> list[RecordedRequest]:
        return self._server.to(RESPONSES)

    @property
    def bodies(self) -> list[Any]:
        return [request.json for request in self.requests]

    def script(self, *scripts: Script) -> None:
        self._server.queue(RESPONSES, *scripts)

    def stream(self, stream: ResponseStream, end: End = "complete") -> None:
        self.script(stream.reply(end))

    def reply(
        self,
        text: str = "",
        *,
        thinking: str | None = None,
        tools: Sequence[tuple[str, Any] | tuple[str, Any, str]] = (),
        usage: Mapping[str, Any] | None = None,
        end: End = "complete",
        delay_s: float = 0.0,
    ) -> None:
        """Queue one whole answer. A tool is (name, arguments[, id]); without `usage` input is a quarter of the body's bytes."""

        def script(request: RecordedRequest) -> Reply:
            counted = usage or {"input_tokens": len(request.body) // 4, "output_tokens": 1 + len(text) // 4}
            stream = ResponseStream(str(request.json.get("model")), counted)
            if thinking is not None:
                stream.reasoning(thinking)
            if text:
                stream.text(text)
            for tool in tools:
                stream.tool(*tool)
            return stream.complete().reply(end, delay_s)

        self.script(script)

    def error(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        self.script(error_reply(status, (message, None, code), headers))

    def models(self, *models: Mapping[str, Any]) -> None:
        """What `/v1/models` lists, in this order."""
        data = [{"object": "model", "created": 1_780_000_000, "owned_by": "test", **model} for model in models]
        self._server.always(MODELS, json_reply({"object": "list", "data": data}))

    def token_count(self, input_tokens: int) -> None:
        self._server.always(INPUT_TOKENS, json_reply({"object": "response.input_tokens", "input_tokens": input_tokens}))

    def _judge(self, request: RecordedRequest) -> Reply | None:
        sent_key = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not sent_key or (self.key is not None and sent_key != self.key):
            return error_reply(401, (f"Incorrect API key provided: {sent_key}.", None, "invalid_api_key"))
        if (problem := refusal(request.body, counting=request.path == INPUT_TOKENS)) is not None:
            self.refusals.append(problem[0])
            return error_reply(400, problem)
        if self.window_tokens is not None and len(request.body) // 4 > self.window_tokens:
            message = "Your input exceeds the context window of this model. Please adjust your input and try again."
            return error_reply(400, (message, "input", "context_length_exceeded"))
        return None


def error_reply(status: int, problem: Problem, headers: Mapping[str, str] | None = None) -> Reply:
    message, param, code = problem
    body = {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}
    return json_reply(body, status, {"x-request-id": "req_fake", **(headers or {})})


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]

"""The wire APIs behind one face, so that a test of the whole agent can be written once and run over all.

What a test says is in claw's own words (`Usage`, tool names); what the server sends and judges is the API's.
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from providers.types import Usage
from tests.fakes.anthropic_wire import MESSAGES, MessageStream
from tests.fakes.chat_wire import CHAT, ChatStream
from tests.fakes.model_server import Chunk, End, ModelServer, RecordedRequest, Reply
from tests.fakes.responses_wire import RESPONSES, ResponseStream

Tool = tuple[str, Any] | tuple[str, Any, str]
"""(name, arguments[, call id])"""
Flat = list[tuple[str, Any]]
KEY = "test-key-0123456789"


class Wire(Protocol):
    provider: str
    model: str
    """As the server sees it."""
    server: ModelServer

    @property
    def env(self) -> dict[str, str]: ...
    @property
    def config(self) -> str:
        """What the user's config.toml has to say of the provider; empty for those that claw knows."""
        ...

    @property
    def requests(self) -> list[RecordedRequest]: ...
    @property
    def refusals(self) -> list[str]: ...

    def reply(
        self,
        text: str = "",
        *,
        thinking: str | None = None,
        tools: Sequence[Tool] = (),
        usage: Usage | None = None,
        cut: bool = False,
        end: End = "complete",
        after: threading.Event | None = None,
    ) -> None:
        """Queue one answer. `cut`: it stopped at the output limit. `after`: not a byte before that event is set."""
        ...

    def unfinished(
        self, text: str = "", tool: Tool | None = None, calls: Sequence[Tool] = (), end: End = "stall"
    ) -> None:
        """Queue an answer that falls silent, or is cut off, behind whole `calls`, `text` and half of `tool`."""
        ...

    def otherwise(self, answer: Callable[[Any], str]) -> None:
        """What answers a request, by its body, when nothing is queued."""
        ...

    def silence(self) -> None:
        """Queue an answer that never comes."""
        ...

    def overflow(self) -> None: ...

    def overloaded(self) -> None: ...

    def limit(self, window_tokens: int | None) -> None:
        """Refuse requests of more than four times as many bytes as too long."""
        ...

    def flat(self, body: Any) -> Flat:
        """The request as (role, block), tools and system first, without cache marks."""
        ...

    def texts(self, body: Any) -> list[str]:
        """Every text that the user or a tool result says in the request, in order."""
        ...

    def is_summary(self, body: Any) -> bool:
        """Whether the request asks for a summary."""
        ...


class _Base:
    """What does not depend on the API."""

    def __init__(self, server: ModelServer) -> None:
        self.server = server

    @property
    def config(self) -> str:
        return ""

    def texts(self, body: Any) -> list[str]:
        return [text for role, block in self.flat(body) if role in ("user", "result") for text in _texts_of(block)]

    def is_summary(self, body: Any) -> bool:
        return "## Next steps" in str(self.flat(body)[-1][1])

    def flat(self, body: Any) -> Flat:
        raise NotImplementedError


class AnthropicSide(_Base):
    provider = "anthropic"
    model = "claude-test"

    def __init__(self, server: ModelServer) -> None:
        super().__init__(server)
        self._wire = server.anthropic
        self._wire.key = KEY

    @property
    def env(self) -> dict[str, str]:
        return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": self.server.url}

    @property
    def requests(self) -> list[RecordedRequest]:
        return self._wire.requests

    @property
    def refusals(self) -> list[str]:
        return self._wire.refusals

    def reply(
        self,
        text: str = "",
        *,
        thinking: str | None = None,
        tools: Sequence[Tool] = (),
        usage: Usage | None = None,
        cut: bool = False,
        end: End = "complete",
        after: threading.Event | None = None,
    ) -> None:
        def script(request: RecordedRequest) -> Reply:
            stream = MessageStream(self.model, _anthropic_usage(usage or _counted(request, text)))
            if thinking is not None:
                stream.thinking(thinking)
            if text:
                stream.text(text)
            for tool in tools:
                stream.tool(*_call(tool))
            reason = "max_tokens" if cut else "tool_use" if tools else "end_turn"
            return _held(stream.stop(reason).reply(end), after)

        self._wire.script(script)

    def unfinished(
        self, text: str = "", tool: Tool | None = None, calls: Sequence[Tool] = (), end: End = "stall"
    ) -> None:
        stream = MessageStream(self.model)
        for call in calls:
            stream.tool(*_call(call))
        if text:
            stream.text(text)
        if tool is not None:
            stream.tool(*_call(tool), close=False)
        self._wire.stream(stream, end)

    def otherwise(self, answer: Callable[[Any], str]) -> None:
        def script(request: RecordedRequest) -> Reply:
            text = answer(request.json)
            return (
                MessageStream(self.model, _anthropic_usage(_counted(request, text))).text(text).stop().reply_at_once()
            )

        self.server.always(MESSAGES, script)

    def silence(self) -> None:
        self._wire.script(Reply(never_answer=True))

    def overflow(self) -> None:
        self._wire.error(400, "invalid_request_error", "prompt is too long: 211000 tokens > 200000 maximum")

    def overloaded(self) -> None:
        self._wire.error(529, "overloaded_error", "Overloaded")

    def limit(self, window_tokens: int | None) -> None:
        self._wire.window_tokens = window_tokens

    def flat(self, body: Any) -> Flat:
        found: Flat = [("tool", tool) for tool in body.get("tools", [])]
        found += [("system", block) for block in body.get("system", [])]
        for message in body["messages"]:
            for block in message["content"]:
                found.append(("result" if block["type"] == "tool_result" else message["role"], block))
        return [(role, _without_marks(block)) for role, block in found]


class ResponsesSide(_Base):
    provider = "openai"
    model = "gpt-test"

    def __init__(self, server: ModelServer) -> None:
        super().__init__(server)
        self._wire = server.responses
        self._wire.key = KEY

    @property
    def env(self) -> dict[str, str]:
        return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{self.server.url}/v1"}

    @property
    def requests(self) -> list[RecordedRequest]:
        return self._wire.requests

    @property
    def refusals(self) -> list[str]:
        return self._wire.refusals

    def reply(
        self,
        text: str = "",
        *,
        thinking: str | None = None,
        tools: Sequence[Tool] = (),
        usage: Usage | None = None,
        cut: bool = False,
        end: End = "complete",
        after: threading.Event | None = None,
    ) -> None:
        def script(request: RecordedRequest) -> Reply:
            stream = ResponseStream(self.model, _responses_usage(usage or _counted(request, text)))
            if thinking is not None:
                stream.reasoning(thinking)
            if text:
                stream.text(text)
            for tool in tools:
                stream.tool(*_call(tool))
            whole = stream.incomplete() if cut else stream.complete()
            return _held(whole.reply(end), after)

        self._wire.script(script)

    def unfinished(
        self, text: str = "", tool: Tool | None = None, calls: Sequence[Tool] = (), end: End = "stall"
    ) -> None:
        stream = ResponseStream(self.model)
        for call in calls:
            stream.tool(*_call(call))
        if text:
            stream.text(text)
        if tool is not None:
            stream.tool(*_call(tool), close=False)
        self._wire.stream(stream, end)

    def otherwise(self, answer: Callable[[Any], str]) -> None:
        def script(request: RecordedRequest) -> Reply:
            text = answer(request.json)
            usage = _responses_usage(_counted(request, text))
            return ResponseStream(self.model, usage).text(text).complete().reply_at_once()

        self.server.always(RESPONSES, script)

    def silence(self) -> None:
        self._wire.script(Reply(never_answer=True))

    def overflow(self) -> None:
        text = "Your input exceeds the context window of this model. Please adjust your input and try again."
        self._wire.error(400, "context_length_exceeded", text)

    def overloaded(self) -> None:
        self._wire.error(503, "server_overloaded", "The engine is currently overloaded")

    def limit(self, window_tokens: int | None) -> None:
        self._wire.window_tokens = window_tokens

    def flat(self, body: Any) -> Flat:
        found: Flat = [("tool", tool) for tool in body.get("tools", [])]
        if "instructions" in body:
            found.append(("system", body["instructions"]))
        for item in body["input"]:
            if item.get("type", "message") == "message":
                found += [(item["role"], part) for part in item["content"]]
            else:
                found.append(("result" if item["type"] == "function_call_output" else "assistant", item))
        return found


class ChatSide(_Base):
    provider = "here"
    model = "chat-test"

    def __init__(self, server: ModelServer) -> None:
        super().__init__(server)
        self._wire = server.chat
        self._wire.key = KEY

    @property
    def env(self) -> dict[str, str]:
        return {"HERE_KEY": KEY}

    @property
    def config(self) -> str:
        return f'[providers.here]\napi = "chat"\nbase_url = "{self.server.url}/v1"\nkey_env = "HERE_KEY"\n'

    @property
    def requests(self) -> list[RecordedRequest]:
        return self._wire.requests

    @property
    def refusals(self) -> list[str]:
        return self._wire.refusals

    def reply(
        self,
        text: str = "",
        *,
        thinking: str | None = None,
        tools: Sequence[Tool] = (),
        usage: Usage | None = None,
        cut: bool = False,
        end: End = "complete",
        after: threading.Event | None = None,
    ) -> None:
        def script(request: RecordedRequest) -> Reply:
            stream = ChatStream(self.model, _chat_usage(usage or _counted(request, text)))
            if thinking is not None:
                stream.reasoning(thinking)
            if text:
                stream.text(text)
            for tool in tools:
                stream.tool(*_call(tool))
            reason = "length" if cut else "tool_calls" if tools else "stop"
            return _held(stream.stop(reason).reply(end), after)

        self._wire.script(script)

    def unfinished(
        self, text: str = "", tool: Tool | None = None, calls: Sequence[Tool] = (), end: End = "stall"
    ) -> None:
        stream = ChatStream(self.model)
        for call in calls:
            stream.tool(*_call(call))
        if text:
            stream.text(text)
        if tool is not None:
            stream.tool(*_call(tool))
        self._wire.stream(stream, end)

    def otherwise(self, answer: Callable[[Any], str]) -> None:
        def script(request: RecordedRequest) -> Reply:
            text = answer(request.json)
            return ChatStream(self.model, _chat_usage(_counted(request, text))).text(text).stop().reply_at_once()

        self.server.always(CHAT, script)

    def silence(self) -> None:
        self._wire.script(Reply(never_answer=True))

    def overflow(self) -> None:
        text = "the request exceeds the available context size. try increasing the context size"
        self._wire.error(400, "exceed_context_size_error", text)

    def overloaded(self) -> None:
        self._wire.error(503, "unavailable_error", "Loading model")

    def limit(self, window_tokens: int | None) -> None:
        self._wire.window_tokens = window_tokens

    def flat(self, body: Any) -> Flat:
        found: Flat = [("tool", tool) for tool in body.get("tools", [])]
        for message in body["messages"]:
            role, content = message["role"], message["content"]
            parts = content if isinstance(content, list) else [] if content is None else [{"text": content}]
            if role == "tool":
                found.append(("result", message))
                continue
            found += [(role, part) for part in parts]
            found += [("assistant", call) for call in message.get("tool_calls", [])]
        return found


def _call(tool: Tool) -> tuple[str, Any, str | None, int]:
    """Name, arguments, id and how many characters an event has: twelve, or more where these would be hundreds of events."""
    arguments = tool[1] if isinstance(tool[1], str) else json.dumps(tool[1])
    size = len(arguments)
    return tool[0], arguments, tool[2] if len(tool) > 2 else None, max(12, size // 100)


def _held(reply: Reply, after: threading.Event | None) -> Reply:
    if after is None:
        return reply
    first = Chunk(reply.chunks[0].data, after=after)
    return Reply((first, *reply.chunks[1:]), end=reply.end)


def _counted(request: RecordedRequest, text: str) -> Usage:
    return Usage(len(request.body) // 4, output_tokens=1 + len(text) // 4)


def _anthropic_usage(usage: Usage) -> Mapping[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
    }


def _responses_usage(usage: Usage) -> Mapping[str, Any]:
    """Here the input counts everything, what came from the cache and what went into it included."""
    cached = {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens}
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": cached,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
    }


def _chat_usage(usage: Usage) -> Mapping[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
    }


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_marks(item) for key, item in value.items() if key != "cache_control"}
    if isinstance(value, list):
        return [_without_marks(item) for item in value]
    return value


def _texts_of(block: Any) -> list[str]:
    if isinstance(block, str):
        return [block]
    inner = block.get("text") or block.get("content") or block.get("output") or ""
    if isinstance(inner, str):
        return [inner]
    return [part["text"] for part in inner if "text" in part]

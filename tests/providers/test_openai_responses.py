import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from providers.assembler import Assembler
from providers.base import ListedModel, ModelRequest
from providers.errors import (
    AuthenticationError,
    BadRequestError,
    BillingError,
    ConnectionFailedError,
    ContextOverflowError,
    MissingKeyError,
    NotFoundError,
    OverloadedError,
    ProtocolError,
    ProviderError,
    RateLimitedError,
    ServerError,
    StreamBrokenError,
)
from providers.openai_responses import OpenAIResponses
from providers.types import (
    AssistantMessage,
    Completed,
    Message,
    OpaqueBlock,
    Ping,
    PromptSection,
    ProviderConfig,
    Secret,
    StopReason,
    StreamEvent,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ToolCall,
    ToolCallFinished,
    ToolResultMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from tests.fakes.model_server import Chunk, ModelServer, Reply, json_reply, pieces, stream_reply
from tests.fakes.responses_wire import MODELS, RESPONSES, ResponseStream, sse

MODEL = "gpt-6.2-sol"
BASH = ToolSpec("bash", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}})


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        _ = running.responses  # its judge looks at every request
        yield running


@pytest.fixture
async def provider(server: ModelServer) -> AsyncIterator[OpenAIResponses]:
    made = OpenAIResponses(ProviderConfig("test", "responses", server.url + "/v1"))
    yield made
    await made.aclose()


def request(*messages: Message, **fields: Any) -> ModelRequest:
    sent = messages or (UserMessage((TextBlock("go"),)),)
    return ModelRequest(
        model=MODEL,
        system=(PromptSection("base", "You are claw.", True),),
        tools=(BASH,),
        messages=sent,
        generation=1,
        stable=0,
        max_tokens=1000,
        **fields,
    )


async def collect(provider: OpenAIResponses, asked: ModelRequest | None = None) -> list[StreamEvent]:
    return [event async for event in provider.stream(asked or request())]


async def fold(provider: OpenAIResponses, asked: ModelRequest | None = None) -> Assembler:
    assembler = Assembler()
    async for event in provider.stream(asked or request()):
        assembler.feed(event)
    return assembler


async def failure(provider: OpenAIResponses) -> tuple[Assembler, ProviderError]:
    """What had arrived, and the error."""
    assembler = Assembler()
    try:
        async for event in provider.stream(request()):
            assembler.feed(event)
    except ProviderError as error:
        return assembler, error
    raise AssertionError("nothing was raised")


# --------------------------------------------------------------------------- whole replies


async def test_a_whole_reply_and_its_way_back(server: ModelServer, provider: OpenAIResponses) -> None:
    usage = {
        "input_tokens": 60_600,
        "output_tokens": 90,
        "input_tokens_details": {"cached_tokens": 60_000, "cache_write_tokens": 500},
        "output_tokens_details": {"reasoning_tokens": 40},
    }
    stream = ResponseStream(usage=usage).reasoning("First I look.", "Then I run.")
    stream.text("Running it.", phase="commentary").tool("bash", {"command": "ls"}, "call_a")
    stream.tool("bash", {"command": "pwd"}, "call_b").complete()
    server.responses.stream(stream)
    reply = await fold(provider)
    assert reply.blocks() == (
        ThinkingBlock("First I look."),
        ThinkingBlock("Then I run."),
        OpaqueBlock("responses", MODEL, stream.items[0]),
        OpaqueBlock("responses", MODEL, {"type": "message", "role": "assistant", "phase": "commentary"}),
        TextBlock("Running it."),
        ToolCall("call_a", "bash", '{"command": "ls"}'),
        ToolCall("call_b", "bash", '{"command": "pwd"}'),
    )
    assert reply.stop_reason == "tool_use"
    # B5: cached tokens are part of the API's input and counted once.
    assert reply.usage == Usage(100, 60_000, 500, 90, 40)

    server.responses.reply("Done.")
    results = (ToolResultMessage("call_a", (TextBlock("a.py"),)), ToolResultMessage("call_b", (TextBlock("/"),)))
    start = UserMessage((TextBlock("go"),))
    again = await fold(provider, request(start, AssistantMessage(reply.blocks()), *results))
    assert again.blocks() == (TextBlock("Done."),)
    assert server.responses.refusals == []
    sent = server.responses.bodies[-1]["input"]
    assert [item["type"] for item in sent] == [
        "message", "reasoning", "message", "function_call", "function_call", "function_call_output",
        "function_call_output",
    ]  # fmt: skip
    assert sent[1] == stream.items[0]


async def test_text_parts_of_their_own_stay_apart(server: ModelServer, provider: OpenAIResponses) -> None:
    server.responses.stream(ResponseStream().text("One.").text("Two.").complete())
    assert (await fold(provider)).blocks() == (TextBlock("One."), TextBlock("Two."))


async def test_a_burst_of_deltas_arrives_as_one(server: ModelServer, provider: OpenAIResponses) -> None:
    stream = ResponseStream().text("x" * 3000, piece_chars=3).complete()
    server.responses.script(stream.reply_at_once())
    texts = [event for event in await collect(provider) if isinstance(event, TextDelta)]
    assert "".join(event.text for event in texts) == "x" * 3000
    assert len(texts) < 60


# --------------------------------------------------------------------------- T81 and B10: the stream in any shape

HARD = 'grün 😀 a\u2028b\u2029c\x85d [x] \\ "q"\r\n\t日本語'


def hard_stream() -> ResponseStream:
    return ResponseStream().reasoning("Denken 🤔").text(HARD, 3).tool("bash", {"command": HARD}, "call_1", 5).complete()


def crlf(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n")


def cr(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r")


def with_comments(data: bytes) -> bytes:
    return data.replace(b"event:", b": keep-alive\n\n:\nid: 7\nretry: 10\nevent:")


def without_names(data: bytes) -> bytes:
    return b"".join(line + b"\n" for line in data.split(b"\n") if not line.startswith(b"event:"))


def names_only(data: bytes) -> bytes:
    """The type stands in the event line alone."""
    kept = []
    for block in data.decode().split("\n\n")[:-1]:
        name, _, rest = block.partition("\ndata: ")
        fields = json.loads(rest)
        del fields["type"]
        kept.append(f"{name}\ndata: {json.dumps(fields)}\n\n")
    return "".join(kept).encode()


def multi_line(data: bytes) -> bytes:
    """JSON over several data lines."""
    out = []
    for block in data.decode().split("\n\n")[:-1]:
        pretty = json.dumps(json.loads(block.partition("\ndata: ")[2]), indent=1)
        out.append("".join(f"data: {line}\n" for line in pretty.split("\n")) + "\n")
    return "".join(out).encode()


def with_unknown_events(data: bytes) -> bytes:
    odd = {"type": "response.brand_new.delta", "delta": {"nested": [1]}, "output_index": "x", "item": 3}
    return (sse(odd) + b"data: [DONE]\n\n").join(block + b"\n\n" for block in data.split(b"\n\n") if block)


@pytest.mark.parametrize(
    "change",
    [
        crlf,
        cr,
        with_comments,
        without_names,
        names_only,
        multi_line,
        with_unknown_events,
        lambda d: b"\xef\xbb\xbf" + d,
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
async def test_T81_any_spelling_and_cutting_of_a_stream_gives_the_same_reply(
    server: ModelServer, provider: OpenAIResponses, change: Any, size: int
) -> None:
    data = change(hard_stream().data)
    server.responses.script(Reply(pieces(data, size)))
    reply = await fold(provider)
    thinking, opaque, text, call = reply.blocks()
    assert isinstance(opaque, OpaqueBlock)
    assert (thinking, text) == (ThinkingBlock("Denken 🤔"), TextBlock(HARD))
    assert isinstance(call, ToolCall)
    assert json.loads(call.arguments) == {"command": HARD}
    assert (reply.stop_reason, call.finished) == ("tool_use", True)


async def test_T81_surrogate_halves_in_two_deltas_are_one_character(
    server: ModelServer, provider: OpenAIResponses
) -> None:
    stream = ResponseStream().add("response.output_item.added", output_index=0, item={"type": "message"})
    for escaped in ("a\\ud83d", "\\ude00b", "\\udc00c"):
        stream.raw(b'data: {"type":"response.output_text.delta","output_index":0,"delta":"%b"}\n\n' % escaped.encode())
    server.responses.stream(stream.complete())
    assert (await fold(provider)).blocks() == (TextBlock("a😀b\ufffdc"),)


async def test_T81_no_terminal_event_is_a_broken_stream(server: ModelServer, provider: OpenAIResponses) -> None:
    server.responses.stream(ResponseStream().text("half").tool("bash", {}, "call_1"))
    partial, error = await failure(provider)
    assert isinstance(error, StreamBrokenError)
    assert partial.blocks(finished_only=True) == (TextBlock("half"), ToolCall("call_1", "bash", "{}"))
    assert not partial.completed


async def test_T81_a_terminal_event_without_its_blank_line_counts(
    server: ModelServer, provider: OpenAIResponses
) -> None:
    server.responses.script(Reply((Chunk(ResponseStream().text("all").complete().data[:-2]),)))
    assert (await fold(provider)).blocks() == (TextBlock("all"),)


async def test_the_reply_is_over_with_its_terminal_event(server: ModelServer, provider: OpenAIResponses) -> None:
    server.responses.stream(ResponseStream().text("all").complete(), end="stall")
    async with asyncio.timeout(5):
        assert (await fold(provider)).completed


async def test_servers_that_show_items_only_at_the_end(server: ModelServer, provider: OpenAIResponses) -> None:
    output: list[dict[str, Any]] = [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "g",
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Here."}]},
        {"type": "function_call", "call_id": "call_1", "name": "bash", "arguments": {"command": "ls"}},
    ]
    response = {"status": "completed", "output": output, "usage": None}
    server.responses.script(stream_reply(sse({"type": "response.completed", "response": response})))
    reply = await fold(provider)
    assert reply.blocks() == (
        ThinkingBlock("Hm."),
        OpaqueBlock("responses", MODEL, output[0]),
        TextBlock("Here."),
        ToolCall("call_1", "bash", '{"command": "ls"}'),
    )
    assert (reply.stop_reason, reply.usage) == ("tool_use", Usage())


async def test_interleaved_items_are_told_one_after_the_other(server: ModelServer, provider: OpenAIResponses) -> None:
    stream = ResponseStream()
    for index, call_id in enumerate(("a", "b")):
        item = {"type": "function_call", "call_id": call_id, "name": "bash", "arguments": ""}
        stream.add("response.output_item.added", output_index=index, item=item)
    for index, piece in ((1, '{"n":'), (0, '{"m":'), (1, "2}"), (0, "1}")):
        stream.add("response.function_call_arguments.delta", output_index=index, delta=piece)
    stream.add("response.output_text.delta", output_index=2, content_index=0, delta="meanwhile")
    for index, arguments in ((1, '{"n":2}'), (0, '{"m":1}')):
        item = {"type": "function_call", "call_id": "ab"[index], "name": "bash", "arguments": arguments}
        stream.add("response.output_item.done", output_index=index, item=item)
    server.responses.stream(stream.complete())
    reply = await fold(provider)
    assert set(reply.blocks()) == {
        ToolCall("a", "bash", '{"m":1}'), ToolCall("b", "bash", '{"n":2}'), TextBlock("meanwhile"),
    }  # fmt: skip
    assert all(block.finished for block in reply.blocks() if isinstance(block, ToolCall))


# --------------------------------------------------------------------------- B8, T79: streams that break


def open_call() -> ResponseStream:
    return ResponseStream().text("Cleaning.").tool("bash", '{"command": "rm -rf build"}', "call_1", 9, close=False)


@pytest.mark.parametrize("end", ["rst", "fin"])
async def test_T79_B8_a_connection_cut_inside_arguments_leaves_an_unfinished_call(
    server: ModelServer, provider: OpenAIResponses, end: Any
) -> None:
    stream = open_call()
    # The reset waits until the client has read: else the kernel may throw the unread bytes away.
    read = threading.Event()
    tail = Chunk(b": bye\n\n", after=read)
    server.responses.script(Reply((*(Chunk(data) for data in stream.events), tail), end=end))
    assembler = Assembler()
    with pytest.raises(StreamBrokenError) as caught:
        async for event in provider.stream(request()):
            assembler.feed(event)
            if assembler.open_call and assembler.open_call[2] >= 27:
                read.set()
    assert caught.value.retryable
    assert assembler.blocks() == (
        TextBlock("Cleaning."), ToolCall("call_1", "bash", '{"command": "rm -rf build"}', finished=False),
    )  # fmt: skip
    assert assembler.blocks(finished_only=True) == (TextBlock("Cleaning."),)


async def test_T79_cut_after_text_and_after_a_closed_call(server: ModelServer, provider: OpenAIResponses) -> None:
    for stream in (ResponseStream().text("half a"), ResponseStream().tool("bash", {"command": "ls"}, "call_1")):
        server.responses.stream(stream, end="fin")
        partial, error = await failure(provider)
        assert isinstance(error, StreamBrokenError)
        assert len(partial.blocks()) == 1
        assert not partial.completed


async def test_B8_completed_without_the_end_of_a_call_runs_nothing(
    server: ModelServer, provider: OpenAIResponses
) -> None:
    server.responses.stream(open_call().complete())
    partial, error = await failure(provider)
    assert isinstance(error, StreamBrokenError)
    assert "tool call" in error.message
    assert not any(isinstance(block, ToolCall) and block.finished for block in partial.blocks())


async def test_B8_arguments_declared_whole_finish_a_call(server: ModelServer, provider: OpenAIResponses) -> None:
    stream = open_call().add("response.function_call_arguments.done", output_index=1, arguments='{"command": "ls"}')
    server.responses.stream(stream.complete())
    reply = await fold(provider)
    assert reply.blocks()[1] == ToolCall("call_1", "bash", '{"command": "ls"}')
    assert reply.stop_reason == "tool_use"


async def test_B8_a_call_cut_by_the_output_limit_stays_unfinished(
    server: ModelServer, provider: OpenAIResponses
) -> None:
    cut_item = {
        "type": "function_call",
        "call_id": "call_1",
        "name": "bash",
        "arguments": '{"command": "rm"}',
        "status": "incomplete",
    }
    closed = open_call().add("response.output_item.done", output_index=1, item=cut_item)
    for stream in (open_call().incomplete(), closed.incomplete()):
        server.responses.stream(stream)
        reply = await fold(provider)
        assert reply.stop_reason == "max_tokens"
        assert [block.finished for block in reply.blocks() if isinstance(block, ToolCall)] == [False]


async def test_B9_bytes_without_events_are_pings_and_a_silent_server_can_be_left(
    server: ModelServer, provider: OpenAIResponses
) -> None:
    chunks = (Chunk(b": keep-alive\n\n"), Chunk(b'data: {"ty'))
    server.responses.script(Reply(chunks, end="stall"))
    heard: list[StreamEvent] = []
    enough = asyncio.Event()

    async def listen() -> None:
        async for event in provider.stream(request()):
            heard.append(event)
            enough.set()

    task = asyncio.create_task(listen())
    await asyncio.wait_for(enough.wait(), 5)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait_for(task, 1)
    assert set(heard) == {Ping()}
    assert await asyncio.to_thread(server.requests[0].client_left.wait, 5)


async def test_B9_headers_that_never_come_can_be_left(server: ModelServer, provider: OpenAIResponses) -> None:
    server.responses.script(Reply(never_answer=True))
    task = asyncio.create_task(collect(provider))
    await asyncio.to_thread(server.wait_for_requests, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 1)
    assert await asyncio.to_thread(server.requests[0].client_left.wait, 5)


async def test_closing_the_iterator_closes_the_connection(server: ModelServer, provider: OpenAIResponses) -> None:
    server.responses.stream(ResponseStream().text("long"), end="stall")
    stream = provider.stream(request())
    await anext(stream)
    assert hasattr(stream, "aclose")
    await stream.aclose()
    assert await asyncio.to_thread(server.requests[0].client_left.wait, 5)


# --------------------------------------------------------------------------- T82, B10: failures in and before the stream


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        ("server_error", "The server had an error.", ServerError),
        ("rate_limit_exceeded", "Rate limit reached for tokens per minute.", RateLimitedError),
        ("context_length_exceeded", "Your input exceeds the context window of this model.", ContextOverflowError),
        ("insufficient_quota", "You exceeded your current quota.", BillingError),
        ("server_overloaded", "Overloaded, try again.", OverloadedError),
        ("invalid_prompt", "Invalid prompt.", BadRequestError),
        ("image_too_large", "The image is too large.", BadRequestError),
        ("bio_policy", "This request was blocked.", BadRequestError),
        ("brand_new_code", "Something else.", ServerError),
    ],
)
@pytest.mark.parametrize("how", ["error", "failed", "nested"])
async def test_T82_B10_failures_inside_a_stream_are_classified(
    server: ModelServer, provider: OpenAIResponses, code: str, message: str, expected: type[ProviderError], how: str
) -> None:
    stream = ResponseStream().text("partly")
    if how == "nested":
        stream.add("error", error={"code": code, "message": message})
    else:
        (stream.error if how == "error" else stream.failed)(code, message)
    server.responses.script(stream.reply_at_once())
    partial, error = await failure(provider)
    assert type(error) is expected
    assert error.message == message
    assert partial.blocks() == (TextBlock("partly"),)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(), StreamBrokenError),
        (Reply(framing="close"), StreamBrokenError),
        (Reply((Chunk(b"\n\n: nothing\n\n"),)), ProtocolError),
        (Reply((Chunk(b"data: {broken\n\n"),)), ProtocolError),
        (Reply((Chunk(b"data: [1]\n\n"),)), ProtocolError),
        (Reply((Chunk(b"data: {}\n\n"),)), StreamBrokenError),
        (json_reply({}), ProtocolError),
        (json_reply({"error": {"message": "no such model", "code": "model_not_found"}}), NotFoundError),
        (Reply((Chunk(b"<html>login</html>"),), headers={"content-type": "text/html"}), ProtocolError),
        (Reply((), 307, {"location": "/elsewhere"}), ProtocolError),
    ],
)
async def test_T82_answers_that_are_no_stream(
    server: ModelServer, provider: OpenAIResponses, reply: Reply, expected: type[ProviderError]
) -> None:
    server.responses.script(reply)
    _, error = await failure(provider)
    assert type(error) is expected
    assert error.remedy


async def test_odd_values_in_known_places_do_no_harm(server: ModelServer, provider: OpenAIResponses) -> None:
    stream = ResponseStream()
    odds: tuple[Any, ...] = (None, 3, [], "x")
    for odd in odds:
        stream.add("response.output_text.delta", output_index=0, delta=odd if odd != "x" else {"a": 1})
        stream.add("response.output_item.added", output_index=odd, item=odd)
        stream.add("response.output_item.done", output_index=0, item=odd)
        stream.add("response.reasoning_summary_text.delta", summary_index=odd, delta=None)
    response = {"status": "completed", "output": "x", "usage": {"input_tokens": "many", "output_tokens": -3}}
    server.responses.stream(stream.add("response.completed", response=response))
    reply = await fold(provider)
    assert (reply.blocks(), reply.stop_reason, reply.usage) == ((), "end_turn", Usage())


@pytest.mark.parametrize(
    ("status", "code", "message", "expected"),
    [
        (400, "context_length_exceeded", "Your input exceeds the context window of this model.", ContextOverflowError),
        (400, "invalid_value", "Invalid value: 'x'.", BadRequestError),
        (401, "invalid_api_key", "Incorrect API key provided.", AuthenticationError),
        (404, "model_not_found", "The model `gpt-9` does not exist.", NotFoundError),
        (429, "insufficient_quota", "You exceeded your current quota.", BillingError),
        (429, "rate_limit_exceeded", "Rate limit reached.", RateLimitedError),
        (500, "server_error", "Sorry.", ServerError),
        (503, "server_error", "Overloaded.", OverloadedError),
    ],
)
async def test_statuses_become_errors_with_the_providers_words(
    server: ModelServer, provider: OpenAIResponses, status: int, code: str, message: str, expected: type[ProviderError]
) -> None:
    server.responses.error(status, code, message, {"retry-after": "7"} if status in (503,) else None)
    _, error = await failure(provider)
    assert type(error) is expected
    assert (error.message, error.status, error.request_id) == (message, status, "req_fake")
    assert error.retry_after_s == (7.0 if status == 503 else None)
    assert len(server.requests) == 1, "the SDK must not retry"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"detail": "Unknown route."}', "Unknown route."),
        (b'{"error": "model is loading"}', "model is loading"),
        (b"plain text", "plain text"),
        (b"<html>" + b"x" * 5000, "an HTML page"),
    ],
)
async def test_other_servers_words_are_found(
    server: ModelServer, provider: OpenAIResponses, body: bytes, words: str
) -> None:
    server.responses.script(Reply((Chunk(body),), 400, {"content-type": "application/json"}))
    _, error = await failure(provider)
    assert words in error.message
    assert len(error.message) < 1000


async def test_the_key_is_never_shown(server: ModelServer) -> None:
    key = "sk-proj-abcdefghijklmnopqrstuvwx"
    provider = OpenAIResponses(ProviderConfig("test", "responses", server.url + "/v1", Secret(key)))
    server.responses.key = "another"
    server.responses.script(ResponseStream().error("server_error", f"leak {key}").reply())
    _, error = await failure(provider)
    assert isinstance(error, AuthenticationError)
    assert key not in f"{error} {error.message} {error.args}"
    server.responses.key = None
    _, error = await failure(provider)
    assert error.message == "leak (hidden)"
    assert key not in f"{error} {error.args}"
    await provider.aclose()


async def test_headers_and_key_are_sent(server: ModelServer) -> None:
    config = ProviderConfig("test", "responses", server.url + "/v1", Secret("k-1"), {"x-team": "blue"})
    provider = OpenAIResponses(config)
    server.responses.reply("hi")
    await collect(provider)
    await provider.aclose()
    headers = server.requests[0].headers
    assert (headers["authorization"], headers["x-team"]) == ("Bearer k-1", "blue")
    assert headers["content-type"] == "application/json"


async def test_nobody_listens(provider: OpenAIResponses) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        lonely = OpenAIResponses(ProviderConfig("local", "responses", url))
        with pytest.raises(ConnectionFailedError) as caught:
            await collect(lonely)
        await lonely.aclose()
    assert url in caught.value.message
    assert caught.value.retryable


@pytest.mark.parametrize("url", ["http://[::1", "localhost:8080", "ftp://localhost/v1"])
async def test_an_address_that_is_none(url: str) -> None:
    provider = OpenAIResponses(ProviderConfig("odd", "responses", url, Secret("k")))
    with pytest.raises(ProviderError) as caught:
        await collect(provider)
    assert url in caught.value.message
    assert "base_url" in caught.value.message
    assert not caught.value.retryable
    await provider.aclose()


async def test_a_key_that_no_header_can_hold() -> None:
    provider = OpenAIResponses(ProviderConfig("openai", "responses", None, Secret("sk-a b\n")))
    with pytest.raises(AuthenticationError):
        await collect(provider)


async def test_a_key_never_leaves_the_machine_unencrypted() -> None:
    provider = OpenAIResponses(ProviderConfig("odd", "responses", "http://example.invalid/v1", Secret("k")))
    with pytest.raises(ProviderError, match="unencrypted"):
        await collect(provider)


@pytest.mark.parametrize("url", [None, "https://api.openai.com/v1"])
async def test_no_key_is_an_error_at_the_vendors_own_address(url: str | None) -> None:
    provider = OpenAIResponses(ProviderConfig("openai", "responses", url))
    with pytest.raises(MissingKeyError) as caught:
        await collect(provider)
    assert "OPENAI_API_KEY" in caught.value.remedy
    await provider.aclose()


# --------------------------------------------------------------------------- T84: stop reasons


@pytest.mark.parametrize(
    ("stream", "stop", "detail"),
    [
        (ResponseStream().text("hi").complete(), "end_turn", ""),
        (ResponseStream().complete(), "end_turn", ""),
        (ResponseStream().reasoning("only thoughts").complete(), "end_turn", ""),
        (ResponseStream().text("hi").tool("bash", {}).complete(), "tool_use", ""),
        (ResponseStream().text("long").incomplete("max_output_tokens"), "max_tokens", "max_output_tokens"),
        (ResponseStream().text("bad").incomplete("content_filter"), "refusal", "content_filter"),
        (ResponseStream().text("odd").incomplete("steered"), "unknown", "steered"),
        (ResponseStream().text("I can't help.", refusal=True).complete(), "refusal", "I can't help."),
        (ResponseStream().text("odd").raw(sse({"type": "response.incomplete", "response": {}})), "unknown", ""),
        (ResponseStream().text("odd").raw(sse({"type": "response.completed"})), "end_turn", ""),
    ],
)
async def test_T84_stop_reasons(
    server: ModelServer, provider: OpenAIResponses, stream: ResponseStream, stop: StopReason, detail: str
) -> None:
    server.responses.stream(stream)
    events = await collect(provider)
    last = events[-1]
    assert isinstance(last, Completed)
    assert (last.stop_reason, last.detail) == (stop, detail)
    assert sum(isinstance(event, Completed) for event in events) == 1


@pytest.mark.parametrize(
    "arguments", ["", "null", "[]", "{oops", '{"a":' + "[" * 500 + "]" * 500 + "}", "x" * 2_000_000]
)
async def test_T83_arguments_arrive_as_the_model_wrote_them_and_can_go_back(
    server: ModelServer, provider: OpenAIResponses, arguments: str
) -> None:
    server.responses.stream(ResponseStream().tool("bash", arguments, "call_1", 500_000).complete())
    reply = await fold(provider)
    assert reply.blocks() == (ToolCall("call_1", "bash", arguments),)
    server.responses.reply("I see.")
    result = ToolResultMessage("call_1", (TextBlock("not valid"),), is_error=True)
    await fold(provider, request(UserMessage((TextBlock("go"),)), AssistantMessage(reply.blocks()), result))
    assert server.responses.refusals == []


async def test_calls_without_ids_get_some(server: ModelServer, provider: OpenAIResponses) -> None:
    server.responses.stream(ResponseStream().tool("bash", {}, "").tool("bash", {}, "").complete())
    events = await collect(provider)
    assert sum(isinstance(event, ToolCallFinished) for event in events) == 2
    assembler = Assembler()
    for event in events:
        assembler.feed(event)
    ids = {block.id for block in assembler.blocks() if isinstance(block, ToolCall)}
    assert len(ids) == 2
    assert "" not in ids


# --------------------------------------------------------------------------- the other calls


async def test_models_are_listed_newest_first(server: ModelServer, provider: OpenAIResponses) -> None:
    server.responses.models(
        {"id": "old", "created": 1},
        {"id": "new", "created": 3, "context_length": 65_536, "max_output_tokens": 4_096, "name": "New"},
        {"id": "mid", "created": 2, "meta": {"n_ctx": 8_192}},
    )
    assert await provider.list_models() == [
        ListedModel("new", "New", 65_536, 4_096),
        ListedModel("mid", None, 8_192),
        ListedModel("old"),
    ]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (json_reply({"detail": "Not Found"}, 404), []),
        (json_reply({"data": None}), []),
        (json_reply({"data": [3, {}, {"id": 7}, {"id": "x", "created": "?"}]}), [ListedModel("x")]),
    ],
)
async def test_servers_with_an_odd_listing(
    server: ModelServer, provider: OpenAIResponses, reply: Reply, expected: list[ListedModel]
) -> None:
    server.always(MODELS, reply)
    assert await provider.list_models() == expected


async def test_a_listing_that_is_no_json(server: ModelServer, provider: OpenAIResponses) -> None:
    server.always(MODELS, Reply((Chunk(b"<html>"),)))
    with pytest.raises(ProtocolError):
        await provider.list_models()


async def test_the_servers_own_count(server: ModelServer, provider: OpenAIResponses) -> None:
    server.responses.token_count(1234)
    assert await provider.count_tokens(request()) == 1234


async def test_warm_up_may_run_in_many_threads_and_again() -> None:
    provider = OpenAIResponses(ProviderConfig("test", "responses", "http://127.0.0.1:9/v1"))
    await asyncio.gather(*(asyncio.to_thread(provider.warm_up) for _ in range(8)))
    provider.warm_up()
    await provider.aclose()
    await provider.aclose()


async def test_a_provider_can_be_used_again_after_closing(server: ModelServer, provider: OpenAIResponses) -> None:
    server.responses.reply("one")
    await fold(provider)
    await provider.aclose()
    server.responses.reply("two")
    assert (await fold(provider)).blocks() == (TextBlock("two"),)
    assert len(server.to(RESPONSES)) == 2

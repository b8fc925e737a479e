import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from providers.assembler import Assembler
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
    Ping,
    ProviderConfig,
    Secret,
    StreamEvent,
    TextBlock,
    ToolCall,
    Usage,
)
from tests.fakes.model_server import Chunk, ModelServer, Reply, json_reply
from tests.fakes.responses_wire import ResponseStream
from tests.providers.responses_client import collect, failure, fold, request


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


# --------------------------------------------------------------------------- B8, T79: streams that break


def unfinished_call() -> ResponseStream:
    return ResponseStream().text("Cleaning.").tool("bash", '{"command": "rm -rf build"}', "call_1", 9, close=False)


@pytest.mark.parametrize("end", ["rst", "fin"])
async def test_T79_B8_a_connection_cut_inside_arguments_leaves_an_unfinished_call(
    server: ModelServer, provider: OpenAIResponses, end: Any
) -> None:
    stream = unfinished_call()
    # The reset waits until the client has read: else the kernel may throw the unread bytes away.
    read = threading.Event()
    tail = Chunk(b": bye\n\n", after=read)
    server.responses.script(Reply((*(Chunk(data) for data in stream.events), tail), end=end))
    assembler = Assembler()
    with pytest.raises(StreamBrokenError) as caught:
        async for event in provider.stream(request()):
            assembler.feed(event)
            last = assembler.blocks()[-1:]
            if last and isinstance(last[0], ToolCall) and len(last[0].arguments) >= 27:
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


@pytest.mark.parametrize("framing", ["chunked", "close"])
async def test_T79_a_response_that_ends_inside_an_event_is_broken_and_can_be_tried_again(
    server: ModelServer, provider: OpenAIResponses, framing: Any
) -> None:
    data = ResponseStream().text("half").data + b'data: {"type": "response.comple'
    server.responses.script(Reply((Chunk(data),), framing=framing))
    partial, error = await failure(provider)
    assert type(error) is StreamBrokenError
    assert error.retryable
    assert partial.blocks() == (TextBlock("half"),)


async def test_T82_an_error_that_ends_the_response_without_a_blank_line_is_classified(
    server: ModelServer, provider: OpenAIResponses
) -> None:
    data = b'event: error\ndata: {"type": "error", "code": "server_overloaded", "message": "busy"}'
    server.responses.script(Reply((Chunk(data),)))
    _, error = await failure(provider)
    assert (type(error), error.message) == (OverloadedError, "busy")


async def test_B8_completed_without_the_end_of_a_call_runs_nothing(
    server: ModelServer, provider: OpenAIResponses
) -> None:
    server.responses.stream(unfinished_call().complete())
    partial, error = await failure(provider)
    assert isinstance(error, StreamBrokenError)
    assert "tool call" in error.message
    assert not any(isinstance(block, ToolCall) and block.finished for block in partial.blocks())


async def test_B8_arguments_declared_whole_finish_a_call(server: ModelServer, provider: OpenAIResponses) -> None:
    stream = unfinished_call().add(
        "response.function_call_arguments.done", output_index=1, arguments='{"command": "ls"}'
    )
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
    closed = unfinished_call().add("response.output_item.done", output_index=1, item=cut_item)
    for stream in (unfinished_call().incomplete(), closed.incomplete()):
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
    await asyncio.wait_for(enough.wait(), 40)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait_for(task, 20)
    assert set(heard) == {Ping()}
    assert await asyncio.to_thread(server.requests[0].client_left.wait, 40)


async def test_B9_headers_that_never_come_can_be_left(server: ModelServer, provider: OpenAIResponses) -> None:
    server.responses.script(Reply(never_answer=True))
    task = asyncio.create_task(collect(provider))
    await asyncio.to_thread(server.wait_for_requests, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 20)
    assert await asyncio.to_thread(server.requests[0].client_left.wait, 40)


async def test_closing_the_iterator_closes_the_connection(server: ModelServer, provider: OpenAIResponses) -> None:
    server.responses.stream(ResponseStream().text("long"), end="stall")
    stream = provider.stream(request())
    await anext(stream)
    assert hasattr(stream, "aclose")
    await stream.aclose()
    assert await asyncio.to_thread(server.requests[0].client_left.wait, 40)


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

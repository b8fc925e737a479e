import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Literal, cast

import pytest

from providers.anthropic_messages import AnthropicMessages
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
    PermissionDeniedError,
    ProtocolError,
    ProviderError,
    RateLimitedError,
    ServerError,
    StreamBrokenError,
)
from providers.types import (
    AssistantMessage,
    Message,
    ProviderConfig,
    Secret,
    StreamEvent,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    UserMessage,
)
from tests.fakes.anthropic_wire import MESSAGES, MODELS, MessageStream, error_reply
from tests.fakes.model_server import Chunk, End, ModelServer, Reply, json_reply, pieces, stream_reply
from tests.providers.conversations import READ, SYSTEM, request, result, user

KEY = "secret-key-1"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        running.anthropic.key = KEY
        yield running


@asynccontextmanager
async def connected(
    url: str, key: str | None = KEY, headers: dict[str, str] | None = None
) -> AsyncIterator[AnthropicMessages]:
    config = ProviderConfig("anthropic", "anthropic", url, Secret(key) if key else None, headers or {})
    provider = AnthropicMessages(config)
    try:
        yield provider
    finally:
        await provider.aclose()


async def reply_of(server: ModelServer, asked: ModelRequest | None = None) -> Assembler:
    """Stream one reply. The assembler holds what came; a failure carries it as `partial`."""
    assembler = Assembler()
    async with connected(server.url) as provider:
        try:
            async for event in provider.stream(asked or request([user("hi")])):
                assembler.feed(event)
        except ProviderError as error:
            error.partial = assembler
            raise
    return assembler


async def test_a_conversation_with_thinking_and_tools_is_accepted_by_a_strict_server(server: ModelServer) -> None:
    server.anthropic.reply("I read.", thinking="hm", tools=[("read", {"path": "a"}, "t1"), ("read", {}, "t2")])
    server.anthropic.reply("Done.", usage={"input_tokens": 4, "cache_read_input_tokens": 50, "output_tokens": 2})
    first = await reply_of(server, request([user("go")], system=SYSTEM, tools=(READ,), effort="high"))
    assert first.blocks() == (
        ThinkingBlock("hm", "c2lnbmVk"),
        TextBlock("I read."),
        ToolCall("t1", "read", '{"path": "a"}'),
        ToolCall("t2", "read", "{}"),
    )
    assert first.stop_reason == "tool_use"
    history: list[Message] = [user("go"), AssistantMessage(first.blocks()), result("t1"), result("t2", is_error=True)]
    second = await reply_of(server, request(history, system=SYSTEM, tools=(READ,), effort="high", sent_before=1))
    assert second.blocks() == (TextBlock("Done."),)
    assert second.usage.cache_read_tokens == 50
    assert server.anthropic.refusals == []
    assert len(server.anthropic.requests) == 2


async def test_the_request_carries_what_servers_want(server: ModelServer) -> None:
    server.anthropic.reply("hi")
    async with connected(server.url, headers={"x-route": "eu"}) as provider:
        assert [event async for event in provider.stream(request([user("hi")]))]
    headers = server.requests[0].headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["x-api-key"] == KEY
    assert headers["content-type"] == "application/json"
    assert headers["anthropic-version"]
    assert headers["x-route"] == "eu"
    assert "anthropic-beta" not in headers


@pytest.mark.parametrize("size", [1, 13, 4096])
async def test_T81_B10_the_cuts_of_the_network_do_not_matter(server: ModelServer, size: int) -> None:
    text = "grüße 😀\u2028 " * 5
    stream = MessageStream().thinking("hm").text(text).tool("read", {"path": "ä"}, "t1").stop("tool_use")
    server.anthropic.script(Reply(pieces(stream.data.replace(b"\n", b"\r\n"), size)))
    assembler = await reply_of(server)
    assert assembler.blocks() == (
        ThinkingBlock("hm", "c2lnbmVk"),
        TextBlock(text),
        ToolCall("t1", "read", '{"path": "\\u00e4"}'),
    )


async def test_T81_a_missing_last_blank_line_is_forgiven(server: ModelServer) -> None:
    server.anthropic.script(stream_reply(MessageStream().text("whole").stop().data[:-2]))
    assert (await reply_of(server)).completed


async def test_a_body_without_a_length_is_read_to_its_end(server: ModelServer) -> None:
    data = MessageStream().text("whole").stop().data
    server.anthropic.script(Reply((Chunk(data),), framing="close"))
    assert (await reply_of(server)).blocks() == (TextBlock("whole"),)


# --------------------------------------------------------------------------- the stream breaks


@pytest.mark.parametrize("end", ["fin", "rst", "complete"])
@pytest.mark.parametrize("framing", ["chunked", "close"])
@pytest.mark.parametrize("inside", ["text", "arguments", "behind a call", "event", "nothing"])
async def test_T79_B8_a_reply_that_ends_early_is_broken_and_its_parts_are_kept(
    server: ModelServer, end: End, framing: Literal["chunked", "close"], inside: str
) -> None:
    stream = MessageStream().text("so far")
    expected: tuple[object, ...] = (TextBlock("so far"),)
    if inside == "arguments":
        stream.tool("read", '{"pa', "t1", close=False)
        expected = (*expected, ToolCall("t1", "read", '{"pa', finished=False))
    elif inside == "behind a call":
        stream.tool("read", '{"path": "a"}', "t1")
        expected = (*expected, ToolCall("t1", "read", '{"path": "a"}'))
    data = stream.data
    if inside == "event":
        data += b'event: message_stop\ndata: {"type": "message_st'
    if inside == "nothing":
        data, expected = b"", ()
    # A reset must not overtake the data.
    chunks = (Chunk(data), Chunk(b"", delay_s=0.05 if end == "rst" else 0.0))
    server.anthropic.script(Reply(chunks, end=end, framing=framing))
    with pytest.raises(StreamBrokenError) as caught:
        await reply_of(server)
    assert caught.value.retryable
    assert caught.value.partial.blocks() == expected
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        (json_reply({}), "{}"),
        (
            Reply((Chunk(b"<html><body>\n\nPlease  log in: here\n\n</body></html>"),), 200, {}),
            "<html><body> Please log in",
        ),
        (json_reply({"type": "message", "content": []}), '"type": "message"'),
        (Reply((Chunk(b"\x00\xff\xfe" * 50),), 200, {}), "\ufffd"),
    ],
)
async def test_T82_T78_an_answer_that_is_no_stream_is_shown(server: ModelServer, reply: Reply, shown: str) -> None:
    server.anthropic.script(reply)
    with pytest.raises(ProtocolError) as caught:
        await reply_of(server)
    assert shown in caught.value.message
    assert not caught.value.retryable


async def test_T82_an_error_in_a_body_with_status_200_is_classified(server: ModelServer) -> None:
    server.anthropic.script(json_reply({"error": {"type": "overloaded_error", "message": "busy"}}))
    with pytest.raises(OverloadedError, match="busy"):
        await reply_of(server)


async def test_T82_an_error_event_behind_text_keeps_the_text(server: ModelServer) -> None:
    server.anthropic.stream(MessageStream().text("half").error("overloaded_error", "Overloaded"))
    with pytest.raises(OverloadedError) as caught:
        await reply_of(server)
    assert caught.value.partial.blocks() == (TextBlock("half"),)


async def test_T82_a_malformed_line_is_a_protocol_error(server: ModelServer) -> None:
    server.anthropic.stream(MessageStream().text("half").raw(b"event: message_delta\ndata: {oops\n\n"))
    with pytest.raises(ProtocolError, match=r"\{oops"):
        await reply_of(server)


# --------------------------------------------------------------------------- the server refuses


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (400, "invalid_request_error", BadRequestError),
        (401, "authentication_error", AuthenticationError),
        (402, "billing_error", BillingError),
        (403, "permission_error", PermissionDeniedError),
        (404, "not_found_error", NotFoundError),
        (413, "request_too_large", ContextOverflowError),
        (422, "invalid_request_error", BadRequestError),
        (429, "rate_limit_error", RateLimitedError),
        (500, "api_error", ServerError),
        (504, "timeout_error", ServerError),
        (529, "overloaded_error", OverloadedError),
    ],
)
async def test_T76_T77_every_status_has_its_error(
    server: ModelServer, status: int, kind: str, expected: type[ProviderError]
) -> None:
    server.anthropic.error(status, kind, f"words of {kind}", {"retry-after": "2"})
    with pytest.raises(expected) as caught:
        await reply_of(server)
    error = caught.value
    assert type(error) is expected
    assert (error.message, error.status, error.request_id) == (f"words of {kind}", status, "req_fake")
    assert error.retry_after_s == 2.0
    assert error.__cause__ is not None
    assert len(server.requests) == 1, "the SDK must not retry by itself"


@pytest.mark.parametrize(
    ("body", "window"),
    [
        (b'{"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum", "type": "x"}}', 200_000),
        (
            b'{"error": {"code": 400, "type": "exceed_context_size_error", "message": "request exceeds the available '
            b'context size, try increasing it", "n_prompt_tokens": 9000, "n_ctx": 8192}}',
            8_192,
        ),
        (b"", None),
        (b'{"detail": "This model\'s maximum context length is 4096 tokens."}', 4_096),
    ],
)
async def test_T87_R46_an_overflow_is_recognised_and_its_limit_read(
    server: ModelServer, body: bytes, window: int | None
) -> None:
    server.anthropic.script(Reply((Chunk(body),), 400, {"content-type": "application/json"}))
    with pytest.raises(ContextOverflowError) as caught:
        await reply_of(server)
    assert caught.value.window_tokens == window


async def test_a_refusal_in_html_is_shortened(server: ModelServer) -> None:
    server.anthropic.script(
        Reply((Chunk(b"<html>Bad\n\n Gateway" + b"x" * 100_000),), 502, {"content-type": "text/html"})
    )
    with pytest.raises(ServerError, match="<html>Bad Gateway") as caught:
        await reply_of(server)
    assert len(caught.value.message) <= 1_000


async def test_R47_a_redirect_is_not_followed(server: ModelServer) -> None:
    with ModelServer() as elsewhere:
        server.anthropic.script(Reply(status=307, headers={"location": elsewhere.url + MESSAGES}))
        with pytest.raises(ProtocolError):
            await reply_of(server)
        assert elsewhere.requests == []


async def test_R47_a_key_that_the_server_repeats_is_not_shown(server: ModelServer) -> None:
    server.anthropic.error(401, "authentication_error", f"invalid key {KEY}")
    with pytest.raises(AuthenticationError) as caught:
        await reply_of(server)
    assert KEY not in caught.value.message + str(caught.value) + repr(caught.value)


# --------------------------------------------------------------------------- no connection


async def test_T78_a_refused_connection_names_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    async with connected(url) as provider:
        with pytest.raises(ConnectionFailedError, match=url) as caught:
            await anext(provider.stream(request([user("hi")])).__aiter__())
    assert caught.value.retryable
    assert KEY not in str(caught.value)


async def test_T78_a_server_that_hangs_up_without_an_answer(server: ModelServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        hang_up = asyncio.create_task(asyncio.to_thread(lambda: listener.accept()[0].close()))
        async with connected(url) as provider:
            with pytest.raises(ConnectionFailedError):
                await anext(provider.stream(request([user("hi")])).__aiter__())
        await hang_up


async def test_T78_TLS_with_a_server_that_speaks_none(server: ModelServer) -> None:
    async with connected(server.url.replace("http:", "https:")) as provider:
        with pytest.raises(ConnectionFailedError):
            await anext(provider.stream(request([user("hi")])).__aiter__())


@pytest.mark.parametrize(
    ("url", "key", "expected", "words"),
    [
        (None, None, MissingKeyError, "no key"),
        (None, "two\nlines", AuthenticationError, "line break"),
        (None, "schlüssel", AuthenticationError, "character"),
        ("http://models.example.com", KEY, ProviderError, "unencrypted"),
        ("ftp://models.example.com", KEY, ProviderError, "no web address"),
        ("models.example.com", None, ProviderError, "no web address"),
        ("http://[", None, ProviderError, "no web address"),
    ],
)
async def test_R47_no_connection_is_tried_that_must_not_be(
    url: str | None, key: str | None, expected: type[ProviderError], words: str
) -> None:
    provider = AnthropicMessages(ProviderConfig("anthropic", "anthropic", url, Secret(key) if key else None))
    with pytest.raises(expected, match=words) as caught:
        await anext(provider.stream(request([user("hi")])).__aiter__())
    assert not caught.value.retryable
    assert caught.value.remedy


async def test_R47_a_key_of_the_environment_goes_to_no_configured_server(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-the-environment")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-of-the-environment")
    server.anthropic.key = None
    server.anthropic.reply("hi")
    async with connected(server.url, key=None) as provider:
        assert [event async for event in provider.stream(request([user("hi")]))]
    assert "of-the-environment" not in str(server.requests[0].headers)


# --------------------------------------------------------------------------- cancelling


async def test_closing_the_stream_closes_the_connection(server: ModelServer) -> None:
    server.anthropic.script(stream_reply(MessageStream().text("a").data, end="stall"))
    async with connected(server.url) as provider:
        stream = cast("AsyncGenerator[StreamEvent, None]", provider.stream(request([user("hi")])))
        async with aclosing(stream) as events:
            await anext(events)
        assert await asyncio.to_thread(server.requests[0].client_left.wait, 5)


async def test_cancelling_the_reader_closes_the_connection_at_once(server: ModelServer) -> None:
    server.anthropic.script(stream_reply(MessageStream().text("a").data, end="stall"), Reply(never_answer=True))
    async with connected(server.url) as provider:
        for number in (1, 2):
            arrived = asyncio.Event()

            async def read(arrived: asyncio.Event = arrived) -> None:
                async for _ in provider.stream(request([user("hi")])):
                    arrived.set()

            task = asyncio.create_task(read())
            await asyncio.to_thread(server.wait_for_requests, number)
            if number == 1:
                await asyncio.wait_for(arrived.wait(), 5)
            started = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - started < 0.2
            assert await asyncio.to_thread(server.requests[-1].client_left.wait, 5)


async def test_a_connection_is_used_again(server: ModelServer) -> None:
    server.anthropic.reply("one")
    server.anthropic.reply("two")
    async with connected(server.url) as provider:
        for _ in range(2):
            assert [event async for event in provider.stream(request([user("hi")]))]


# --------------------------------------------------------------------------- beside the stream


async def test_models_are_listed_newest_first(server: ModelServer) -> None:
    server.anthropic.models(
        {"id": "claude-old", "created_at": "2025-01-01T00:00:00Z", "max_input_tokens": 200_000, "max_tokens": 8_192},
        {
            "id": "claude-new",
            "created_at": "2026-09-01T00:00:00Z",
            "max_input_tokens": 1_000_000,
            "max_tokens": 128_000,
        },
        {"id": "claude-gone", "created_at": "2026-10-01T00:00:00Z", "lifecycle": "retired"},
    )
    async with connected(server.url) as provider:
        assert await provider.list_models() == [
            ListedModel("claude-new", "claude-new", 1_000_000, 128_000),
            ListedModel("claude-old", "claude-old", 200_000, 8_192),
        ]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (json_reply({"data": [{"id": "local-model", "object": "model"}]}), [ListedModel("local-model")]),
        (error_reply(404, "not_found_error", "no such path"), []),
        (json_reply({"models": 3}), ProtocolError),
        (Reply((Chunk(b"<html>"),), 200, {}), ProtocolError),
        (error_reply(401, "authentication_error", "invalid"), AuthenticationError),
    ],
)
async def test_other_servers_listings(
    server: ModelServer, reply: Reply, expected: list[ListedModel] | type[ProviderError]
) -> None:
    server.queue(MODELS, reply)
    async with connected(server.url) as provider:
        if isinstance(expected, list):
            assert await provider.list_models() == expected
        else:
            with pytest.raises(expected):
                await provider.list_models()


async def test_the_server_counts_the_tokens_of_a_request(server: ModelServer) -> None:
    server.anthropic.token_count(1_234)
    async with connected(server.url) as provider:
        assert await provider.count_tokens(request([user("hi")], system=SYSTEM)) == 1_234
    assert set(server.requests[0].json) == {"model", "system", "messages"}


async def test_a_server_that_cannot_count_says_none(server: ModelServer) -> None:
    server.queue("/v1/messages/count_tokens", error_reply(404, "not_found_error", "no such path"))
    async with connected(server.url) as provider:
        assert await provider.count_tokens(request([user("hi")])) is None


# --------------------------------------------------------------------------- import and cost


def test_the_SDK_is_imported_by_warm_up_alone() -> None:
    code = (
        "import sys\n"
        "from providers.anthropic_messages import AnthropicMessages\n"
        "from providers.types import ProviderConfig, Secret\n"
        "provider = AnthropicMessages(ProviderConfig('a', 'anthropic', key=Secret('k')))\n"
        "loaded = {'anthropic', 'httpx2', 'pydantic'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


async def test_warm_up_from_many_threads_builds_one_client() -> None:
    async with connected("http://127.0.0.1:9") as provider:
        await asyncio.gather(*(asyncio.to_thread(provider.warm_up) for _ in range(8)))


async def test_200_KB_in_small_deltas_are_cheap(server: ModelServer) -> None:
    text = "word of **markdown** " * 10_000
    stream = MessageStream().text(text[:200_000]).stop()
    server.anthropic.script(Reply(pieces(stream.data, 16_384)))
    async with connected(server.url) as provider:
        provider.warm_up()
        started = time.thread_time()
        events = [event async for event in provider.stream(request([UserMessage((TextBlock("hi"),))]))]
        spent = time.thread_time() - started
    assert len(events) < 400
    assert spent < 0.35

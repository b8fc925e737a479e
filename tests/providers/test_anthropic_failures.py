import asyncio
import socket
from collections.abc import Iterator
from typing import Literal

import pytest

from providers.anthropic_messages import AnthropicMessages
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
    ProviderConfig,
    Secret,
    TextBlock,
    ToolCall,
)
from tests.fakes.anthropic_wire import MESSAGES, MessageStream
from tests.fakes.model_server import Chunk, End, ModelServer, Reply, json_reply
from tests.providers.anthropic_client import KEY, connected, reply_of
from tests.providers.conversations import request, user


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        running.anthropic.key = KEY
        yield running


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
    with pytest.raises(ServerError, match=r"an HTML page instead of an answer \(Bad Gateway\)") as caught:
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


async def test_T78_this_machine_is_reached_without_a_proxy(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server.anthropic.reply("hi")
    assert (await reply_of(server)).completed

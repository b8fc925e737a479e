import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import cast

import pytest

from providers.base import ListedModel
from providers.errors import (
    AuthenticationError,
    ProtocolError,
    ProviderError,
)
from providers.types import (
    AssistantMessage,
    Message,
    StreamEvent,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    UserMessage,
)
from tests.fakes.anthropic_wire import MODELS, MessageStream, error_reply
from tests.fakes.model_server import Chunk, ModelServer, Reply, json_reply, pieces, stream_reply
from tests.providers.anthropic_client import KEY, connected, reply_of
from tests.providers.conversations import READ, SYSTEM, request, result, user


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        running.anthropic.key = KEY
        yield running


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


# --------------------------------------------------------------------------- cancelling


async def test_closing_the_stream_closes_the_connection(server: ModelServer) -> None:
    server.anthropic.script(stream_reply(MessageStream().text("a").data, end="stall"))
    async with connected(server.url) as provider:
        stream = cast("AsyncGenerator[StreamEvent, None]", provider.stream(request([user("hi")])))
        async with aclosing(stream) as events:
            await anext(events)
        assert await asyncio.to_thread(server.requests[0].client_left.wait, 40)


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
                await asyncio.wait_for(arrived.wait(), 40)
            started = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - started < 10
            assert await asyncio.to_thread(server.requests[-1].client_left.wait, 40)


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
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)


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
    assert spent < 1

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from providers.assembler import Assembler
from providers.base import ListedModel, ModelRequest
from providers.chat_encoding import ChatEncoder
from providers.chat_quirks import ChatQuirks
from providers.errors import (
    ContextOverflowError,
    OverloadedError,
    ProtocolError,
    ProviderError,
    RateLimitedError,
    StreamBrokenError,
)
from providers.openai_chat import OpenAIChat
from providers.types import (
    AssistantMessage,
    ImageBlock,
    Message,
    OpaqueBlock,
    ProviderConfig,
    Secret,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from tests.fakes.chat_wire import CHAT, ChatStream
from tests.fakes.model_server import Chunk, ModelServer, Reply, json_reply, pieces, stream_reply
from tests.providers.conversations import READ, SYSTEM, calls, request, result, user

ASKED = request([user("go")], model="chat-test", system=SYSTEM, tools=(READ,), stable=0)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        _ = running.chat  # its judge looks at every request
        yield running


@pytest.fixture
async def provider(server: ModelServer) -> AsyncIterator[OpenAIChat]:
    made = OpenAIChat(ProviderConfig("test", "chat", server.url + "/v1"))
    yield made
    await made.aclose()


async def fold(provider: OpenAIChat, asked: ModelRequest = ASKED) -> Assembler:
    assembler = Assembler()
    async for event in provider.stream(asked):
        assembler.feed(event)
    return assembler


async def failure(provider: OpenAIChat) -> tuple[Assembler, ProviderError]:
    assembler = Assembler()
    try:
        async for event in provider.stream(ASKED):
            assembler.feed(event)
    except ProviderError as error:
        return assembler, error
    raise AssertionError("nothing was raised")


def with_quirks(server: ModelServer, quirks: ChatQuirks) -> OpenAIChat:
    return OpenAIChat(ProviderConfig("test", "chat", server.url + "/v1", quirks=quirks))


# --------------------------------------------------------------------------- whole replies


async def test_a_whole_reply_and_its_way_back(server: ModelServer, provider: OpenAIChat) -> None:
    usage = {
        "prompt_tokens": 60_600,
        "completion_tokens": 90,
        "prompt_tokens_details": {"cached_tokens": 60_000},
        "completion_tokens_details": {"reasoning_tokens": 40},
    }
    stream = ChatStream(usage=usage).reasoning("First I look.").text("Running it.")
    server.chat.stream(
        stream.tool("read", {"path": "a"}, "call_a").tool("read", {"path": "b"}, "call_b").stop("tool_calls")
    )
    reply = await fold(provider)
    assert reply.blocks() == (
        ThinkingBlock("First I look."),
        TextBlock("Running it."),
        ToolCall("call_a", "read", '{"path": "a"}'),
        ToolCall("call_b", "read", '{"path": "b"}'),
    )
    assert reply.stop_reason == "tool_use"
    # B5: cached tokens are part of the API's input and counted once.
    assert reply.usage == Usage(600, 60_000, 0, 90, 40)
    server.chat.reply("Done.")
    again = request(
        [user("go"), AssistantMessage(reply.blocks()), result("call_a", "A"), result("call_b", "", is_error=True)],
        system=SYSTEM,
        tools=(READ,),
    )
    assert (await fold(provider, again)).blocks() == (TextBlock("Done."),)
    assert server.chat.refusals == []
    sent = server.chat.bodies[-1]["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "tool"]
    assert sent[2]["content"] == "Running it." and "reasoning_content" not in sent[2]
    assert sent[4]["content"] == "[This tool call failed]"


@pytest.mark.parametrize(
    ("reason", "stop", "detail"),
    [
        ("stop", "end_turn", ""),
        ("length", "max_tokens", ""),
        ("content_filter", "refusal", ""),
        ("model_context_window_exceeded", "context_window_exceeded", ""),
        ("something_new", "unknown", "something_new"),
        ("tool_calls", "end_turn", ""),  # it says so, and calls nothing
    ],
)
async def test_T84_every_reason_to_stop(
    server: ModelServer, provider: OpenAIChat, reason: str, stop: StopReason, detail: str
) -> None:
    server.chat.stream(ChatStream().text("Hm.").stop(reason))
    reply = await fold(provider)
    assert (reply.stop_reason, reply.detail) == (stop, detail)


async def test_T84_calls_that_end_with_stop_are_calls_and_those_cut_off_are_not(
    server: ModelServer, provider: OpenAIChat
) -> None:
    server.chat.stream(ChatStream().tool("read", {"path": "a"}, "c").stop("stop"))
    assert (await fold(provider)).stop_reason == "tool_use"
    server.chat.stream(ChatStream().tool("read", {"path": "a"}, "c").tool("read", '{"pa', "d").stop("length"))
    reply = await fold(provider)
    assert reply.stop_reason == "max_tokens"
    assert [call.finished for call in reply.blocks() if isinstance(call, ToolCall)] == [True, False]


@pytest.mark.parametrize("numbered", ["alike", "not at all", "mixed"])
async def test_parallel_calls_are_told_apart_however_the_server_numbers_them(
    server: ModelServer, provider: OpenAIChat, numbered: str
) -> None:
    stream = ChatStream()
    for name, path in (("a", "x"), ("b", "y")):
        call: dict[str, Any] = {"id": name, "function": {"name": "read", "arguments": {"path": path}}}
        if numbered == "alike":
            call["index"] = 0
        if numbered != "mixed":
            stream.delta(tool_calls=[call])
    if numbered == "mixed":
        # The pieces of two calls in turns.
        for number, id_ in enumerate("ab"):
            stream.delta(tool_calls=[{"index": number, "id": id_, "function": {"name": "read", "arguments": '{"path'}}])
        for number, path in enumerate("xy"):
            stream.delta(tool_calls=[{"index": number, "function": {"arguments": f'": "{path}"}}'}}])
    server.chat.stream(stream.text(" and text behind").stop("tool_calls"))
    reply = await fold(provider)
    found = [(b.id, json.loads(b.arguments)["path"], b.finished) for b in reply.blocks() if isinstance(b, ToolCall)]
    assert found == [("a", "x", True), ("b", "y", True)]
    assert any(isinstance(block, TextBlock) and "behind" in block.text for block in reply.blocks())


async def test_B7_usage_may_come_in_each_chunk_with_the_last_one_late_or_never(
    server: ModelServer, provider: OpenAIChat
) -> None:
    report = {"prompt_tokens": 100, "completion_tokens": 7}
    each = ChatStream()
    for number in range(1, 8):
        choices = [{"index": 0, "delta": {"content": "x"}, "finish_reason": None}]
        each.chunk(choices=choices, usage={**report, "completion_tokens": number})
    server.chat.stream(each.stop())
    assert (await fold(provider)).usage == Usage(100, output_tokens=7)
    server.chat.stream(ChatStream(usage=report).text("x").stop())
    assert (await fold(provider)).usage == Usage(100, output_tokens=7)
    for nothing in (None, {"prompt_tokens": None}, {"prompt_tokens": -5, "completion_tokens": "7"}, {}):
        server.chat.stream(ChatStream().chunk(choices=[], usage=nothing).text("x").stop())
        assert (await fold(provider)).usage == Usage()


async def test_odd_reports_are_put_right(server: ModelServer, provider: OpenAIChat) -> None:
    hits = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_cache_hit_tokens": 90, "prompt_cache_miss_tokens": 10}
    server.chat.stream(ChatStream(usage=hits).text("x").stop())
    assert (await fold(provider)).usage == Usage(10, 90, 0, 5)
    beside = {"prompt_tokens": 100, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 50}}
    server.chat.stream(ChatStream(usage=beside).text("x").stop())
    assert (await fold(provider)).usage == Usage(100, 0, 0, 55, 50)


# --------------------------------------------------------------------------- T81, T82, B8: streams as they come


@pytest.mark.parametrize("how", ["bytes", "crlf", "comments", "at once", "no mark of the end"])
async def test_T81_the_same_text_however_the_stream_is_cut(server: ModelServer, provider: OpenAIChat, how: str) -> None:
    text = "Grüße, 世界 \u2028 🙂 " * 20
    stream = ChatStream().text(text, 7).stop(done=how != "no mark of the end")
    data = stream.data
    if how == "crlf":
        data = data.replace(b"\n", b"\r\n")
    if how == "comments":
        data = b": hello\n\n" + data.replace(b"\n\n", b"\n\n: ping\n\n")
    chunks = pieces(data, 1) if how == "bytes" else (Chunk(data),)
    server.chat.script(Reply(chunks))
    assert (await fold(provider)).blocks() == (TextBlock(text),)


async def test_B8_a_stream_that_breaks_inside_a_call_never_finishes_it(
    server: ModelServer, provider: OpenAIChat
) -> None:
    half = ChatStream().text("Cleaning.").tool("read", '{"path": "a"', "c")
    ends = ({"end": "fin"}, {"end": "rst"}, {"end": "complete"})
    for end in ends:
        server.chat.stream(half, **end)  # type: ignore[arg-type]  # one of the three ends
        assembler, error = await failure(provider)
        assert isinstance(error, StreamBrokenError) and error.retryable
        assert all(not block.finished for block in assembler.blocks() if isinstance(block, ToolCall))
    server.chat.script(stream_reply(half.data, b"data: [DONE]\n\n"))
    assembler, error = await failure(provider)
    assert isinstance(error, StreamBrokenError)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "Overloaded", "code": 503}, OverloadedError),
        (
            {"message": "Rate limit reached", "type": "rate_limit_error", "code": "rate_limit_exceeded"},
            RateLimitedError,
        ),
        ({"message": "This model's maximum context length is 8192 tokens.", "code": 400}, ContextOverflowError),
        ("the request exceeds the available context size", ContextOverflowError),
    ],
)
async def test_T82_errors_inside_a_stream(
    server: ModelServer, provider: OpenAIChat, error: Any, kind: type[ProviderError]
) -> None:
    server.chat.stream(ChatStream().text("Half").chunk(error=error))
    assembler, raised = await failure(provider)
    assert isinstance(raised, kind)
    assert assembler.blocks() == (TextBlock("Half"),)


async def test_T82_what_is_no_stream_is_a_typed_error(server: ModelServer, provider: OpenAIChat) -> None:
    for body in (b"<html>proxy</html>", b"{}", b"", b"data: {broken\n\n", b"data: [1]\n\n"):
        server.chat.script(Reply((Chunk(body),)))
        _, error = await failure(provider)
        assert isinstance(error, ProtocolError | StreamBrokenError)


@pytest.mark.parametrize(
    ("text", "window"),
    [
        (
            "the request exceeds the available context size. try increasing the context size or enable context shift",
            None,
        ),
        ("This model's maximum context length is 32768 tokens. However, you requested 40000 tokens", 32_768),
        ("Please reduce the length of the messages or completion.", None),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
        ("This model's maximum prompt length is 131072 but the request contains 140000 tokens.", 131_072),
        ("The number of tokens to keep is greater than the context length", None),
        ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", 32_768),
    ],
)
async def test_T87_overflow_in_every_servers_words(
    server: ModelServer, provider: OpenAIChat, text: str, window: int | None
) -> None:
    server.chat.error(400, "invalid_request_error", text)
    _, error = await failure(provider)
    assert isinstance(error, ContextOverflowError)
    assert error.window_tokens == window


# --------------------------------------------------------------------------- what servers want differently


async def test_quirks_name_what_is_sent(server: ModelServer) -> None:
    plain = with_quirks(server, ChatQuirks())
    odd = with_quirks(
        server,
        ChatQuirks("max_completion_tokens", "unasked", False, "reasoning_effort", "", False, "developer", True),
    )
    asked = replace(ASKED, effort="off", cache_key="s" * 80)
    for provider in (plain, odd):
        server.chat.reply("ok")
        await fold(provider, asked)
        await provider.aclose()
    first, second = server.chat.bodies
    assert first["max_tokens"] == 1_000 and first["stream_options"] == {"include_usage": True}
    assert not {"parallel_tool_calls", "reasoning_effort", "prompt_cache_key", "max_completion_tokens"} & first.keys()
    assert second["max_completion_tokens"] == 1_000 and "stream_options" not in second
    assert second["parallel_tool_calls"] is False and second["reasoning_effort"] == "none"
    assert len(second["prompt_cache_key"]) == 64
    assert second["messages"][0]["role"] == "developer"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_goes_back_where_the_server_wants_it(server: ModelServer, field: Any) -> None:
    provider = with_quirks(server, ChatQuirks(reasoning_back=field))
    server.chat.stream(ChatStream().reasoning("I think.", field).tool("read", {"path": "a"}, "c").stop("tool_calls"))
    reply = await fold(provider)
    opaque = OpaqueBlock("chat", "chat-test", {"type": "reasoning", "text": "I think."})
    assert opaque in reply.blocks()
    server.chat.reply("ok")
    server.chat.reply("ok")
    conversation: list[Message] = [user("go"), AssistantMessage(reply.blocks()), result("c")]
    await fold(provider, request(conversation, model="chat-test"))
    await fold(provider, request(conversation, model="another-model"))
    await provider.aclose()
    same, other = (body["messages"][1] for body in server.to(CHAT)[1:] for body in [body.json])
    assert same[field] == "I think." and field not in other


async def test_calls_that_are_written_as_text(server: ModelServer) -> None:
    provider = with_quirks(server, ChatQuirks(calls_as_text=True))
    text = (
        'I look.\n<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>\n<tool_call>{"name": "read"'
    )
    server.chat.stream(ChatStream().text(text, 5).stop())
    reply = await fold(provider)
    assert "".join(b.text for b in reply.blocks() if isinstance(b, TextBlock)).startswith("I look.")
    (call,) = [block for block in reply.blocks() if isinstance(block, ToolCall)]
    assert (call.name, json.loads(call.arguments), reply.stop_reason) == ("read", {"path": "a"}, "tool_use")
    server.chat.stream(ChatStream().text("a < b and <tool_calls> are no calls").stop())
    reply = await fold(provider)
    await provider.aclose()
    assert reply.blocks() == (TextBlock("a < b and <tool_calls> are no calls"),)


async def test_models_are_listed_with_what_the_server_says(server: ModelServer, provider: OpenAIChat) -> None:
    entries = [
        {"id": "old", "created": 1, "context_length": 8192},
        {"id": "new", "created": 2, "meta": {"n_ctx": 4096}, "name": "New"},
    ]
    server.always("/v1/models", json_reply({"data": entries}))
    assert await provider.list_models() == [ListedModel("new", "New", 4096, None), ListedModel("old", None, 8192, None)]


async def test_a_key_is_sent_and_no_key_is_needed_at_an_own_address(server: ModelServer) -> None:
    keyed = OpenAIChat(ProviderConfig("test", "chat", server.url + "/v1", Secret("sk-0123456789")))
    server.chat.reply("ok")
    await fold(keyed)
    await keyed.aclose()
    assert server.chat.requests[-1].headers["authorization"] == "Bearer sk-0123456789"


# --------------------------------------------------------------------------- encoding


def test_a_request_costs_what_is_new_and_images_follow_their_results() -> None:
    encoder = ChatEncoder(ChatQuirks())
    image = ImageBlock("image/png", "0" * 64)
    messages: list[Message] = [
        user("go"),
        calls("a", "b"),
        ToolResultMessage("a", (TextBlock("A"), image)),
        result("b", "B"),
    ]
    asked = request(messages, load_blob=lambda sha256: b"png", stable=2)
    first = json.loads(encoder.body(asked))["messages"]
    assert [message["role"] for message in first] == ["user", "assistant", "tool", "tool", "user"]
    assert first[4]["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")
    before = encoder.encoded_messages
    messages += [AssistantMessage((TextBlock("I see."),)), user("on")]
    second = json.loads(encoder.body(replace(asked, stable=5)))["messages"]
    assert second[: len(first)] == first
    assert encoder.encoded_messages - before <= 4


def test_no_more_than_one_system_message_and_blank_texts_are_left_out() -> None:
    body = json.loads(
        ChatEncoder(ChatQuirks()).body(request([UserMessage((TextBlock(" "), TextBlock("x")))], system=SYSTEM))
    )
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["messages"][1]["content"] == "x"

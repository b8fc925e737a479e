import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from providers.assembler import Assembler
from providers.base import ListedModel
from providers.errors import (
    ProtocolError,
    StreamBrokenError,
)
from providers.openai_responses import OpenAIResponses
from providers.types import (
    AssistantMessage,
    Completed,
    OpaqueBlock,
    ProviderConfig,
    StopReason,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ToolCall,
    ToolCallFinished,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from tests.fakes.model_server import Chunk, ModelServer, Reply, json_reply, pieces, stream_reply
from tests.fakes.responses_wire import MODELS, RESPONSES, ResponseStream, sse
from tests.providers.responses_client import MODEL, collect, failure, fold, request


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
    async with asyncio.timeout(40):
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


@pytest.mark.parametrize("odd", ["NaN", "Infinity", "1e999", "-5", '"many"', "null", "true", "{}"])
async def test_B7_an_odd_figure_in_a_report_loses_no_reply(
    server: ModelServer, provider: OpenAIResponses, odd: str
) -> None:
    usage = f'{{"input_tokens": {odd}, "output_tokens": 7.0, "input_tokens_details": {{"cached_tokens": {odd}}}}}'
    final = f'data: {{"type": "response.completed", "response": {{"usage": {usage}}}}}\n\n'
    server.responses.stream(ResponseStream().text("hi").raw(final.encode()))
    reply = await fold(provider)
    assert (reply.blocks(), reply.usage) == ((TextBlock("hi"),), Usage(output_tokens=7))


async def test_T89_a_character_cut_between_two_pieces_of_arguments_is_one_character(
    server: ModelServer, provider: OpenAIResponses
) -> None:
    stream = ResponseStream()
    stream.add(
        "response.output_item.added", output_index=0, item={"type": "function_call", "call_id": "c", "name": "bash"}
    )
    for piece in (b'{\\"a\\":\\"\\ud83d', b'\\ude00\\"}'):
        stream.raw(b'data: {"type":"response.function_call_arguments.delta","output_index":0,"delta":"%s"}\n\n' % piece)
    stream.add("response.output_item.done", output_index=0, item={"type": "function_call"})
    server.responses.stream(stream.add("response.completed", response={}))
    assert (await fold(provider)).blocks() == (ToolCall("c", "bash", '{"a":"\U0001f600"}'),)


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

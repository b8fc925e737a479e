import json
from typing import Any

import pytest

from providers.anthropic_decoding import AnthropicDecoder
from providers.assembler import Assembler
from providers.errors import (
    AuthenticationError,
    BadRequestError,
    ContextOverflowError,
    OverloadedError,
    ProtocolError,
    ProviderError,
    RateLimitedError,
    ServerError,
)
from providers.sse import SseDecoder
from providers.types import (
    Completed,
    OpaqueBlock,
    Ping,
    StopReason,
    StreamEvent,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from tests.fakes.anthropic_wire import MessageStream, sse


def decoded(data: bytes, size: int = 1 << 20) -> list[StreamEvent]:
    reader, decoder = SseDecoder(), AnthropicDecoder("claude-x")
    found: list[StreamEvent] = []
    for start in range(0, len(data), size):
        found += decoder.feed(reader.feed(data[start : start + size]))
        if decoder.failure is not None:
            raise decoder.failure
    return found


def folded(stream: MessageStream, size: int = 1 << 20) -> Assembler:
    assembler = Assembler()
    for event in decoded(stream.data, size):
        assembler.feed(event)
    return assembler


def rich_stream() -> MessageStream:
    usage = {"input_tokens": 12, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 2_000}
    final = {"output_tokens": 77, "output_tokens_details": {"thinking_tokens": 30}}
    return (
        MessageStream(usage=usage)
        .ping()
        .thinking("Let me see: grüße 😀", "c2ln")
        .redacted_thinking("c2VjcmV0")
        .text("I look.\u2028Then ")
        .text("I read.")
        .tool("read", {"path": "größe.py"}, "t1")
        .tool("ls", {}, "t2")
        .stop("tool_use", final)
    )


RICH_BLOCKS = (
    ThinkingBlock("Let me see: grüße 😀", "c2ln"),
    OpaqueBlock("anthropic", "claude-x", {"type": "redacted_thinking", "data": "c2VjcmV0"}),
    TextBlock("I look.\u2028Then "),
    TextBlock("I read."),
    ToolCall("t1", "read", '{"path": "gr\\u00f6\\u00dfe.py"}'),
    ToolCall("t2", "ls", "{}"),
)


@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
def test_T81_a_recorded_stream_gives_its_blocks_however_it_is_cut(size: int) -> None:
    assembler = folded(rich_stream(), size)
    assert assembler.blocks() == RICH_BLOCKS
    assert assembler.usage == Usage(12, 2_000, 100, 77, 30)
    assert (assembler.completed, assembler.stop_reason, assembler.detail) == (True, "tool_use", "")


def test_what_one_batch_adds_to_a_block_is_one_delta() -> None:
    long = "x" * 1_000
    events = decoded(MessageStream().thinking(long).text(long).tool("t", {"a": long}, "t1").stop().data)
    deltas = [event for event in events if isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta)]
    assert deltas == [ThinkingDelta(long), TextDelta(long), ToolCallDelta(f'{{"a": "{long}"}}')]


def test_a_batch_without_an_event_is_a_sign_of_life() -> None:
    decoder = AnthropicDecoder("claude-x")
    assert decoder.feed([]) == [Ping()]
    assert decoder.feed([("ping", b'{"type": "ping"}')]) == [Ping()]
    assert decoder.feed([("new_thing", b'{"type": "new_thing", "delta": "text"}')]) == [Ping()]
    assert decoder.feed([("", b'{"type": "new_thing", "delta": "text"}'), ("log", b"plain words")]) == [Ping()]


def test_nothing_behind_the_end_of_the_message_counts() -> None:
    data = MessageStream().text("a").stop().data
    assert decoded(data + MessageStream().text("b").stop().data) == decoded(data)


@pytest.mark.parametrize(
    ("wire", "reason", "detail"),
    [
        ("end_turn", "end_turn", ""),
        ("tool_use", "tool_use", ""),
        ("max_tokens", "max_tokens", ""),
        ("stop_sequence", "stop_sequence", ""),
        ("pause_turn", "pause_turn", ""),
        ("refusal", "refusal", ""),
        ("model_context_window_exceeded", "context_window_exceeded", ""),
        ("tired", "unknown", "tired"),
        (None, "unknown", "no stop reason was given"),
    ],
)
def test_T84_every_stop_reason(wire: str | None, reason: StopReason, detail: str) -> None:
    last = decoded(MessageStream().text("a").stop(wire, {"output_tokens": 3}).data)[-1]
    assert last == Completed(reason, Usage(25, output_tokens=3), detail)


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({"type": "refusal", "category": "cyber", "explanation": "not that"}, "not that"),
        ({"type": "refusal", "category": "cyber", "explanation": None}, "cyber"),
        (None, ""),
    ],
)
def test_T84_a_refusal_says_why(details: Any, expected: str) -> None:
    last = decoded(MessageStream().stop("refusal", stop_details=details).data)[-1]
    assert isinstance(last, Completed)
    assert (last.stop_reason, last.detail) == ("refusal", expected)


def test_T84_e_a_call_cut_by_the_limit_is_unfinished() -> None:
    assembler = folded(MessageStream().text("a").tool("read", '{"path": "a', "t1").stop("max_tokens"))
    assert assembler.blocks() == (TextBlock("a"), ToolCall("t1", "read", '{"path": "a', finished=False))


@pytest.mark.parametrize("usage", [{"input_tokens": 0, "output_tokens": 5}, {"output_tokens": 5, "input_tokens": None}])
def test_B5_a_last_report_that_says_less_takes_nothing_back(usage: dict[str, Any]) -> None:
    start = {"input_tokens": 100, "cache_read_input_tokens": 60_000, "cache_creation_input_tokens": 500}
    assembler = folded(MessageStream(usage=start).text("a").stop("end_turn", usage))
    assert assembler.usage == Usage(100, 60_000, 500, 5)


@pytest.mark.parametrize("odd", ["NaN", "Infinity", "1e999", "-5", '"many"', "null", "true", "{}"])
def test_B7_an_odd_figure_in_a_report_loses_no_reply(odd: str) -> None:
    report = f'"input_tokens": {odd}, "cache_read_input_tokens": 7.0, "output_tokens_details": {odd}'
    data = (
        MessageStream().text("hi").data
        + (
            f'data: {{"type": "message_delta", "delta": {{"stop_reason": "end_turn"}}, "usage": {{{report}}}}}\n\n'
            'data: {"type": "message_stop"}\n\n'
        ).encode()
    )
    decoder = AnthropicDecoder("claude-x")
    last = decoder.feed(SseDecoder().feed(data))[-1]
    assert isinstance(last, Completed)
    assert decoder.failure is None
    assert last.usage.cache_read_tokens == 7
    assert last.usage.input_tokens >= 0


def test_B7_a_server_that_reports_only_at_the_end_is_heard() -> None:
    start = {"input_tokens": 0, "output_tokens": 0}
    assembler = folded(MessageStream(usage=start).text("a").stop("end_turn", {"input_tokens": 9, "output_tokens": 5}))
    assert assembler.usage == Usage(9, output_tokens=5)


def test_withheld_thinking_keeps_its_signature() -> None:
    assert folded(MessageStream().thinking("", "c2ln").text("a").stop()).blocks()[0] == ThinkingBlock("", "c2ln")


def test_blocks_that_must_go_back_are_kept_whole_and_unknown_ones_are_passed_over() -> None:
    used = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"title": "x"}]}
    pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in ('{"query": ', '"x"}')]
    stream = (
        MessageStream()
        .text("a")
        .block(used, pieces)
        .block(found)
        .block({"type": "hologram", "depth": 3}, [{"type": "hologram_delta", "voxel": 1}])
        .text("b")
        .block({"type": "hologram"})
        .text("c")
        .stop()
    )
    assert folded(stream).blocks() == (
        TextBlock("a"),
        OpaqueBlock("anthropic", "claude-x", {**used, "input": {"query": "x"}}),
        OpaqueBlock("anthropic", "claude-x", found),
        TextBlock("b"),
        TextBlock("c"),
    )


def test_servers_that_are_less_exact_are_understood() -> None:
    data = b"".join(
        (
            sse("", {"type": "message_start", "message": {"usage": {"input_tokens": 3}}}).replace(b"event: \n", b""),
            # No start of the text block, whole input in the start of the call, no end of it.
            sse("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "hi"}}),
            sse(
                "content_block_start",
                {"index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "read", "input": {"path": "a"}}},
            ),
            sse("message_delta", {"delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}}),
            sse("message_stop", {}),
            b"data: [DONE]\n\n",
        )
    )
    assembler = Assembler()
    for event in decoded(data):
        assembler.feed(event)
    assert assembler.blocks() == (TextBlock("hi"), ToolCall("t", "read", '{"path":"a"}'))
    assert assembler.usage == Usage(3, output_tokens=2)


def test_T89_a_character_cut_between_two_deltas_is_one_character() -> None:
    halves = [{"type": "text_delta", "text": half} for half in ("a\ud83d", "\ude00b", "\ud83d")]
    stream = MessageStream()
    for event in (
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": half} for half in halves),
        {"type": "content_block_stop", "index": 0},
    ):
        stream.raw(b"data: " + json.dumps(event).encode() + b"\n\n")
    assert folded(stream.stop()).blocks() == (TextBlock("a😀b\ufffd"),)


@pytest.mark.parametrize(
    ("kind", "message", "expected", "retryable"),
    [
        ("overloaded_error", "Overloaded", OverloadedError, True),
        ("api_error", "Internal server error", ServerError, True),
        ("rate_limit_error", "slow down", RateLimitedError, True),
        ("authentication_error", "expired", AuthenticationError, False),
        ("invalid_request_error", "no", BadRequestError, False),
        ("invalid_request_error", "prompt is too long: 9 tokens > 5 maximum", ContextOverflowError, False),
        ("new_error", "?", ServerError, True),
    ],
)
def test_T82_B10_an_error_event_is_classified_and_keeps_its_words(
    kind: str, message: str, expected: type[ProviderError], retryable: bool
) -> None:
    with pytest.raises(expected) as caught:
        decoded(MessageStream().text("a").error(kind, message).data)
    assert type(caught.value) is expected
    assert (caught.value.message, caught.value.retryable) == (message, retryable)
    assert caught.value.request_id == "req_fake"


@pytest.mark.parametrize(
    "line",
    [
        b'event: content_block_delta\ndata: {"type": "content_block_de\n\n',
        b"event: message_delta\ndata: \n\n",
        b"data: hello\n\n",
        b"data: [1]\n\n",
        b"data: null\n\n",
        b'data: {"type": ["content_block_delta"]}\n\n',
        b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": "x"}\n\n',
        b'event: message_start\ndata: {"type": "message_start", "message": ' + b"[" * 100_000 + b"\n\n",
        b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"\xff"}}\n\n',
    ],
)
def test_T82_a_line_that_cannot_be_read_is_an_error_that_shows_it(line: bytes) -> None:
    with pytest.raises(ProtocolError, match="cannot be read"):
        decoded(MessageStream().text("a").raw(line).data)


@pytest.mark.parametrize("bad", [sse("error", {"type": "error"}), b"data: {oops\n\n"])
def test_T79_what_stood_before_a_failure_in_the_same_batch_is_kept(bad: bytes) -> None:
    decoder = AnthropicDecoder("claude-x")
    data = MessageStream().text("half", piece_chars=1).data
    events = decoder.feed(SseDecoder().feed(data.replace(b"event: content_block_stop", bad + b"event: ping")))
    assert TextDelta("half") in events
    assert decoder.failure is not None


def test_blocks_that_interleave_are_an_error_and_never_mixed() -> None:
    stream = MessageStream().tool("read", "{", "t1", close=False)
    delta = {"type": "content_block_delta", "index": 7, "delta": {"type": "input_json_delta", "partial_json": "}"}}
    with pytest.raises(ProtocolError, match="block 7"):
        decoded(stream.raw(sse("content_block_delta", delta)).data)

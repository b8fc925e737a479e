import pytest

from providers.assembler import Assembler
from providers.types import (
    Completed,
    OpaqueBlock,
    OpaqueReceived,
    Ping,
    StopReason,
    StreamEvent,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ThinkingFinished,
    ToolCall,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
    Usage,
    UsageReported,
)

OPAQUE = OpaqueBlock("anthropic", "claude-x", {"type": "redacted_thinking", "data": "abc"})
USAGE = Usage(10, 20, 30, 40, 5)


def folded(*events: StreamEvent) -> Assembler:
    assembler = Assembler()
    for event in events:
        assembler.feed(event)
    return assembler


def call(call_id: str, *fragments: str, name: str = "read") -> list[StreamEvent]:
    return [ToolCallStarted(call_id, name), *map(ToolCallDelta, fragments), ToolCallFinished()]


def test_a_whole_reply_is_folded_into_its_blocks() -> None:
    assembler = folded(
        UsageReported(Usage(10, output_tokens=1)),
        ThinkingDelta("let "),
        ThinkingDelta("me see"),
        ThinkingFinished("sig"),
        OpaqueReceived(OPAQUE),
        Ping(),
        TextDelta("I "),
        TextDelta("read."),
        TextDelta("Then", opens_block=True),
        *call("t1", '{"path"', ': "a"}'),
        *call("t2", "ignored", name="grep")[:-1],
        ToolCallFinished('{"pattern": "x"}'),
        Completed("tool_use", USAGE),
    )
    assert assembler.blocks() == (
        ThinkingBlock("let me see", "sig"),
        OPAQUE,
        TextBlock("I read."),
        TextBlock("Then"),
        ToolCall("t1", "read", '{"path": "a"}'),
        ToolCall("t2", "grep", '{"pattern": "x"}'),
    )
    assert (assembler.completed, assembler.stop_reason, assembler.usage) == (True, "tool_use", USAGE)
    assert assembler.blocks(finished_only=True) == assembler.blocks()


def test_a_new_reply_is_empty() -> None:
    assembler = folded(Ping(), UsageReported(USAGE))
    assert assembler.empty
    assert assembler.blocks() == ()
    assert (assembler.completed, assembler.stop_reason, assembler.usage) == (False, None, USAGE)


def test_T79_a_cut_reply_keeps_its_text_and_marks_its_call_unfinished() -> None:
    assembler = folded(TextDelta("I will"), *call("t1", '{"a": 1}'), *call("t2", '{"pa')[:-1])
    assert assembler.blocks() == (
        TextBlock("I will"),
        ToolCall("t1", "read", '{"a": 1}'),
        ToolCall("t2", "read", '{"pa', finished=False),
    )
    assert assembler.blocks(finished_only=True) == (TextBlock("I will"), ToolCall("t1", "read", '{"a": 1}'))
    assert not assembler.completed


def test_T79_a_cut_thinking_block_is_unsigned_and_not_finished() -> None:
    assembler = folded(ThinkingDelta("so far"))
    assert assembler.blocks() == (ThinkingBlock("so far", None),)
    assert assembler.blocks(finished_only=True) == ()


def test_withheld_thinking_keeps_its_signature() -> None:
    assembler = folded(ThinkingFinished("sig"), ThinkingFinished(None), TextDelta("hi"), Completed("end_turn", USAGE))
    assert assembler.blocks() == (ThinkingBlock("", "sig"), TextBlock("hi"))


@pytest.mark.parametrize("reason", ["max_tokens", "context_window_exceeded"])
@pytest.mark.parametrize("arguments", ["", '{"path": "a', "null", "[1]", '{"a": 1} x'])
def test_T84_B8_a_call_that_the_limit_cut_is_unfinished_although_its_block_was_closed(
    reason: StopReason, arguments: str
) -> None:
    assembler = folded(*call("t1", "{}"), *call("t2", arguments), Completed(reason, USAGE))
    assert assembler.blocks() == (
        ToolCall("t1", "read", "{}"),
        ToolCall("t2", "read", arguments, finished=False),
    )


def test_T84_a_call_that_is_whole_at_the_limit_stays_whole() -> None:
    assembler = folded(*call("t1", '{"path": "a"}'), Completed("max_tokens", USAGE))
    assert assembler.blocks() == (ToolCall("t1", "read", '{"path": "a"}'),)


@pytest.mark.parametrize("arguments", ['{"a"', "[]", "null", "", "{'a': 1}"])
def test_T83_arguments_stay_as_the_model_wrote_them(arguments: str) -> None:
    assembler = folded(*call("t1", arguments), Completed("tool_use", USAGE))
    assert assembler.blocks() == (ToolCall("t1", "read", arguments),)


def test_T83_deep_arguments_at_the_limit_do_not_crash() -> None:
    deep = '{"a":' * 100_000
    assembler = folded(*call("t1", deep), Completed("max_tokens", USAGE))
    assert assembler.blocks() == (ToolCall("t1", "read", deep, finished=False),)


def test_T85_ids_are_unique_within_a_message_and_never_empty() -> None:
    ids = ["a", "a", "", "", "a_2", "call_1"]
    assembler = folded(*(event for call_id in ids for event in call(call_id, "{}")), Completed("tool_use", USAGE))
    made = [block.id for block in assembler.blocks() if isinstance(block, ToolCall)]
    assert made[0] == "a"
    assert len(set(made)) == len(ids)
    assert all(made)


def test_usage_without_a_last_report_is_the_last_one_before() -> None:
    assembler = folded(UsageReported(USAGE), Completed("end_turn", Usage()))
    assert assembler.usage == USAGE


def test_pieces_outside_of_their_block_are_passed_over() -> None:
    assembler = folded(ToolCallDelta("x"), ToolCallFinished(), TextDelta("a"), ToolCallDelta("x"), TextDelta("b"))
    assert assembler.blocks() == (TextBlock("ab"),)

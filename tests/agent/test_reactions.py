import pytest

from agent.reactions import (
    CONTINUE_TEXT,
    CUT_CALL_TEXT,
    CUT_RESULT,
    EMPTY_TEXT,
    Compact,
    End,
    GoOn,
    Reaction,
    RefuseCalls,
    Resend,
    RunCalls,
    Tried,
    react,
)
from agent.transcript import Assistant
from providers.types import AssistantBlock, StopReason, TextBlock, ThinkingBlock, ToolCall, Usage

TEXT = TextBlock("Done.")
CALL = ToolCall("a", "read", "{}")
OPEN = ToolCall("b", "write", '{"pa', finished=False)


def reply(stop: StopReason, *blocks: AssistantBlock, detail: str = "") -> Assistant:
    return Assistant(blocks, "p", "m", "anthropic", "m", None, Usage(1), stop, detail)


def kind(reaction: Reaction) -> str:
    return reaction.reason if isinstance(reaction, End) else type(reaction).__name__


TABLE: list[tuple[StopReason, tuple[AssistantBlock, ...], str, str]] = [
    # stop reason, blocks, first reaction, reaction when the same comes again
    ("end_turn", (TEXT,), "done", "done"),
    ("stop_sequence", (TEXT,), "done", "done"),
    ("end_turn", (), "GoOn", "no_answer"),
    ("end_turn", (ThinkingBlock("hm", "sig"),), "GoOn", "no_answer"),
    ("end_turn", (TextBlock(" \n"),), "GoOn", "no_answer"),
    ("end_turn", (TEXT, CALL), "RunCalls", "RunCalls"),
    ("tool_use", (CALL,), "RunCalls", "RunCalls"),
    ("tool_use", (TEXT,), "done", "done"),
    ("tool_use", (), "GoOn", "no_answer"),
    ("max_tokens", (TEXT,), "GoOn", "done"),
    ("max_tokens", (TEXT, OPEN), "RefuseCalls", "done"),
    ("max_tokens", (CALL, OPEN), "RefuseCalls", "RefuseCalls"),
    ("refusal", (TEXT,), "refusal", "refusal"),
    ("refusal", (CALL,), "refusal", "refusal"),
    ("context_window_exceeded", (TEXT,), "Compact", "context_full"),
    ("unknown", (TEXT,), "done", "done"),
    ("unknown", (CALL,), "RunCalls", "RunCalls"),
    ("unknown", (OPEN,), "GoOn", "no_answer"),
]


@pytest.mark.parametrize(("stop", "blocks", "first", "again"), TABLE)
def test_every_stop_reason_has_a_reaction_and_no_loop_T84(
    stop: StopReason, blocks: tuple[AssistantBlock, ...], first: str, again: str
) -> None:
    tried = Tried()
    assert kind(react(reply(stop, *blocks), tried)) == first
    assert kind(react(reply(stop, *blocks), tried)) == again


def test_a_pause_is_sent_again_five_times_at_most() -> None:
    tried = Tried()
    for _ in range(5):
        assert react(reply("pause_turn", TEXT), tried) == Resend()
    assert isinstance(last := react(reply("pause_turn", TEXT), tried), End)
    assert last.reason == "done" and "paused" in last.warning


def test_a_cut_reply_is_continued_once_with_a_larger_cap_C5() -> None:
    tried = Tried()
    assert react(reply("max_tokens", TEXT), tried) == GoOn(CONTINUE_TEXT, larger_cap=True)
    second = react(reply("max_tokens", TEXT), tried)
    assert isinstance(second, End) and "output limit" in second.warning


def test_cut_arguments_are_never_run_and_finished_calls_beside_them_are_refused() -> None:
    assert react(reply("max_tokens", CALL, OPEN), Tried()) == RefuseCalls((CALL,), CUT_RESULT, CUT_CALL_TEXT)
    assert react(reply("end_turn", OPEN), Tried()) == GoOn(EMPTY_TEXT)
    assert react(reply("unknown", CALL, OPEN, detail="odd"), Tried()) == RunCalls(
        (CALL,), "The provider ended the reply for a reason that claw does not know (odd)."
    )


def test_a_full_window_is_compacted_once() -> None:
    tried = Tried()
    assert react(reply("context_window_exceeded", TEXT), tried) == Compact()
    assert isinstance(react(reply("context_window_exceeded", TEXT), tried), End)

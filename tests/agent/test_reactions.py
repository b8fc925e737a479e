from collections.abc import Callable

import pytest

from agent.reactions import (
    BROKEN_TEXT,
    CONTINUE_TEXT,
    CUT_CALL_TEXT,
    CUT_RESULT,
    EMPTY_TEXT,
    MAX_CUT_CALLS,
    MAX_PAUSES,
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
from providers.assembler import Assembler
from providers.base import ModelRequest
from providers.errors import ProviderError, StreamBrokenError
from providers.registry import create
from providers.sdk_adapter import SdkAdapter
from providers.sse import SseDecoder
from providers.types import (
    AssistantBlock,
    OpaqueBlock,
    ProviderConfig,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
    WireApi,
)
from tests.fakes.pens import PENS, Pen, Stop

TEXT = TextBlock("Done.")
CALL = ToolCall("a", "read", "{}")
SEARCH = OpaqueBlock("anthropic", "m", {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})
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


@pytest.mark.parametrize(("blocks", "again"), [((TEXT, SEARCH), Resend()), ((TEXT,), GoOn(BROKEN_TEXT))])
def test_T84_a_pause_is_gone_on_with_five_times_at_most(blocks: tuple[AssistantBlock, ...], again: Reaction) -> None:
    tried = Tried()
    for _ in range(5):
        assert react(reply("pause_turn", *blocks), tried) == again
    assert isinstance(last := react(reply("pause_turn", *blocks), tried), End)
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


# --------------------------------------------------------------------------- what each API says, and what comes of it

APIS: tuple[WireApi, ...] = ("anthropic", "responses", "chat")
WRITTEN: dict[str, Callable[[Pen], Pen]] = {
    "nothing": lambda pen: pen,
    "text": lambda pen: pen.text("So it is."),
    "blanks": lambda pen: pen.text(" \n"),
    "thinking": lambda pen: pen.thinking("Let me see."),
    "a call": lambda pen: pen.text("I look.").call("read", {"path": "a"}),
    "half a call": lambda pen: pen.text("I look.").half("read", '{"pa'),
    "a search": lambda pen: pen.text("I search.").served(),
}
WIRE_TABLE: list[tuple[Stop, str, dict[WireApi, tuple[str, str]]]] = [
    # what the server says, what it wrote before → for each API the reaction, and that when the same comes again
    ("done", "nothing", dict.fromkeys(APIS, ("GoOn", "no_answer"))),
    ("done", "text", dict.fromkeys(APIS, ("done", "done"))),
    ("done", "blanks", dict.fromkeys(APIS, ("GoOn", "no_answer"))),
    ("done", "thinking", dict.fromkeys(APIS, ("GoOn", "no_answer"))),
    ("done", "a call", dict.fromkeys(APIS, ("RunCalls", "RunCalls"))),
    ("sequence", "text", dict.fromkeys(APIS, ("done", "done"))),
    ("calls", "nothing", dict.fromkeys(APIS, ("GoOn", "no_answer"))),
    ("calls", "text", dict.fromkeys(APIS, ("done", "done"))),
    ("calls", "a call", dict.fromkeys(APIS, ("RunCalls", "RunCalls"))),
    ("cut", "nothing", dict.fromkeys(APIS, ("GoOn", "done"))),
    ("cut", "text", dict.fromkeys(APIS, ("GoOn", "done"))),
    ("cut", "thinking", dict.fromkeys(APIS, ("GoOn", "done"))),
    ("cut", "half a call", dict.fromkeys(APIS, ("RefuseCalls", "done"))),
    ("cut", "a call", {**dict.fromkeys(APIS, ("RefuseCalls", "RefuseCalls")), "chat": ("RefuseCalls", "done")}),
    ("refused", "nothing", dict.fromkeys(APIS, ("refusal", "refusal"))),
    ("refused", "text", dict.fromkeys(APIS, ("refusal", "refusal"))),
    ("refused", "a call", dict.fromkeys(APIS, ("refusal", "refusal"))),
    ("paused", "a search", {**dict.fromkeys(APIS, ("done", "done")), "anthropic": ("Resend", "Resend")}),
    ("paused", "text", {**dict.fromkeys(APIS, ("done", "done")), "anthropic": ("GoOn", "GoOn")}),
    ("full", "text", dict.fromkeys(APIS, ("Compact", "context_full"))),
    # Where nothing closes a call, one at the end of a full window may be half of one.
    ("full", "a call", {**dict.fromkeys(APIS, ("RunCalls", "RunCalls")), "chat": ("Compact", "context_full")}),
    ("odd", "nothing", dict.fromkeys(APIS, ("GoOn", "no_answer"))),
    ("odd", "text", dict.fromkeys(APIS, ("done", "done"))),
    ("odd", "a call", dict.fromkeys(APIS, ("RunCalls", "RunCalls"))),
    ("none", "nothing", dict.fromkeys(APIS, ("GoOn", "no_answer"))),
    ("none", "text", dict.fromkeys(APIS, ("done", "done"))),
    ("none", "a call", {**dict.fromkeys(APIS, ("RunCalls", "RunCalls")), "chat": ("broken", "broken")}),
]


def said(api: WireApi, stop: Stop, written: str) -> Assistant | ProviderError:
    """The reply as the adapter of `api` reads it from the wire."""
    adapter = create(ProviderConfig("p", api, "http://127.0.0.1:9"))
    assert isinstance(adapter, SdkAdapter)
    decoder = adapter.decoder(ModelRequest("m", (), (), [], 0, 0, 100))
    assembler = Assembler()
    events = decoder.feed(SseDecoder().feed(WRITTEN[written](PENS[api]("m")).stop(stop).data))
    for event in [*events, *decoder.end()]:
        assembler.feed(event)
    if decoder.failure is not None:
        return decoder.failure
    assert assembler.completed and assembler.stop_reason is not None
    return reply(assembler.stop_reason, *assembler.blocks(), detail=assembler.detail)


@pytest.mark.parametrize("api", APIS)
def test_T84_every_row_of_the_table_of_stops_has_its_reaction_on_every_wire(api: WireApi) -> None:
    for stop, written, expected in WIRE_TABLE:
        tried, found = Tried(), said(api, stop, written)
        if isinstance(found, ProviderError):
            assert isinstance(found, StreamBrokenError) and found.retryable
            reactions = ("broken", "broken")
        else:
            reactions = (kind(react(found, tried)), kind(react(found, tried)))
        assert reactions == expected[api], (stop, written)


@pytest.mark.parametrize("api", APIS)
def test_T84_whatever_stops_a_reply_no_turn_goes_on_for_ever(api: WireApi) -> None:
    for stop, written, expected in WIRE_TABLE:
        if "RunCalls" in expected[api] or "broken" in expected[api]:
            continue
        tried = Tried()
        found = said(api, stop, written)
        assert isinstance(found, Assistant)
        reactions = [react(found, tried) for _ in range(MAX_PAUSES + MAX_CUT_CALLS + 2)]
        assert isinstance(reactions[-1], End), (stop, written)

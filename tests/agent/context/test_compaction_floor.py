import pytest
from msgspec.structs import replace

from agent.context.compaction import Draft, Span, Trigger, floor_tokens, prepare
from agent.context.tokens import Counter
from agent.transcript import InstructionFile, Pin, Prefix
from providers.types import PromptSection, ToolSpec, Usage
from tests.agent.context.compaction_kit import Model, commit, compacted, full, only_text, refused
from tests.agent.context.talk import TOOLS, Talk, texts


@pytest.mark.parametrize("trigger", ["auto", "overflow", "manual"])
async def test_B1_a_floor_over_the_trigger_makes_no_call_and_names_what_fills_it(
    o200k: Counter, trigger: Trigger
) -> None:
    talk = Talk(o200k)
    rules = "always write tests for negative numbers\n" * 1_000
    talk.append(
        Prefix(
            (PromptSection("identity", "You are claw.", True), PromptSection("instructions", rules, False)),
            TOOLS,
            (InstructionFile("/p/CLAUDE.md", "0" * 64, 7_000, "project"),),
        )
    )
    talk.user("hello")
    talk.reply("hi", usage=Usage(7_500, 0, 0, 5))
    model = Model()
    outcome = await refused(talk.inputs(trigger), model)
    assert model.requests == []
    assert outcome.failed
    assert outcome.final
    assert "instructions 7," in outcome.reason
    assert "instruction file /p/CLAUDE.md 7,000" in outcome.reason
    assert "--no-instructions" in outcome.remedy


async def test_B1_a_newest_message_over_the_trigger_makes_no_automatic_call() -> None:
    talk = full(turns=3)
    talk.user("paste " * 5_000)
    model = Model()
    outcome = await refused(talk.inputs(), model)
    assert "the newest message with its results" in outcome.reason
    assert model.requests == []
    assert not outcome.final  # a later one may be smaller
    assert f"/compact from {talk.branch[-1].key}" in outcome.remedy


async def test_B13_a_newest_result_larger_than_the_window_can_be_summarised_by_hand() -> None:
    talk = full(turns=3)
    ids = tuple(f"c{n}" for n in range(8))
    start = talk.reply("read it all", ids)
    for call_id in ids:
        talk.result(call_id, "word " * 1_500)
    assert f"/compact from {start}" in (await refused(talk.inputs(), Model())).remedy
    model = Model()
    commit(talk, await compacted(replace(talk.inputs("manual"), span=Span(first_replaced=start)), model))
    assert talk.meter.used().tokens < talk.inputs().thresholds.trigger
    assert all(talk.meter.count(only_text(request)) + request.max_tokens <= 8_192 for request in model.requests)


# --------------------------------------------------------------------------- pins and long requests


async def test_pins_are_part_of_the_floor_and_are_named_where_they_fill_it() -> None:
    talk = full(turns=3)
    talk.append(Pin(path="rules.md", text="rule " * 5_000))
    model = Model()
    outcome = await refused(talk.inputs(), model)
    assert model.requests == []
    assert "pins 6,2" in outcome.reason
    assert "npin something" in outcome.remedy
    assert not outcome.final  # unpinning helps
    before = floor_tokens(talk.inputs())
    talk.append(Pin(text="one more " * 400))
    assert floor_tokens(talk.inputs()) - before > 800


async def test_the_room_is_what_pins_leave() -> None:
    talk = full(turns=12)
    free = prepare(talk.inputs())
    talk.append(Pin(text="rule " * 800))
    pinned = prepare(talk.inputs())
    assert isinstance(free, Draft)
    assert isinstance(pinned, Draft)
    assert 1_000 <= free.room_tokens - pinned.room_tokens <= 1_030
    assert pinned.output_cap < free.output_cap


async def test_tools_of_mcp_servers_are_named_one_by_one() -> None:
    talk = Talk()
    schema = {"type": "object", "properties": {f"argument_{n}": {"type": "string"} for n in range(800)}}
    tools = (*TOOLS, ToolSpec("mcp__tracker__search", "Searches.", schema))
    talk.append(Prefix((PromptSection("identity", "You are claw.", True),), tools))
    talk.user("hello")
    outcome = await refused(talk.inputs(), Model())
    assert "tools of MCP server tracker " in outcome.reason
    assert "emove the MCP server tracker" in outcome.remedy


async def test_B1_a_request_in_progress_that_fills_the_window_makes_no_call() -> None:
    talk = full(turns=2)
    talk.user("REQUEST " + "word " * 4_300)
    for step in range(6):
        talk.step(f"s{step}", "word " * 60)
    model = Model()
    outcome = await refused(talk.inputs(), model)
    assert model.requests == []
    assert "your request in progress 5,3" in outcome.reason
    assert not outcome.final
    assert "take the request back" in outcome.remedy.lower()


async def test_B2_a_long_request_in_progress_gets_the_room_that_the_tail_would_have() -> None:
    talk = full(turns=2)
    request = "REQUEST " + "word " * 3_400
    talk.user(request)
    for step in range(4):
        talk.step(f"s{step}", "word " * 420)
    outcome = await compacted(talk.inputs(), Model("ok"))
    commit(talk, outcome)
    assert talk.meter.used().tokens < talk.inputs().thresholds.trigger
    assert request in texts(talk.window)
    assert len(talk.window.messages) == 3  # the summary, and the newest reply with its result


@pytest.mark.parametrize("window", [8_192, 32_768])
async def test_small_windows_are_compacted_below_their_trigger(window: int) -> None:
    talk = Talk(system="You are claw. " * 600)  # about 2,100 tokens, as a real prefix has
    limits = talk.inputs(window=window).thresholds
    while talk.meter.used().tokens < limits.trigger:
        full(talk, turns=1)
    floor = talk.meter.floor_tokens
    commit(talk, await compacted(talk.inputs(window=window)))
    freed = limits.trigger - talk.meter.used().tokens
    assert freed > (limits.trigger - floor) // 3

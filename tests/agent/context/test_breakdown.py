from hypothesis import given, settings

from agent.context.breakdown import Part, breakdown, fixed_tokens
from agent.context.meter import Meter
from agent.context.tokens import Counter
from agent.transcript import Compaction, InstructionFile, Pin, Prefix, Reminder, Transcript, User
from agent.window import Window
from providers.types import ImageBlock, PromptSection, TextBlock, ThinkingBlock, ToolCall, ToolSpec, Usage
from tests.agent.context.talk import TOOLS, Talk
from tests.agent.strategies import transcripts


def by_kind(parts: list[Part]) -> dict[tuple[str, str], Part]:
    return {(part.kind, part.name): part for part in parts}


def test_every_part_of_the_request_has_its_row_and_they_sum_up_to_the_gauge(o200k: Counter) -> None:
    talk = Talk(o200k)
    sections = (PromptSection("identity", "You are claw.", True), PromptSection("instructions", "rule " * 50, False))
    talk.append(Prefix(sections, TOOLS))
    compaction = talk.append(Compaction("history " * 40, "s", 5, "auto", 10, 5))
    user = talk.user("fix it")
    reminder = talk.append(Reminder("date", "It is Monday."))
    reply = talk.reply("look", ("r1", "b1"), extra=(ThinkingBlock("hm " * 60, "sig"),))
    result = talk.result("r1", "line " * 100)
    talk.command("b1", "ls", 0, "a\nb")
    rows = by_kind(breakdown(talk.window, talk.meter))
    assert list(rows) == [
        ("system", "identity"),
        ("instructions", "instructions"),
        ("tools", "read"),
        ("summary", ""),
        ("user", ""),
        ("reminders", ""),
        ("assistant", ""),
        ("thinking", ""),
        ("tool_results", "read a"),
    ]
    assert rows["summary", ""].entries == (compaction.key,)
    assert rows["user", ""].entries == (user,)
    assert rows["reminders", ""].entries == (reminder.key,)
    assert rows["thinking", ""].entries == rows["assistant", ""].entries == (reply,)
    assert rows["tool_results", "read a"].entries == (result, result + 1)
    assert rows["instructions", "instructions"].tokens == 51
    assert sum(part.tokens for part in rows.values()) == talk.meter.used().tokens
    talk.reply("done", usage=Usage(5_000, 0, 0, 10))
    after = breakdown(talk.window, talk.meter)
    assert sum(part.tokens for part in after) == 5_010
    assert by_kind(after)["instructions", "instructions"].tokens > 51


def test_instruction_files_mcp_tools_images_pins_and_every_summary_have_rows_of_their_own(o200k: Counter) -> None:
    talk = Talk(o200k)
    text = "rule " * 300
    sections = (PromptSection("identity", "You are claw.", True), PromptSection("instructions", text, False))
    files = (InstructionFile("/p/AGENTS.md", "", 100, "project"), InstructionFile("config", "", 200, "config"))
    mcp = ToolSpec("mcp__issues__list", "Lists issues.", {"type": "object"})
    talk.append(Prefix(sections, (*TOOLS, mcp), files))
    talk.user("first")
    picture = talk.append(User((TextBlock("look"), ImageBlock("image/png", "ab" * 32, 1_500, 1_000)))).key
    kept = talk.user("kept")
    inner = talk.append(Compaction("later part", "s", 0, "manual", 9, 5, first_replaced=kept)).key
    pin = talk.append(Pin(text="never touch main")).key
    host = talk.user("go on")
    rows = by_kind(breakdown(talk.window, talk.meter))
    assert rows["instructions", "/p/AGENTS.md"].tokens == 100 and rows["instructions", "config"].tokens == 201
    assert ("system", "identity") in rows and ("system", "instructions") not in rows
    assert rows["mcp", "mcp__issues__list"].tokens > 10 and rows["tools", "read"].tokens > 10
    assert rows["images", ""].entries == (picture,) and rows["images", ""].tokens == 1_600
    assert rows["summary", ""].entries == (inner,)
    assert rows["pins", ""].entries == (pin,) and host in rows["user", ""].entries
    assert sum(part.tokens for part in rows.values()) == talk.meter.used().tokens
    assert fixed_tokens(list(rows.values())) == talk.meter.floor_tokens


def test_results_go_by_tool_and_file_however_the_path_is_written() -> None:
    talk = Talk()
    paths = {
        "a": '{"path": "src/a.py"}',
        "b": '{"path":"./src/../src/a.py"}',
        "c": "{not json",
        "d": '{"path": 5}',
        "e": "",
    }
    talk.reply(extra=tuple(ToolCall(call, "edit", arguments) for call, arguments in paths.items()))
    keys = [talk.result(call, "ok", "edit") for call in paths]
    talk.reply(extra=(ToolCall("g", "grep", '{"pattern": "x", "path": "src"}'),))
    keys.append(talk.result("g", "ok", "grep"))
    rows = by_kind(breakdown(talk.window, talk.meter))
    assert rows["tool_results", "edit src/a.py"].entries == tuple(keys[:2])
    assert rows["tool_results", "edit"].entries == tuple(keys[2:5])
    assert rows["tool_results", "grep"].entries == tuple(keys[5:])


@settings(max_examples=15, deadline=None)
@given(transcripts())
def test_the_sum_is_the_gauge_for_any_transcript(transcript: Transcript) -> None:
    window, meter = Window(transcript.branch), Meter(Counter())
    meter.rebuild(transcript.branch, window)
    parts = breakdown(window, meter)
    assert all(part.tokens >= 0 for part in parts)
    assert not parts or sum(part.tokens for part in parts) == meter.used().tokens

from hypothesis import given, settings

from agent.context.breakdown import Part, breakdown
from agent.context.meter import Meter
from agent.context.tokens import Counter
from agent.transcript import Compaction, Prefix, Reminder, Transcript
from agent.window import Window
from providers.types import PromptSection, ThinkingBlock, Usage
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
        ("tool_results", "read"),
    ]
    assert rows["summary", ""].entries == (compaction.key,)
    assert rows["user", ""].entries == (user,)
    assert rows["reminders", ""].entries == (reminder.key,)
    assert rows["thinking", ""].entries == rows["assistant", ""].entries == (reply,)
    assert rows["tool_results", "read"].entries == (result, result + 1)
    assert rows["instructions", "instructions"].tokens == 51
    assert sum(part.tokens for part in rows.values()) == talk.meter.used().tokens
    talk.reply("done", usage=Usage(5_000, 0, 0, 10))
    after = breakdown(talk.window, talk.meter)
    assert sum(part.tokens for part in after) == 5_010
    assert by_kind(after)["instructions", "instructions"].tokens > 51


@settings(max_examples=15, deadline=None)
@given(transcripts())
def test_the_sum_is_the_gauge_for_any_transcript(transcript: Transcript) -> None:
    window, meter = Window(transcript.branch), Meter(Counter())
    meter.rebuild(transcript.branch, window)
    parts = breakdown(window, meter)
    assert all(part.tokens >= 0 for part in parts)
    assert not parts or sum(part.tokens for part in parts) == meter.used().tokens

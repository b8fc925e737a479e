"""Whole turns over both wire APIs: a repair in a real repository, usage and cost, limits."""

import sys

import pytest

from agent.events import GaugeChanged, MessageCompleted, StepStarted, ToolFinished, ToolProgress, TurnEnded
from agent.permissions.approval import Allow, Deny
from agent.tools.built_in import built_in_tools
from agent.tools.details import CommandDetails, DiffDetails, RefusedDetails
from agent.transcript import Assistant, Prefix, Reminder, Result, Setting, User
from providers.types import ToolCall, Usage
from tests.fakes.session_kit import Approver, Desk, git, kinds, make_project

CODE = "def add(a, b):\n    return a - b\n"
FIXED = "def add(a, b):\n    return a + b\n"
TEST = "from calc import add\n\nassert add(2, 3) == 5, add(2, 3)\nprint('ok')\n"
RUN = f"{sys.executable} test_calc.py"


def script_the_repair(desk: Desk) -> None:
    wire = desk.wire
    wire.reply(
        "I look.", tools=[("bash", {"command": RUN}), ("read", {"path": "calc.py"})], usage=Usage(1000, 0, 500, 40)
    )
    edit = {"path": "calc.py", "edits": [{"old": "a - b", "new": "a + b"}]}
    wire.reply(thinking="The sign.", tools=[("edit", edit)], usage=Usage(100, 1500, 50, 60))
    wire.reply(tools=[("bash", {"command": RUN})], usage=Usage(80, 1650, 0, 20))
    wire.reply("Fixed: the sign was wrong.", usage=Usage(70, 1730, 0, 30))


async def test_a_failing_test_is_fixed_through_read_edit_and_bash_with_permission_asked(desk: Desk) -> None:
    make_project(desk.project, {"calc.py": CODE, "test_calc.py": TEST, ".gitignore": "__pycache__\n"})
    git(desk.project, "init", "-q", "-b", "main")
    script_the_repair(desk)
    approver = Approver()
    async with desk.open(approver=approver, mode="ask") as talk:
        ended = await talk.session.prompt("The test fails. Fix it.")
        assert ended == TurnEnded("done")
        assert talk.answer == "Fixed: the sign was wrong."
        assert talk.usage == Usage(1250, 4880, 550, 150)
        gauges = [event.used_tokens for event in talk.of(GaugeChanged)]
        assert len(set(gauges)) >= 4, gauges
        assert talk.session.gauge().used_tokens == 1800 + 30
        cost = (1250 * 3 + 4880 * 0.3 + 550 * 3.75 + 150 * 15) / 1e6
        assert talk.session.gauge().cost_usd == pytest.approx(cost)
    assert (desk.project / "calc.py").read_text() == FIXED

    asked = approver.requests
    assert [request.tool for request in asked] == ["bash", "edit", "bash"]
    assert asked[0].command == RUN
    assert asked[1].diff is not None and "-    return a - b\n+    return a + b" in asked[1].diff
    assert asked[1].paths == (str(desk.project.resolve() / "calc.py"),)

    first, read, edit, again = talk.results
    assert first.is_error and "AssertionError: -1" in first.text and "exit code 1" in first.text
    assert read.text.startswith("1\tdef add(a, b):\n2\t    return a - b")
    assert isinstance(edit.details, DiffDetails) and (edit.details.added, edit.details.removed) == (1, 1)
    assert isinstance(again.details, CommandDetails) and again.details.exit_code == 0
    assert "AssertionError" in "".join(event.text for event in talk.of(ToolProgress))
    assert [event.step for event in talk.of(StepStarted)] == [1, 2, 3, 4]


async def test_the_transcript_on_disk_holds_the_whole_turn_in_order(desk: Desk) -> None:
    make_project(desk.project, {"calc.py": CODE, "test_calc.py": TEST})
    script_the_repair(desk)
    async with desk.open() as talk:
        await talk.session.prompt("The test fails. Fix it.")
    entries = desk.entries()
    assert kinds(entries) == [
        "Setting", "Prefix", "User", "Reminder",
        "Assistant", "Result", "Result",
        "Assistant", "Result",
        "Assistant", "Result",
        "Assistant",
    ]  # fmt: skip
    assert [entry.key for entry in entries] == list(range(1, len(entries) + 1))
    (setting,), (prefix,), (reminder,) = desk.payloads(Setting), desk.payloads(Prefix), desk.payloads(Reminder)
    assert (setting.provider, setting.model, setting.mode) == (desk.wire.provider, desk.wire.model, "auto")
    assert [tool.name for tool in prefix.tools] == [tool.name for tool in built_in_tools()]
    assert reminder.text == "Today is Monday, 2026-11-30."
    results, replies = desk.payloads(Result), desk.payloads(Assistant)
    calls = [block for reply in replies for block in reply.blocks if isinstance(block, ToolCall)]
    assert [result.call_id for result in results] == [call.id for call in calls]
    assert [fact.change for result in results for fact in result.files] == ["read", "edited"]
    assert [reply.usage for reply in replies][-1] == Usage(70, 1730, 0, 30)
    assert [event.key for event in talk.of(MessageCompleted)] == [5, 8, 10, 12]
    assert [event.key for event in talk.results] == [6, 7, 9, 11]


async def test_what_is_sent_is_what_was_said_and_done(desk: Desk) -> None:
    make_project(desk.project, {"calc.py": CODE, "test_calc.py": TEST})
    script_the_repair(desk)
    async with desk.open() as talk:
        await talk.session.prompt("The test fails. Fix it.")
    texts = desk.wire.texts(desk.bodies()[-1])
    assert texts[0] == "The test fails. Fix it."
    assert texts[1] == '<reminder kind="date">\nToday is Monday, 2026-11-30.\n</reminder>'
    said = [text.removeprefix("[This tool call failed]\n") for text in texts[2:]]
    assert said == [result.text for result in talk.results]


async def test_a_refusal_reaches_the_model_with_the_users_words_and_nothing_runs(desk: Desk) -> None:
    desk.wire.reply(tools=[("write", {"path": "a.txt", "content": "x"})])
    desk.wire.reply("Then not.")
    async with desk.open(approver=Approver(Deny("not now")), mode="ask") as talk:
        assert (await talk.session.prompt("write")).reason == "done"
    assert not (desk.project / "a.txt").exists()
    (result,) = talk.results
    assert result.is_error and isinstance(result.details, RefusedDetails)
    assert "not now" in result.text
    assert any("not now" in text for text in desk.wire.texts(desk.bodies()[-1]))


async def test_an_answer_for_the_session_asks_once(one_desk: Desk) -> None:
    desk = one_desk
    for number in range(2):
        desk.wire.reply(tools=[("write", {"path": f"{number}.txt", "content": "x"})])
    desk.wire.reply("Done.")
    approver = Approver(Allow("session"))
    async with desk.open(approver=approver, mode="ask") as talk:
        assert (await talk.session.prompt("write")).reason == "done"
    assert len(approver.requests) == 1
    assert [result.is_error for result in talk.results] == [False, False]


async def test_max_turns_ends_the_turn_between_steps_with_a_valid_window(desk: Desk) -> None:
    for _ in range(2):
        desk.wire.reply(tools=[("glob", {"pattern": "*"})])
    async with desk.open(max_turns=2) as talk:
        ended = await talk.session.prompt("look")
        assert ended.reason == "max_turns" and "--max-turns" in ended.error
    assert len(desk.bodies()) == 2
    desk.wire.reply("Here I am.")
    async with desk.open(talk.path) as later:
        assert (await later.session.prompt("go on")).reason == "done"


async def test_max_cost_stops_before_the_next_call(desk: Desk) -> None:
    desk.wire.reply(tools=[("glob", {"pattern": "*"})], usage=Usage(100_000, 0, 0, 1_000))
    async with desk.open(max_cost=0.30) as talk:
        ended = await talk.session.prompt("look")
    assert ended.reason == "max_cost"
    assert len(desk.bodies()) == 1
    assert len(talk.of(ToolFinished)) == 1


async def test_the_cost_of_a_session_goes_on_after_a_resume(one_desk: Desk) -> None:
    one_desk.wire.reply("One.", usage=Usage(100_000, 0, 0, 0))
    one_desk.wire.reply("Two.", usage=Usage(100_000, 0, 0, 0))
    async with one_desk.open() as talk:
        await talk.session.prompt("a")
    async with one_desk.open(talk.path) as later:
        assert later.session.gauge().cost_usd == pytest.approx(0.3)
        await later.session.prompt("b")
        assert later.session.gauge().cost_usd == pytest.approx(0.6)
    assert [entry.key for entry in one_desk.entries() if isinstance(entry.payload, User)] == [3, 7]

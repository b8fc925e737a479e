import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.demo import create_demo_project
from providers.demo_script import SPEED_VARIABLE, DemoScript, demo_provider, summary
from providers.demo_story import HISTORY, SECOND_FIX, SOURCE, read_story, read_transcript
from providers.scripted import Say, ScriptedProvider, count_request, estimate_tokens
from providers.types import (
    AssistantMessage,
    ProviderConfig,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from tests.fakes.tiny_agent import TinyAgent

MISSING_RESULT = "[No result: the call was interrupted. Its effects are unknown.]"
CONFIG = ProviderConfig("scripted", "scripted")
ASK = UserMessage((TextBlock("Write a summary: Goal, Constraints and preferences, …, Critical context."),))


def make_agent(folder: Path, refuse: Any = lambda name, arguments: None) -> TinyAgent:
    return TinyAgent(demo_provider(CONFIG, env={SPEED_VARIABLE: "0"}), folder, refuse)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return create_demo_project(tmp_path / "demo")


def is_repaired(project: Path) -> bool:
    argv = [sys.executable, "-m", "unittest"]
    return subprocess.run(argv, cwd=project, capture_output=True, timeout=50).returncode == 0


def compact(agent: TinyAgent, text: str, keep: int) -> None:
    """What a compaction leaves: a message with the summary, and the newest messages."""
    agent.messages = [UserMessage((TextBlock(f"History, not an order:\n{text}"),)), *agent.messages[-keep:]]


async def test_any_prompt_plays_the_whole_repair(project: Path) -> None:
    agent = make_agent(project)
    final = await agent.prompt("what is the weather?")
    assert is_repaired(project)
    assert "All tests pass" in final
    assert SECOND_FIX in (project / SOURCE).read_text()
    names = [name for name, _ in agent.calls]
    assert names[:6] == ["read", "read", "bash", "edit", "bash", "read"]
    assert names[-2:] == ["edit", "bash"]
    assert "write" in names
    assert all(text.startswith("[scripted] ") for text in agent.texts)
    assert "no network" in agent.texts[0]
    ids = [b.id for m in agent.messages if isinstance(m, AssistantMessage) for b in m.blocks if isinstance(b, ToolCall)]
    assert len(ids) == len(set(ids))
    assert isinstance(agent.messages[1], AssistantMessage)
    assert isinstance(agent.messages[1].blocks[0], ThinkingBlock)


async def test_the_repair_alone_fills_the_demo_window(project: Path) -> None:
    agent = make_agent(project)
    await agent.prompt("go")
    assert count_request(agent.request()) > 8_192


async def test_a_second_prompt_after_the_end_gets_a_note(project: Path) -> None:
    agent = make_agent(project)
    await agent.prompt("go")
    calls = len(agent.calls)
    assert "ANTHROPIC_API_KEY" in await agent.prompt("and now?")
    assert len(agent.calls) == calls


@pytest.mark.parametrize("at", [2, 3, 4, 5, 7, 9, 12])
async def test_a_compaction_at_any_step_does_not_derail_it(project: Path, at: int) -> None:
    agent = make_agent(project)
    agent.messages.append(UserMessage((TextBlock("go"),)))
    for _ in range(at):
        assert await agent.step() is None
    text = "".join(b.text for b in (await agent.ask(agent.request([ASK]))).blocks() if isinstance(b, TextBlock))
    for section in ("Goal", "Constraints and preferences", "Progress", "Done", "In progress", "Blocked", "Key decisions",
                    "Next steps", "Critical context"):  # fmt: skip
        assert re.search(rf"^#+ {section}$", text, re.MULTILINE)
    assert estimate_tokens(text) < 400
    last = 1 + max(i for i, m in enumerate(agent.messages) if isinstance(m, AssistantMessage))
    compact(agent, text, keep=len(agent.messages) - last + 1)
    for _ in range(20):
        if (final := await agent.step()) is not None:
            break
    assert final is not None
    assert "All tests pass" in final
    assert is_repaired(project)


async def test_it_stops_reading_once_the_window_was_compacted(project: Path) -> None:
    agent = make_agent(project)
    agent.messages.append(UserMessage((TextBlock("go"),)))
    while sum(a.get("path") == HISTORY for _, a in agent.calls) < 1:
        await agent.step()
    compact(agent, summary(read_story(agent.messages)), keep=2)
    await agent.step()
    assert agent.calls[-1][0] == "edit"


async def test_a_refused_edit_ends_politely_and_the_next_prompt_plays_again(project: Path) -> None:
    agent = make_agent(project, lambda name, arguments: "The user said no: not now" if name == "edit" else None)
    final = await agent.prompt("go")
    assert "said no: not now" in final
    assert not is_repaired(project)
    agent.refuse = lambda name, arguments: None
    assert "All tests pass" in await agent.prompt("all right, do it")
    assert is_repaired(project)


async def test_refused_commands_leave_it_unverified_and_say_so(project: Path) -> None:
    agent = make_agent(project, lambda name, arguments: "Refused: bash may not run." if name == "bash" else None)
    final = await agent.prompt("go")
    assert "not allowed to run the tests" in final
    claims = ("As expected", "is right now", "fails:")
    assert not any(claim in text for text in agent.texts for claim in claims)
    assert is_repaired(project)
    assert sum(name == "bash" for name, _ in agent.calls) == 1


async def test_a_refused_write_and_a_missing_history_are_passed_over(project: Path) -> None:
    (project / HISTORY).unlink()

    def refuse(name: str, arguments: dict[str, Any]) -> str | None:
        return "no" if name == "write" or arguments.get("path") == HISTORY else None

    agent = make_agent(project, refuse)
    assert "All tests pass" in await agent.prompt("go")


async def test_a_refused_read_ends_politely(project: Path) -> None:
    agent = make_agent(project, lambda name, arguments: "Refused." if name == "read" else None)
    assert "Refused." in await agent.prompt("go")
    assert len(agent.calls) == 2


async def test_a_source_it_does_not_know_is_not_touched(project: Path) -> None:
    (project / SOURCE).write_text("def sum(a, b):\n    return 7\n")
    agent = make_agent(project)
    assert "not what this script expects" in await agent.prompt("go")
    assert "edit" not in [name for name, _ in agent.calls]


async def test_a_repaired_project_is_left_as_it_is(project: Path) -> None:
    await make_agent(project).prompt("go")
    again = make_agent(project)
    assert "All tests pass" in await again.prompt("go")
    assert [name for name, _ in again.calls] == ["read", "read", "bash"]


async def test_a_message_in_between_is_answered_and_the_work_goes_on(project: Path) -> None:
    agent = make_agent(project)
    agent.messages.append(UserMessage((TextBlock("go"),)))
    for _ in range(3):
        await agent.step()
    assert "All tests pass" in await agent.prompt("use numpy instead")
    assert "a script cannot follow it" in agent.texts[3]
    assert sum("a script cannot follow it" in text for text in agent.texts) == 1


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 8, 11])
async def test_after_an_interruption_in_any_step_a_prompt_finishes_the_repair(project: Path, steps: int) -> None:
    agent = make_agent(project)
    agent.messages.append(UserMessage((TextBlock("go"),)))
    for _ in range(steps):
        await agent.step()
    while isinstance(last := agent.messages[-1], ToolResultMessage):
        agent.messages.pop()
    assert isinstance(last, AssistantMessage)
    lost = [ToolResultMessage(b.id, (TextBlock(MISSING_RESULT),), True) for b in last.blocks if isinstance(b, ToolCall)]
    agent.messages += lost
    assert "All tests pass" in await agent.prompt("go on")
    assert is_repaired(project)


async def test_cleared_results_are_not_taken_for_answers(project: Path) -> None:
    agent = make_agent(project)
    agent.messages.append(UserMessage((TextBlock("go"),)))
    for _ in range(30):
        if (final := await agent.step()) is not None:
            break
        for index, message in enumerate(agent.messages[:-3]):
            if isinstance(message, ToolResultMessage):
                cleared = (TextBlock("[Old tool result content cleared]"),)
                agent.messages[index] = ToolResultMessage(message.call_id, cleared, message.is_error)
    assert final is not None
    assert "All tests pass" in final


async def test_the_rendered_form_of_a_summary_request_is_answered_too(project: Path) -> None:
    agent = make_agent(project)
    agent.messages.append(UserMessage((TextBlock("go"),)))
    for _ in range(5):
        await agent.step()
    shown = "\n".join(
        part
        for message in agent.messages
        for block in message.blocks
        for part in (
            [block.text] if isinstance(block, TextBlock) else [block.arguments] if isinstance(block, ToolCall) else []
        )
    )
    request = agent.request()
    asked = UserMessage((TextBlock(f"{shown}\n\nSum up, with the sections Goal … Critical context."),))
    rendered = type(request)("demo", (), (), (asked,), 0, 0, 500)
    reply = await agent.ask(rendered)
    (text,) = (block.text for block in reply.blocks() if isinstance(block, TextBlock))
    assert "holds the first fix. Newest test run: failed." in text
    assert reply.stop_reason == "end_turn"


def test_a_rendered_summary_is_carried_on() -> None:
    story = read_transcript("- `calc/core.py` holds the second fix. Newest test run: passed. Extra tests: refused.")
    assert (story.source, story.tests, story.extra_tests) == ("second fix", "passed", "refused")


@pytest.mark.parametrize(
    ("value", "expected"), [(None, 400.0), ("0", 0.0), ("1000", 1000.0), ("fast", 400.0), ("-1", 0.0)]
)
def test_the_pace_comes_from_the_environment(value: str | None, expected: float) -> None:
    env = {} if value is None else {SPEED_VARIABLE: value}
    provider = demo_provider(CONFIG, env=env)
    assert isinstance(provider, ScriptedProvider)
    agent = TinyAgent(provider, Path())
    agent.messages.append(UserMessage((TextBlock("go"),)))
    paces = {item.chars_per_s for item in provider.next_items(agent.request()) if isinstance(item, Say)}
    assert paces == {expected}


def test_scripts_are_independent() -> None:
    agent = TinyAgent(demo_provider(CONFIG), Path())
    agent.messages.append(UserMessage((TextBlock("go"),)))
    first, second = (list(DemoScript(0)(agent.request())) for _ in range(2))
    assert first != second, "call ids must differ between sessions"

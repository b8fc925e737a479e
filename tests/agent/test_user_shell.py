"""Commands of the user's own, in a real session."""

import asyncio

import pytest

from agent.events import ToolFinished, ToolProgress, ToolStarted, UserMessageAdded
from agent.tools.details import CommandDetails
from agent.transcript import ShellBlock, User
from agent.user_command import UserCommand, user_command
from tests.fakes.session_kit import Desk, Talk


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("!ls -la", UserCommand("ls -la", True)),
        ("! ls", UserCommand("ls", True)),
        ("!!ls", UserCommand("ls", False)),
        ("!a\nb", UserCommand("a\nb", True)),
        ("!", None),
        ("!!", None),
        (" !ls", None),
        ("wow!", None),
    ],
)
def test_what_is_a_command(text: str, command: UserCommand | None) -> None:
    assert user_command(text) == command


def finished(talk: Talk) -> CommandDetails:
    details = talk.of(ToolFinished)[-1].details
    assert isinstance(details, CommandDetails)
    return details


def blocks(desk: Desk) -> list[ShellBlock]:
    return [block for user in desk.payloads(User) for block in user.blocks if isinstance(block, ShellBlock)]


async def test_the_output_goes_with_the_next_request_and_starts_none(desk: Desk) -> None:
    desk.wire.reply("I see.")
    async with desk.open(mode="plan") as talk:
        await talk.session.run_shell("printf 'a\\nb\\n'; printf err >&2; exit 3")
        assert [event.tool for event in talk.of(ToolStarted)] == ["!"] and talk.of(ToolProgress)
        assert (finished(talk).exit_code, finished(talk).output) == (3, "a\nb\nerr")
        assert desk.bodies() == []
        await talk.session.prompt("what is that?")
    texts = desk.wire.texts(desk.bodies()[-1])
    at = texts.index("I ran this command:\n$ printf 'a\\nb\\n'; printf err >&2; exit 3\na\nb\nerr\n[exit code 3]")
    assert texts[at + 1] == "what is that?"


async def test_two_marks_keep_it_out(desk: Desk) -> None:
    desk.wire.reply("Hello.")
    async with desk.open() as talk:
        await talk.session.run_shell("echo private", in_window=False)
        assert finished(talk).output == "private" and talk.of(ToolStarted)[-1].tool == "!!"
        await talk.session.prompt("hello")
    assert "private" not in str(desk.bodies()) and blocks(desk) == []


async def test_a_cancelled_command_is_ended_and_keeps_what_it_said(desk: Desk) -> None:
    async with desk.open() as talk:
        running = asyncio.create_task(talk.session.run_shell("echo begun; sleep 60; echo never"))
        await talk.seen(ToolProgress, lambda event: "begun" in event.text)
        running.cancel()
        await asyncio.wait_for(running, 10)
        assert finished(talk).status == "cancelled"
    assert [block.output for block in blocks(desk)] == ["begun\n[interrupted]"]


@pytest.mark.parametrize(
    ("command", "said"), [("a\0b", "NUL"), ("x" * 200_000, "too long"), ("no-such-program-x", "not found")]
)
async def test_what_cannot_run_says_why(desk: Desk, command: str, said: str) -> None:
    async with desk.open() as talk:
        await talk.session.run_shell(command)
        assert talk.of(ToolFinished)[-1].is_error and said in talk.of(ToolFinished)[-1].text


async def test_escapes_and_floods_are_made_harmless(desk: Desk) -> None:
    async with desk.open() as talk:
        await talk.session.run_shell("printf '\\033[2J\\033]0;x\\007red\\n'; yes | head -c 3000000")
    (block,) = blocks(desk)
    assert block.output.startswith("red\ny\n") and "\x1b" not in block.output
    assert "left out" in block.output and len(block.output) < 40_000


async def test_while_a_turn_runs_it_waits_for_the_step_and_makes_nobody_go_on(desk: Desk) -> None:
    desk.wire.reply("Working.", tools=[("bash", {"command": "until [ -e go ]; do sleep 0.02; done"})])
    desk.wire.reply("Done.")
    async with desk.open() as talk:
        turn = asyncio.create_task(talk.session.prompt("go"))
        await talk.seen(ToolStarted)
        await talk.session.run_shell("echo meanwhile")
        assert talk.session.queued == ()
        (desk.project / "go").touch()
        assert (await turn).reason == "done"
        assert [event.text for event in talk.of(UserMessageAdded)] == ["go"]
    assert len(desk.bodies()) == 2
    assert "I ran this command:\n$ echo meanwhile\nmeanwhile" in desk.wire.texts(desk.bodies()[1])


async def test_a_resumed_session_draws_it_as_it_was(desk: Desk) -> None:
    async with desk.open() as talk:
        await talk.session.run_shell("echo '[b]x[/b]'")
        path = talk.path
    async with desk.open(path) as talk:
        started, ended = talk.session.replay()
        assert isinstance(started, ToolStarted) and started.title == "echo '[b]x[/b]'"
        assert isinstance(ended, ToolFinished) and ended.text == "[b]x[/b]"
        assert talk.session.title == ""

"""Options that shape a whole session: `--tools`, `--append-system-prompt`, limits, profiles."""

from pathlib import Path
from typing import Any

import pytest

from agent.transcript import Prefix, Setting
from providers.types import Usage
from tests.fakes.claw_process import run
from tests.fakes.model_server import ModelServer
from tests.fakes.session_kit import Desk, is_prefix
from tests.fakes.wires import AnthropicSide, ChatSide, ResponsesSide, Wire
from tests.tui.in_process import Place


def tools_of(body: Any) -> list[str]:
    return [tool["name"] for tool in body.get("tools", ())]


def system_of(desk: Desk, body: Any) -> str:
    return str([block for role, block in desk.wire.flat(body) if role == "system"])


async def test_tools_are_limited_and_stay_so_for_the_session(desk: Desk) -> None:
    desk.wire.reply(tools=[("write", {"path": "x", "content": "y"})])
    desk.wire.reply("I cannot.")
    desk.wire.reply("Later.")
    desk.wire.reply("More.")
    async with desk.open(tools=("grep", "read")) as talk:
        await talk.session.prompt("first")
        assert talk.results[0].is_error
    async with desk.open(talk.path) as later:
        await later.session.prompt("second")
    async with desk.open(talk.path, tools=("read", "write")) as more:
        await more.session.prompt("third")
    bodies = desk.bodies()
    assert [tools_of(body) for body in bodies] == [["read", "grep"]] * 3 + [["read", "write"]]
    assert is_prefix(desk.wire.flat(bodies[1]), desk.wire.flat(bodies[2]))
    assert len(desk.payloads(Prefix)) == 2 and not (desk.project / "x").exists()


async def test_a_session_can_have_no_tools_at_all(model_server: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    sides: tuple[Wire, ...] = (AnthropicSide(model_server), ResponsesSide(model_server), ChatSide(model_server))
    for number, wire in enumerate(sides):
        desk = Desk(wire, tmp_path / "project", tmp_path / f"home{number}")
        desk.wire.reply("Just words.")
        async with desk.open(tools=()) as talk:
            await talk.session.prompt("first")
            assert talk.answer == "Just words."
        assert not desk.bodies()[-1].get("tools") and "tool_choice" not in desk.bodies()[-1]


async def test_what_is_appended_to_the_prompt_stays_for_the_session(desk: Desk) -> None:
    for text in ("One.", "Two.", "Three."):
        desk.wire.reply(text)
    async with desk.open(append_system_prompt="--Be brief.") as talk:
        await talk.session.prompt("first")
    async with desk.open(talk.path) as same:
        await same.session.prompt("second")
    async with desk.open(talk.path, append_system_prompt="Be thorough.") as other:
        await other.session.prompt("third")
    first, second, third = desk.bodies()
    assert "--Be brief." in system_of(desk, first)
    assert is_prefix(desk.wire.flat(first), desk.wire.flat(second))
    assert "Be thorough." in system_of(desk, third) and "Be brief." not in system_of(desk, third)
    assert [setting.appended for setting in desk.payloads(Setting)] == ["--Be brief.", "--Be brief.", "Be thorough."]


async def test_a_compaction_of_a_resumed_session_keeps_what_was_appended(desk: Desk) -> None:
    from tests.agent.test_session_compaction import SUMMARY

    async with desk.open(append_system_prompt="Be brief.", tools=("read", "grep")) as talk:
        for number in range(5):
            desk.wire.reply("Long story. " * 200)
            await talk.session.prompt(f"question {number}")
    desk.wire.reply(SUMMARY)
    desk.wire.reply("After.")
    async with desk.open(talk.path) as later:
        assert (await later.session.compact()).key is not None
        await later.session.prompt("go on")
    assert "Be brief." in system_of(desk, desk.bodies()[-1]) and tools_of(desk.bodies()[-1]) == ["read", "grep"]


@pytest.mark.parametrize(("name", "near"), [("grpe", "'grep'"), ("Bash", "'bash'"), ("xyz", "read, write")])
def test_an_unknown_tool_ends_with_2_and_the_nearest(place: Place, name: str, near: str) -> None:
    for mode in (["-p", "hi"], []):
        done = place.claw(*mode, "--tools", f"read,{name}")
        assert (done.code, done.out) == (2, "") and repr(name) in done.err and near in done.err


async def test_the_command_line_may_raise_your_own_limit_and_never_a_projects(desk: Desk) -> None:
    (desk.project / ".claw").mkdir()
    (desk.project / ".claw" / "config.toml").write_text("[limits]\nmax_turns = 2\n")
    desk.wire.otherwise(lambda body: "unused")
    for _ in range(4):
        desk.wire.reply(tools=[("glob", {"pattern": "*"})], usage=Usage(10, output_tokens=1))
    async with desk.open(max_turns=10) as talk:
        assert (await talk.session.prompt("go")).reason == "max_turns"
    assert len(desk.bodies()) == 2
    (desk.project / ".claw" / "config.toml").write_text("")
    async with desk.open(max_turns=1, config=("limits.max_turns=5",)) as other:
        assert (await other.session.prompt("go")).reason == "max_turns"
    assert len(desk.bodies()) == 3


async def test_a_profile_sets_what_it_says(desk: Desk) -> None:
    file = desk.home / "config" / "config.toml"
    file.write_text(file.read_text() + f'[profiles.cheap]\nmodel = "{desk.model}"\nlimits.max_turns = 1\n')
    desk.wire.reply("Wait.", tools=[("glob", {"pattern": "*"})])
    done = await run(desk, "-p", "hi", "--profile", "cheap")
    assert (done.code, done.out) == (4, "Wait.\n")


def test_an_unknown_profile_ends_with_2_and_those_there_are(place: Place) -> None:
    place.write(place.user_file, '[profiles.cheap]\neffort = "low"\n')
    done = place.claw("-p", "hi", "--profile", "chaep")
    assert done.code == 2 and "'chaep'" in done.err and "cheap" in done.err

"""The prefix stays: whatever happens around a conversation, each request begins with the one before it."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

from agent.transcript import Prefix, Reminder, Setting
from tests.agent.test_session_compaction import SUMMARY
from tests.fakes.model_server import ModelServer
from tests.fakes.session_kit import Desk, git, is_prefix, make_project
from tests.fakes.wires import AnthropicSide

MESSAGES = ("user", "assistant", "result")


def check_prefixes(desk: Desk, start: int = 0) -> None:
    flats = [desk.wire.flat(body) for body in desk.bodies()]
    for number in range(start + 1, len(flats)):
        assert is_prefix(flats[number - 1], flats[number]), f"request {number} does not begin with the one before"


async def test_each_request_begins_with_the_one_before_whatever_changes_around_it(desk: Desk) -> None:
    wire = desk.wire
    make_project(desk.project, {"CLAUDE.md": "Use tabs.", "a.txt": "one\ntwo\n", ".gitignore": "x"})
    git(desk.project, "init", "-q", "-b", "main")
    wire.reply("I look.", thinking="hm", tools=[("read", {"path": "a.txt"}), ("glob", {"pattern": "*"})])
    wire.reply(thinking="so", tools=[("edit", {"path": "a.txt", "edits": [{"old": "one", "new": "1"}]})])
    wire.reply(tools=[("bash", {"command": "cat a.txt; false"}), ("bash", "{"), ("nothing", {})])
    wire.reply("Done.")
    async with desk.open() as talk:
        await talk.session.prompt("first")
        desk.clock = lambda: datetime(2026, 12, 1, 0, 1)
        git(desk.project, "checkout", "-q", "-b", "other")
        (desk.project / "CLAUDE.md").write_text("Use blanks.")
        wire.reply("A new day.", thinking="another")
        await talk.session.prompt("second")
        wire.unfinished("half", calls=[("write", {"path": "b.txt", "content": "x"})])
        turn = asyncio.ensure_future(talk.session.prompt("third"))
        await talk.requested(6)
        talk.session.set_mode("plan")
        talk.session.steer("fourth")
        talk.session.interrupt()
        await turn
        wire.reply("Yes.", tools=[("read", {"path": "a.txt", "limit": 1})])
        wire.reply("Yes.")
        await talk.session.prompt("fifth")
    async with desk.open(talk.path, mode="ask") as later:
        wire.reply("I am back.", tools=[("write", {"path": "c.txt", "content": "x"})])
        wire.reply("Not allowed, then.")
        await later.session.prompt("sixth")
    assert len(desk.bodies()) == 10
    check_prefixes(desk)
    assert len(desk.payloads(Prefix)) == 1
    assert [setting.mode for setting in desk.payloads(Setting)] == ["auto", "plan", "ask"]
    told = [(reminder.kind, reminder.text) for reminder in desk.payloads(Reminder)]
    assert [kind for kind, _ in told] == ["date", "git_branch", "date", "git_branch", "instructions", "mode", "mode"]
    assert "2026-12-01" in told[2][1] and "other" in told[3][1] and "Use blanks." in told[4][1]
    # Told once, behind the message that went out with it.
    texts = wire.texts(desk.bodies()[-1])
    assert sum("Use blanks." in text for text in texts) == 1
    assert [
        next(word for word in ("second", "date", "git_branch", "instructions") if word in text)
        for text in texts[texts.index("second") : texts.index("second") + 4]
    ] == ["second", "date", "git_branch", "instructions"]


async def test_the_shared_summary_request_has_the_same_bytes_in_front(desk: Desk) -> None:
    desk.wire.reply("I look.", tools=[("glob", {"pattern": "*"})])
    desk.wire.reply("Nothing here.")
    for number in range(4):
        desk.wire.reply(f"Answer {number}. " + "Long story. " * 200)
    async with desk.open() as talk:
        await talk.session.prompt("first")
        for number in range(4):
            await talk.session.prompt(f"question {number}")
        desk.wire.reply(SUMMARY)
        assert (await talk.session.compact()).key is not None
    last, summary = desk.wire.requests[-2].body, desk.wire.requests[-1].body
    if isinstance(desk.wire, AnthropicSide):
        mark = b',"cache_control":{"type":"ephemeral"}'
        last, summary = last.replace(mark, b""), summary.replace(mark, b"")
        tail = b"}]}"
        start = b'"tools"'
    else:
        tail = b"]}"
        start = b'"input"'
    assert last.endswith(tail)
    shared = last[last.index(start) : len(last) - len(tail)]
    assert shared in summary


async def test_a_compaction_breaks_the_prefix_once_and_brings_a_fresh_one(desk: Desk) -> None:
    (desk.project / "CLAUDE.md").write_text("Use tabs.")
    async with desk.open() as talk:
        for number in range(5):
            desk.wire.reply("Long story. " * 200)
            await talk.session.prompt(f"question {number}")
        (desk.project / "CLAUDE.md").write_text("Use blanks.")
        desk.wire.reply(SUMMARY)
        assert (await talk.session.compact()).key is not None
        for number in range(3):
            desk.wire.reply("Yes.")
            await talk.session.prompt(f"later {number}")
    system = [block for role, block in desk.last_flat() if role == "system"]
    assert "Use blanks." in str(system) and "Use tabs." not in str(system)
    assert sum("Use blanks." in text for text in desk.wire.texts(desk.bodies()[-1])) == 0
    check_prefixes(desk, start=len(desk.bodies()) - 3)


async def test_another_directory_gives_a_new_prefix_and_the_same_one_does_not(desk: Desk) -> None:
    make_project(desk.project, {"sub/a.txt": "x", ".git/HEAD": "ref: refs/heads/main\n"})
    for _ in range(3):
        desk.wire.reply("Yes.")
    async with desk.open() as talk:
        await talk.session.prompt("first")
    async with desk.open(talk.path) as same:
        await same.session.prompt("second")
    async with desk.open(talk.path, cwd=desk.project / "sub") as other:
        await other.session.prompt("third")
    assert len(desk.payloads(Prefix)) == 2
    flats = [desk.wire.flat(body) for body in desk.bodies()]
    assert is_prefix(flats[0], flats[1]) and not is_prefix(flats[1], flats[2])
    assert str(desk.project.resolve() / "sub") in str([block for role, block in flats[2] if role == "system"])
    talked = [[block for role, block in flat if role in MESSAGES] for flat in flats]
    assert is_prefix(talked[1], talked[2])


# --------------------------------------------------------------------------- Anthropic's breakpoints


def marks(body: Any) -> tuple[list[int], list[tuple[int, int]]]:
    """Where the breakpoints stand: indices of system blocks, (message, block) of messages."""
    system = [index for index, block in enumerate(body["system"]) if "cache_control" in block]
    messages = [
        (at, index)
        for at, message in enumerate(body["messages"])
        for index, block in enumerate(message["content"])
        if "cache_control" in block
    ]
    assert "cache_control" not in str(body["tools"])
    return system, messages


async def test_breakpoints_stand_behind_static_and_whole_prefix_and_the_last_two_ends(
    model_server: ModelServer, project: Path, tmp_path: Path
) -> None:
    desk = Desk(AnthropicSide(model_server), project, tmp_path / "home")
    desk.wire.reply("I look.", thinking="hm", tools=[("glob", {"pattern": "*"}), ("glob", {"pattern": "a"})])
    desk.wire.reply(tools=[("glob", {"pattern": "*"})])
    desk.wire.reply("Done.")
    desk.wire.reply("Yes.")
    async with desk.open() as talk:
        await talk.session.prompt("first")
        await talk.session.prompt("second")
    desk.wire.reply("Back.")
    async with desk.open(talk.path) as later:
        await later.session.prompt("third")
    names = [section.name for section in desk.payloads(Prefix)[0].sections]
    static_end, end = names.index("answers"), len(names) - 1
    ends: list[tuple[int, int]] = []
    for number, body in enumerate(desk.bodies()):
        system, messages = marks(body)
        assert system == [static_end, end]
        last = (len(body["messages"]) - 1, len(body["messages"][-1]["content"]) - 1)
        expected = [last] if number == 0 else [ends[-1], last]
        assert messages == expected, number
        ends.append(last)


async def test_a_hundred_steps_with_all_that_changes_around_them_keep_the_prefix(desk: Desk) -> None:
    wire, turns, steps = desk.wire, 10, 10
    make_project(desk.project, {"AGENTS.md": "Use tabs.", "a.txt": "0\n", ".gitignore": "x"})
    git(desk.project, "init", "-q", "-b", "main")
    async with desk.open() as talk:
        for turn in range(turns):
            folder = desk.project / f"part{turn}"
            make_project(folder, {"AGENTS.md": f"Rules of part {turn}.", "b.txt": "b\n"})
            old, new = str(turn), str(turn + 1)
            wire.reply(tools=[("edit", {"path": "a.txt", "edits": [{"old": old, "new": new}]})])
            wire.reply(thinking="so", tools=[("read", {"path": f"part{turn}/b.txt"}), ("grep", {"pattern": "b"})])
            wire.reply(tools=[("write", {"path": f"part{turn}/c.txt", "content": "c"})])
            wire.reply(tools=[("bash", {"command": f"echo {turn}; exit {turn % 2}"})])
            wire.reply(tools=[("recall", {"query": "rules"}), ("read", {"path": "a.txt"})])
            for step in range(steps - 6):
                wire.reply(tools=[("glob", {"pattern": f"*{step}*"})])
            wire.reply("Done.")
            await talk.session.prompt(f"part {turn}, please")
            # Between two turns: a commit on another branch, a new day, files and instructions changed from outside.
            git(desk.project, "checkout", "-q", "-b", f"branch-{turn}")
            git(desk.project, "add", "-A")
            git(desk.project, "commit", "-q", "-m", f"part {turn}")
            desk.clock = lambda day=turn + 1: datetime(2026, 12, day, 12, 0)  # type: ignore[misc]  # a default binds it
            (folder / "b.txt").write_text(f"changed from outside {turn}\n")
            (desk.project / "AGENTS.md").write_text(f"Use {turn} blanks.")
    assert len(desk.bodies()) == turns * steps
    check_prefixes(desk)
    assert len(desk.payloads(Prefix)) == 1
    told = [reminder for reminder in desk.payloads(Reminder) if reminder.kind == "instructions"]
    for turn in range(turns):
        assert sum(f"Rules of part {turn}." in reminder.text for reminder in told) == 1

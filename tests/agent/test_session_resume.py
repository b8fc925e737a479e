"""Going on with a session: in another process, after a crash, in a fork."""

from pathlib import Path

import pytest

from agent.events import MessageCompleted, ToolFinished, ToolStarted, UserMessageAdded
from agent.store import sessions
from agent.transcript import Assistant, Prefix, Reminder, Result, Setting, User
from agent.window import MISSING_RESULT
from providers.types import TextBlock, ToolCall, Usage
from tests.fakes.session_kit import Desk, Talk, is_prefix, make_project
from tui.launch.startup import SetupError


async def talked(desk: Desk, *texts: str) -> Talk:
    async with desk.open() as talk:
        for text in texts:
            desk.wire.reply(f"Answer to {text}.")
            await talk.session.prompt(text)
    return talk


async def test_a_resumed_session_sends_the_recorded_prefix_and_tells_a_changed_file_once(desk: Desk) -> None:
    make_project(desk.project, {"CLAUDE.md": "Use tabs.", "AGENTS.md": "Be brief."})
    talk = await talked(desk, "one")
    (desk.project / "CLAUDE.md").write_text("Use blanks.")
    (desk.project / "AGENTS.md").unlink()
    for text in ("two", "three"):
        async with desk.open(talk.path) as later:
            desk.wire.reply("Yes.")
            await later.session.prompt(text)
    flats = [desk.wire.flat(body) for body in desk.bodies()]
    assert is_prefix(flats[0], flats[1]) and is_prefix(flats[1], flats[2])
    told = [reminder for reminder in desk.payloads(Reminder) if reminder.kind == "instructions"]
    assert len(told) == 2
    assert "Use blanks." in told[0].text + told[1].text and "It is gone" in told[0].text + told[1].text
    assert len(desk.payloads(Prefix)) == 1


async def test_no_instructions_on_resume_gives_a_new_prefix_without_them(one_desk: Desk) -> None:
    (one_desk.project / "CLAUDE.md").write_text("Use tabs.")
    talk = await talked(one_desk, "one")
    async with one_desk.open(talk.path, no_instructions=True) as later:
        one_desk.wire.reply("Yes.")
        await later.session.prompt("two")
    body = str(one_desk.bodies()[-1])
    assert "Use tabs." not in body and "CLAUDE.md" not in body
    assert [len(prefix.instruction_files) for prefix in one_desk.payloads(Prefix)] == [1, 0]


async def test_an_instruction_file_that_does_not_fit_is_told_once_with_how_much_was_cut(one_desk: Desk) -> None:
    (one_desk.project / "CLAUDE.md").write_text("".join(f"rule {number}\n" for number in range(5_000)))
    talk = await talked(one_desk, "one", "two")
    (notice,) = talk.notices
    assert "CLAUDE.md" in notice and "characters were cut off" in notice
    async with one_desk.open(talk.path) as later:
        one_desk.wire.reply("Yes.")
        await later.session.prompt("three")
        assert later.notices == []


async def test_a_new_prefix_says_what_changed_and_no_reminder_repeats_it(one_desk: Desk) -> None:
    make_project(one_desk.project, {"CLAUDE.md": "Use tabs.", "sub/a": "", ".git/HEAD": "ref: refs/heads/main\n"})
    talk = await talked(one_desk, "one")
    (one_desk.project / "CLAUDE.md").write_text("Use blanks.")
    async with one_desk.open(talk.path, cwd=one_desk.project / "sub") as later:
        one_desk.wire.reply("Yes.")
        await later.session.prompt("two")
    assert "Use blanks." in one_desk.bodies()[-1]["instructions"]
    assert not any("Use blanks." in text for text in one_desk.wire.texts(one_desk.bodies()[-1]))


async def test_the_mode_in_force_is_not_the_recorded_one(one_desk: Desk) -> None:
    talk = await talked(one_desk, "one")
    assert one_desk.payloads(Setting)[-1].mode == "auto"
    async with one_desk.open(talk.path, mode=None) as later:
        assert later.session.mode == "ask"
        one_desk.wire.reply(tools=[("write", {"path": "a", "content": "x"})])
        one_desk.wire.reply("Not allowed.")
        await later.session.prompt("two")
        assert later.results[0].is_error
    assert one_desk.payloads(Setting)[-1].mode == "ask"
    assert not (one_desk.project / "a").exists()


async def test_what_is_drawn_again_is_what_was_shown(one_desk: Desk) -> None:
    (one_desk.project / "a").write_text("x")
    one_desk.wire.reply("I look.", tools=[("read", {"path": "a"}), ("read", {"path": "b"})])
    one_desk.wire.reply("Done.")
    async with one_desk.open() as talk:
        await talk.session.prompt("look")
    kept = (UserMessageAdded, MessageCompleted, ToolStarted, ToolFinished)
    live = [event for event in talk.events if isinstance(event, kept)]
    live.sort(key=lambda event: (isinstance(event, ToolStarted | ToolFinished) and event.call_id) or "")
    async with one_desk.open(talk.path) as later:
        again = [event for event in later.session.replay() if isinstance(event, kept)]
    again.sort(key=lambda event: (isinstance(event, ToolStarted | ToolFinished) and event.call_id) or "")
    assert again == live


async def test_the_gauge_is_the_same_after_a_resume(desk: Desk) -> None:
    async with desk.open() as talk:
        for number in range(3):
            desk.wire.reply("Answer. " * 50, usage=Usage(2000 + 300 * number, 0, 0, 110))
            await talk.session.prompt(f"question {number}")
        before = talk.session.gauge()
        parts = talk.session.breakdown()
    async with desk.open(talk.path) as later:
        assert later.session.gauge() == before
        assert later.session.breakdown() == parts
        assert later.session.title == "question 0"


async def test_the_read_state_survives_so_that_write_and_stale_edits_are_judged_as_before(one_desk: Desk) -> None:
    make_project(one_desk.project, {"a": "one\n", "b": "one\n"})
    one_desk.wire.reply(tools=[("read", {"path": "a"}), ("read", {"path": "b"})])
    one_desk.wire.reply("Read.")
    async with one_desk.open() as talk:
        await talk.session.prompt("read")
    (one_desk.project / "b").write_text("changed\n")
    one_desk.wire.reply(
        tools=[
            ("write", {"path": "a", "content": "two\n"}),
            ("edit", {"path": "b", "edits": [{"old": "changed", "new": "x"}]}),
        ]
    )
    one_desk.wire.reply("Done.")
    async with one_desk.open(talk.path) as later:
        await later.session.prompt("write")
        written, stale = later.results
    assert not written.is_error and (one_desk.project / "a").read_text() == "two\n"
    assert stale.is_error and "changed since it was read" in stale.text


async def test_a_session_that_is_open_elsewhere_is_refused_and_can_be_forked(one_desk: Desk) -> None:
    async with one_desk.open() as talk:
        one_desk.wire.reply("One.")
        await talk.session.prompt("one")
        with pytest.raises(SetupError, match="open in another claw"):
            async with one_desk.open(talk.path):
                pass
        async with one_desk.open(talk.path, fork=True) as fork:
            one_desk.wire.reply("Forked.")
            await fork.session.prompt("two")
        one_desk.wire.reply("Three.")
        await talk.session.prompt("three")
    assert fork.session.id != talk.session.id
    assert [_text(user) for user in one_desk.payloads(User, talk.session.id)] == ["one", "three"]
    assert [_text(user) for user in one_desk.payloads(User, fork.session.id)] == ["one", "two"]
    assert sessions.load(fork.path).meta.forked_from == talk.session.id


async def test_a_session_that_could_not_be_opened_is_free_again(one_desk: Desk) -> None:
    talk = await talked(one_desk, "one")
    one_desk.env["CLAW_BLOCKING_LIMIT"] = "many"
    with pytest.raises(SetupError, match="CLAW_BLOCKING_LIMIT"):
        async with one_desk.open(talk.path):
            pass
    del one_desk.env["CLAW_BLOCKING_LIMIT"]
    async with one_desk.open(talk.path) as later:
        one_desk.wire.reply("Two.")
        assert (await later.session.prompt("two")).reason == "done"


def _text(user: User) -> str:
    return "".join(block.text for block in user.blocks if isinstance(block, TextBlock))


async def test_the_newest_session_of_the_project_is_found_and_others_by_the_beginning_of_their_id(
    one_desk: Desk, tmp_path: Path
) -> None:
    first = await talked(one_desk, "one")
    second = await talked(one_desk, "two")
    elsewhere = Desk(one_desk.wire, make_project(tmp_path / "elsewhere", {}), one_desk.home)
    third = await talked(elsewhere, "three")
    assert sessions.newest(one_desk.folder, one_desk.project.resolve()) == second.path
    async with one_desk.open(first.path) as later:
        one_desk.wire.reply("Yes.")
        await later.session.prompt("four")
    assert sessions.newest(one_desk.folder, one_desk.project.resolve()) == first.path
    assert sessions.newest(one_desk.folder, elsewhere.project.resolve()) == third.path
    assert sessions.find(one_desk.folder, third.session.id[:-1]) in (third.path,)
    infos, problems = sessions.listing(one_desk.folder)
    assert problems == [] and [info.title for info in infos] == ["one", "three", "two"]


async def test_T93_calls_that_nothing_answered_get_their_placeholder_and_the_user_is_told(desk: Desk) -> None:
    """As after a kill: the newest reply's calls have no result, or only some of them."""
    desk.wire.reply(tools=[("glob", {"pattern": "a"}), ("glob", {"pattern": "b"}), ("glob", {"pattern": "c"})])
    desk.wire.reply("Done.")
    async with desk.open() as talk:
        await talk.session.prompt("look")
    reply = next(entry for entry in desk.entries() if isinstance(entry.payload, Assistant))
    assert isinstance(reply.payload, Assistant)
    calls = [block.id for block in reply.payload.blocks if isinstance(block, ToolCall)]
    _forget_after(talk.path, reply.key + 1)
    async with desk.open(talk.path) as later:
        assert later.notices == ["2 calls were interrupted; their effects are unknown."]
        desk.wire.reply("I check.")
        assert (await later.session.prompt("go on")).reason == "done"
    results = [block for role, block in desk.last_flat() if role == "result"]
    assert [_call_of(block) for block in results] == calls
    assert [MISSING_RESULT in str(block) for block in results] == [False, True, True]
    async with desk.open(talk.path) as last:
        assert last.notices == []
    assert len(desk.payloads(Result)) == 1


def _call_of(block: dict[str, str]) -> str:
    return block.get("tool_use_id") or block["call_id"]


def _forget_after(path: Path, key: int) -> None:
    import sqlite3

    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM entry WHERE key > ?", (key,))
    connection.commit()
    connection.close()

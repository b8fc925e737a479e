"""Instructions that are told in a session and then meet a drop, another folder, links, circles and a lot of files."""

import os
from pathlib import Path

from agent.instructions.loader import render
from agent.transcript import Prefix, Reminder
from tests.agent.test_session_instructions import read, shown, told
from tests.agent.test_session_prefix import check_prefixes
from tests.fakes.session_kit import Desk, make_project


def reminder_keys(desk: Desk) -> list[int]:
    entries = [entry for entry in desk.entries() if isinstance(entry.payload, Reminder)]
    return [
        entry.key for entry in entries if isinstance(entry.payload, Reminder) and entry.payload.kind == "instructions"
    ]


async def test_K16_what_was_dropped_from_the_window_is_told_again_at_the_next_touch(desk: Desk) -> None:
    make_project(desk.project, {"a/AGENTS.md": "Rule of a.", "a/x.txt": "x\n"})
    desk.wire.reply(tools=[read("a/x.txt")])
    desk.wire.reply("Yes.")
    desk.wire.reply(tools=[read("a/x.txt", limit=1)])
    desk.wire.reply("Yes.")
    async with desk.open() as talk:
        await talk.session.prompt("first")
        edit = talk.session.editor.plan("drop", reminder_keys(desk))
        talk.session.editor.apply(edit)  # type: ignore[arg-type]  # a refusal would fail here
        await talk.session.prompt("second")
    assert [shown(desk, "Rule of a.", at) for at in range(4)] == [0, 1, 0, 1]
    assert len(told(desk)) == 2


async def test_M3_in_another_folder_of_the_project_what_was_told_is_not_gone(desk: Desk) -> None:
    files = {"AGENTS.md": "Root rule.", "a/AGENTS.md": "Rule of a.", "a/x.txt": "x\n", "b/x": "x"}
    make_project(desk.project, files | {".git/HEAD": "ref: refs/heads/main\n"})
    desk.wire.reply(tools=[read("a/x.txt")])
    for _ in range(3):
        desk.wire.reply("Yes.")
    async with desk.open() as talk:
        await talk.session.prompt("first")
    async with desk.open(talk.path, cwd=desk.project / "a") as inner:
        await inner.session.prompt("second")
    async with desk.open(talk.path, cwd=desk.project / "b") as beside:
        await beside.session.prompt("third")
    assert len(told(desk)) == 1 and "It is gone" not in str(desk.bodies()[-1])
    first, inside, outside = desk.payloads(Prefix)
    names = [[Path(file.path).parent.name for file in prefix.instruction_files] for prefix in (first, inside, outside)]
    assert names == [["project"], ["project", "a"], ["project"]]


async def test_C3_a_file_that_is_loaded_later_repeats_nothing_and_goes_round_no_circle(one_desk: Desk) -> None:
    desk = one_desk
    make_project(
        desk.project,
        {
            "AGENTS.md": "Root rule. @common.md",
            "common.md": "Shared words.",
            "a/AGENTS.md": "Rule of a. @../common.md @../AGENTS.md @../b/AGENTS.md @gone.md",
            "a/x.txt": "x\n",
            "b/AGENTS.md": "Rule of b. @../link.md",
        },
    )
    (desk.project / "link.md").symlink_to("a/AGENTS.md")
    desk.wire.reply(tools=[read("a/x.txt")])
    desk.wire.reply("Yes.")
    async with desk.open() as talk:
        await talk.session.prompt("go")
    (text,) = told(desk)
    assert "Rule of a." in text and text.count("Rule of b.") == 1
    assert "Shared words." not in text and "Root rule." not in text
    assert str(desk.bodies()[-1]).count("Shared words.") == 1
    check_prefixes(desk)


async def test_R7_a_link_to_a_folder_outside_brings_in_none_of_its_instructions(desk: Desk, tmp_path: Path) -> None:
    make_project(tmp_path / "other", {"AGENTS.md": "Foreign rule.", "x.txt": "x\n", "deep/CLAUDE.md": "Foreign too."})
    make_project(desk.project, {"AGENTS.md": "Root rule.", "a/y.txt": "y\n"})
    (desk.project / "vendor").symlink_to(tmp_path / "other")
    (desk.project / "a/AGENTS.md").symlink_to(tmp_path / "other/AGENTS.md")
    desk.wire.reply(tools=[read("a/y.txt"), read("vendor/x.txt"), read("vendor/deep/CLAUDE.md")])
    desk.wire.reply("Yes.")
    async with desk.open() as talk:
        await talk.session.prompt("go")
        report = talk.session.instructions()
    assert told(desk) == [] and render(report.items) is not None
    assert any("a link that leads out of" in item.skipped_because for item in report.items)


async def test_R7_names_that_are_no_text_go_through_a_session_and_a_resume(desk: Desk) -> None:
    make_project(desk.project, {"AGENTS.md": "Root rule.", "x.txt": "x\n"})
    odd = Path(os.fsdecode(b"\xff\x1b[31m\n"))
    for folder in (desk.project / ".claw/rules", desk.project / odd):
        folder.mkdir(parents=True)
    (desk.project / ".claw/rules" / f"{odd}.md").write_text("Odd rule. @../../x.txt")
    (desk.project / odd / "AGENTS.md").write_text("Odd nested rule.")
    (desk.project / odd / "y.txt").write_text("y\n")
    desk.wire.reply(tools=[("glob", {"pattern": "**/y.txt"})])
    for _ in range(3):
        desk.wire.reply("Yes.")
    async with desk.open() as talk:
        await talk.session.prompt("first")
        (desk.project / ".claw/rules" / f"{odd}.md").write_text("Odd rule, changed.")
        await talk.session.prompt("second")
    async with desk.open(talk.path) as later:
        await later.session.prompt("third")
        later.session.instructions()
    body = str(desk.bodies()[-1])
    assert "Odd rule." in body and "Odd rule, changed." in body and "\x1b" not in body
    check_prefixes(desk)

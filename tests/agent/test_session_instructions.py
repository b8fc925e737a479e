"""Instructions at work in real sessions: nested files and rules load when they are touched, the prefix stays a prefix."""

import hashlib
from pathlib import Path
from typing import Any

from agent.context.tokens import Counter
from agent.permissions.consents import Consents
from agent.transcript import Prefix, Reminder
from tests.agent.test_session_compaction import SUMMARY
from tests.agent.test_session_prefix import check_prefixes
from tests.fakes.session_kit import Approver, Desk, make_project

LONG = "Long story. " * 200


def told(desk: Desk, kind: str = "instructions") -> list[str]:
    return [reminder.text for reminder in desk.payloads(Reminder) if reminder.kind == kind]


def shown(desk: Desk, words: str, request: int = -1) -> int:
    """In how many blocks of a request the words stand."""
    return sum(words in text for text in desk.wire.texts(desk.bodies()[request]))


def read(path: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "read", {"path": path, **more}


async def test_K16_nested_instructions_load_on_the_first_touch_and_once(desk: Desk) -> None:
    make_project(
        desk.project,
        {
            "AGENTS.md": "Root rule.",
            "a/AGENTS.md": "Rule of a.",
            "a/b/CLAUDE.md": "Rule of b.",
            "a/b/x.txt": "x\n",
            "a/b/y.txt": "y\n",
            "c/AGENTS.md": "Rule of c.",
        },
    )
    desk.wire.reply(tools=[read("a/b/x.txt"), read("a/b/y.txt")])
    desk.wire.reply(tools=[read("a/b/y.txt", limit=1)])
    desk.wire.reply(tools=[("edit", {"path": "a/b/x.txt", "edits": [{"old": "x", "new": "z"}]})])
    desk.wire.reply("Done.")
    desk.wire.reply("Yes.")
    async with desk.open() as talk:
        await talk.session.prompt("first")
        await talk.session.prompt("second")
    first, second = told(desk)
    assert "Rule of a." in first and str(desk.project.resolve() / "a/AGENTS.md") in first
    assert "Rule of b." in second and "Root rule." not in first + second
    # Behind the results of the step that touched them, inside the newest one, and nowhere else.
    assert shown(desk, "Rule of a.", 0) == 0 and shown(desk, "Rule of a.", 1) == 1
    assert shown(desk, "Rule of b.") == 1 and shown(desk, "Rule of c.") == 0
    check_prefixes(desk)
    assert len(desk.payloads(Prefix)) == 1


async def test_K16_after_a_compaction_and_after_a_resume_what_stands_decides(desk: Desk) -> None:
    make_project(desk.project, {"a/AGENTS.md": "Rule of a.", "a/x.txt": "x\n"})
    desk.wire.reply(tools=[read("a/x.txt")])
    async with desk.open() as talk:
        for number in range(6):
            desk.wire.reply(LONG)
            await talk.session.prompt(f"question {number}")
        assert shown(desk, "Rule of a.") == 1
    async with desk.open(talk.path) as later:
        desk.wire.reply(tools=[read("a/x.txt", limit=1)])
        desk.wire.reply(LONG)
        await later.session.prompt("still there?")
        assert len(told(desk)) == 1 and shown(desk, "Rule of a.") == 1
        for number in range(3):
            desk.wire.reply(LONG)
            await later.session.prompt(f"more {number}")
        desk.wire.reply(SUMMARY)
        assert (await later.session.compact()).key is not None
        desk.wire.reply("Well.")
        await later.session.prompt("after")
        assert shown(desk, "Rule of a.") == 0
        start = len(desk.bodies()) - 1
        desk.wire.reply(tools=[read("a/x.txt")])
        desk.wire.reply("Read.")
        await later.session.prompt("again")
    assert len(told(desk)) == 2 and shown(desk, "Rule of a.") == 1
    check_prefixes(desk, start=start)


async def test_C3_rules_load_when_a_path_matches_and_searches_bring_in_their_folder(one_desk: Desk) -> None:
    desk = one_desk
    make_project(
        desk.project,
        {
            ".claw/rules/py.md": "---\npaths: '*.py'\n---\nUse type hints.",
            ".claw/rules/ts.md": "---\npaths: '*.ts'\n---\nUse no any.",
            "src/m.py": "x = 1\n",
            "src/AGENTS.md": "Rule of src.",
            "lib/AGENTS.md": "Rule of lib.",
            "lib/z.txt": "x\n",
        },
    )
    desk.wire.reply(tools=[read("src/m.py")])
    desk.wire.reply(tools=[("grep", {"pattern": "x", "path": "lib"})])
    desk.wire.reply(tools=[("write", {"path": "src/new.py", "content": "y = 1\n"}), read("src/none.py")])
    desk.wire.reply("Done.")
    async with desk.open() as talk:
        await talk.session.prompt("go")
        report = talk.session.instructions()
    assert ["Use type hints." in text for text in told(desk)] == [True, False, False]
    assert "Rule of src." in told(desk)[1] and "Rule of lib." in told(desk)[2] and len(told(desk)) == 3
    active = {Path(item.path).name: report.is_active(place) for place, item in enumerate(report.items)}
    assert active["py.md"] and not active["ts.md"]
    assert all(report.is_active(n) for n, item in enumerate(report.items) if "Rule of" in item.text)


async def test_K16_what_the_model_has_read_itself_or_was_refused_brings_nothing(one_desk: Desk) -> None:
    desk = one_desk
    make_project(
        desk.project, {"a/AGENTS.md": "Rule of a.\n", "a/x.txt": "x\n", "b/AGENTS.md": "Rule of b.", "b/y.txt": "y"}
    )
    desk.wire.reply(tools=[read("a/AGENTS.md")])
    desk.wire.reply(tools=[read("a/x.txt"), read("b/missing.txt"), ("bash", {"command": "cat b/y.txt"})])
    desk.wire.reply("Done.")
    async with desk.open() as talk:
        await talk.session.prompt("go")
    assert told(desk) == []


async def test_K16_at_most_five_a_turn_and_the_others_in_the_next(one_desk: Desk) -> None:
    desk = one_desk
    make_project(
        desk.project,
        {f"d{n}/AGENTS.md": f"Rule {n}.\n" + "line\n" * 300 for n in range(7)}
        | {f"d{n}/x.txt": "x\n" for n in range(7)},
    )
    desk.wire.reply(tools=[read(f"d{n}/x.txt") for n in range(7)])
    desk.wire.reply(tools=[read("d0/x.txt", limit=1)])
    desk.wire.reply("Done.")
    desk.wire.reply(tools=[read("d0/x.txt", limit=1)])
    desk.wire.reply("Done.")
    async with desk.open() as talk:
        await talk.session.prompt("go")
        assert len(told(desk)) == 5
        assert sum("in one turn" in notice for notice in talk.notices) == 1
        await talk.session.prompt("on")
    texts = told(desk)
    assert len(texts) == 6 and "Rule 0." in texts[5]
    for text in texts:
        assert text.count("\n") < 200 and len(text.encode()) <= 4_096 and "[Cut here. Read " in text


async def test_without_instructions_nothing_of_a_folder_loads(one_desk: Desk) -> None:
    desk = one_desk
    make_project(desk.project, {"a/AGENTS.md": "Rule of a.", "a/x.txt": "x\n"})
    desk.wire.reply(tools=[read("a/x.txt")])
    desk.wire.reply("Done.")
    async with desk.open(no_instructions=True) as talk:
        await talk.session.prompt("go")
    assert told(desk) == []


async def test_M3_a_nested_file_that_changed_or_went_is_told_with_the_next_message(desk: Desk) -> None:
    make_project(desk.project, {"a/AGENTS.md": "Old rule.", "a/x.txt": "x\n"})
    desk.wire.reply(tools=[read("a/x.txt")])
    for _ in range(5):
        desk.wire.reply("Yes.")
    async with desk.open() as talk:
        await talk.session.prompt("first")
        await talk.session.prompt("nothing new")
        (desk.project / "a/AGENTS.md").write_text("New rule.")
        assert str(desk.project.resolve() / "a/AGENTS.md") not in talk.session.instructions().changed
        await talk.session.prompt("second")
        await talk.session.prompt("third")
        (desk.project / "a/AGENTS.md").unlink()
        await talk.session.prompt("fourth")
    texts = told(desk)
    assert ["Old rule." in text for text in texts] == [True, False, False]
    assert "New rule." in texts[1] and "changed on disk" in texts[1] and "It is gone" in texts[2]
    check_prefixes(desk)


async def test_M3_an_included_file_that_changed_is_told_with_its_host(one_desk: Desk) -> None:
    desk = one_desk
    make_project(desk.project, {"AGENTS.md": "Root.\n@docs/more.md\n", "docs/more.md": "More."})
    for _ in range(3):
        desk.wire.reply("Yes.")
    async with desk.open() as talk:
        await talk.session.prompt("first")
        (desk.project / "docs/more.md").write_text("Much more.")
        assert talk.session.instructions().changed == (str(desk.project.resolve() / "AGENTS.md"),)
        await talk.session.prompt("second")
        await talk.session.prompt("third")
    (text,) = told(desk)
    assert "Root." in text and "Much more." in text
    check_prefixes(desk)


async def test_M3_instructions_stay_byte_for_byte_until_they_are_reloaded(desk: Desk) -> None:
    make_project(desk.project, {"AGENTS.md": "Use tabs."})
    for _ in range(4):
        desk.wire.reply("Yes.")
    async with desk.open() as talk:
        before = talk.session.gauge().used_tokens
        (desk.project / "AGENTS.md").write_text("Use blanks. " * 50)
        free = talk.session.reload_instructions()
        assert "free" in free and talk.session.gauge().used_tokens > before
        await talk.session.prompt("first")
        (desk.project / "AGENTS.md").write_text("Use both.")
        await talk.session.prompt("second")
        check_prefixes(desk)
        said = talk.session.reload_instructions()
        assert "prompt cache is lost" in said and str(desk.project.resolve() / "AGENTS.md") in said
        assert "nothing is sent anew" in talk.session.reload_instructions()
        await talk.session.prompt("third")
    system = str([block for role, block in desk.last_flat() if role == "system"])
    assert "Use both." in system and "Use blanks." not in system
    assert len(desk.payloads(Prefix)) == 2 and len(told(desk)) == 1
    sha256 = hashlib.sha256(b"Use both.").hexdigest()
    assert [file.sha256 for file in desk.payloads(Prefix)[1].instruction_files] == [sha256]


async def test_M3_tokens_that_were_estimated_before_the_tokenizer_came_are_no_change(
    one_desk: Desk, tmp_path: Path
) -> None:
    desk = one_desk
    make_project(desk.project, {"AGENTS.md": "Straßenbahn = x1; " * 60})
    desk.wire.reply("Yes.")
    async with desk.open(counter=Counter(tmp_path / "none")) as talk:
        await talk.session.prompt("first")
    async with desk.open(talk.path) as later:
        (counted,) = later.session.instructions().tokens
        assert [file.tokens for file in desk.payloads(Prefix)[0].instruction_files] != [counted]
        assert "nothing is sent anew" in later.session.reload_instructions()


async def test_M3_reload_on_a_resumed_session_comes_behind_its_settings(one_desk: Desk) -> None:
    desk = one_desk
    make_project(desk.project, {"AGENTS.md": "Use tabs."})
    desk.wire.reply("Yes.")
    async with desk.open() as talk:
        await talk.session.prompt("first")
    (desk.project / "AGENTS.md").write_text("Use blanks.")
    async with desk.open(talk.path) as later:
        assert "prompt cache is lost" in later.session.reload_instructions()
        desk.wire.reply("Yes.")
        await later.session.prompt("second")
    assert told(desk) == [] and len(desk.payloads(Prefix)) == 2
    assert "Use blanks." in str([block for role, block in desk.last_flat() if role == "system"])


async def test_K16b_plan_mode_is_told_in_a_session_and_its_end_too(one_desk: Desk) -> None:
    desk = one_desk
    for _ in range(4):
        desk.wire.reply("Yes.")
    async with desk.open(mode="plan") as talk:
        await talk.session.prompt("first")
        await talk.session.prompt("second")
        talk.session.set_mode("auto")
        await talk.session.prompt("third")
        await talk.session.prompt("fourth")
    on, off = told(desk, "mode")
    assert "Plan mode is on" in on and "Plan mode is off" in off
    check_prefixes(desk)


async def test_R7_what_leaves_the_workspace_is_refused_where_nobody_can_be_asked_and_waits_elsewhere(
    one_desk: Desk, tmp_path: Path
) -> None:
    desk, outside = one_desk, tmp_path / "outside.md"
    outside.write_text("Word from outside.")
    make_project(desk.project, {"AGENTS.md": f"Root.\n@{outside}\n"})
    for _ in range(3):
        desk.wire.reply("Yes.")
    async with desk.open() as alone:
        await alone.session.prompt("first")
        assert any("was not included" in notice for notice in alone.notices)
        assert [i.status for item in alone.session.instruction_items() for i in item.includes] == ["refused"]
    async with desk.open(approver=Approver()) as asked:
        (item,) = asked.session.instruction_items()
        assert [include.status for include in item.includes] == ["asks"]
        Consents(desk.home / "state" / "state.toml", desk.project.resolve()).decide(outside.resolve(), True)
        assert "free" in asked.session.reload_instructions()
        await asked.session.prompt("second")
    async with desk.open() as again:
        await again.session.prompt("third")
    assert ["Word from outside." in str(body) for body in desk.bodies()] == [False, True, True]


async def test_I4_system_files_replace_and_extend_the_prompt_of_a_session(desk: Desk) -> None:
    make_project(desk.project, {"AGENTS.md": "Root rule.", ".claw/APPEND_SYSTEM.md": "Project addition."})
    make_project(desk.home / "config", {"SYSTEM.md": "You are a poet.", "APPEND_SYSTEM.md": "User addition."})
    desk.wire.reply("Yes.")
    async with desk.open() as talk:
        await talk.session.prompt("first")
        names = [Path(item.path).name for item in talk.session.instructions().items]
        assert names.count("APPEND_SYSTEM.md") == 2 and "SYSTEM.md" in names and not talk.session.instructions().changed
        assert "nothing is sent anew" in talk.session.reload_instructions()
        (desk.home / "config" / "SYSTEM.md").write_text("You are a painter.")
        assert "prompt cache is lost" in talk.session.reload_instructions()
        desk.wire.reply("Yes.")
        await talk.session.prompt("second")
    first, second = (
        "\n".join(str(block) for role, block in desk.wire.flat(body) if role == "system") for body in desk.bodies()
    )
    assert first.index("You are a poet.") < first.index("User addition.") < first.index("Project addition.")
    assert "Root rule." in first and str(desk.project.resolve()) in first
    assert "painter" in second and "poet" not in second

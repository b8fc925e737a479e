"""Instruction files in the real program: an include that leaves the project is asked about once, and print mode refuses it."""

from pathlib import Path

from tests.fakes.claw_process import run
from tests.fakes.session_kit import Desk, make_project
from tests.tui.program import Program


def test_R7_an_include_that_leaves_the_project_is_asked_about_once(desk: Desk, tmp_path: Path) -> None:
    (outside := tmp_path / "outside.md").write_text("Rule from outside.")
    make_project(desk.project, {"AGENTS.md": f"Rule inside.\n@{outside}\n"})
    desk.wire.otherwise(lambda body: "Answered.")
    with Program(desk, "-m", desk.model, columns=100, rows=30) as claw:
        claw.answer("y", "outside.md")
        claw.ready()
        claw.say("hello")
        claw.wait_for("Answered.")
        claw.idle()
        claw.say("/instructions")
        assert "outside.md" in claw.wait_for("╭─ Instructions")
        claw.type("\x1b")
        claw.wait_for(lambda text: "╭─ Instructions" not in text)
        claw.say("/instructions reload")
        claw.wait_for("Nothing of the instructions has changed")
        claw.quit()
    system = str(desk.bodies()[0])
    assert "Rule inside." in system and "Rule from outside." in system
    with Program(desk, "-m", desk.model, columns=100, rows=30) as claw:
        claw.ready()
        claw.say("again")
        claw.wait_for("Answered.")
        claw.quit()
    assert "Rule from outside." in str(desk.bodies()[-1])


async def test_R7_print_mode_refuses_it_and_says_so(desk: Desk, tmp_path: Path) -> None:
    (outside := tmp_path / "outside.md").write_text("Rule from outside.")
    make_project(desk.project, {"AGENTS.md": f"Rule inside.\n@{outside}\n"})
    desk.wire.reply("Done.")
    result = await run(desk, "-p", "go", "-m", desk.model)
    assert (result.code, result.out) == (0, "Done.\n")
    assert f"AGENTS.md:2: @{outside} was not included" in result.err.replace("\n", " ")
    assert "Rule inside." in str(desk.bodies()[0]) and "Rule from outside." not in str(desk.bodies()[0])


async def test_R7_what_a_rule_forbids_to_read_is_included_by_no_file(desk: Desk) -> None:
    make_project(desk.project, {"AGENTS.md": "Rule inside.\n@secrets/key.txt\n", "secrets/key.txt": "hunter2"})
    config = desk.home / "config" / "config.toml"
    config.write_text(f"{config.read_text()}\n[permissions]\ndeny = ['read(secrets/**)']\n")
    (desk.home / "config" / "AGENTS.md").write_text(f"@{desk.project.resolve()}/secrets/key.txt\n")
    make_project(desk.project, {".claw/config.toml": "[instructions]\nfiles = ['secrets/key.txt']\n"})
    desk.wire.reply("Done.")
    result = await run(desk, "-p", "go", "-m", desk.model)
    assert result.code == 0 and "a permission rule keeps it from being read" in result.err.replace("\n", " ")
    assert "Rule inside." in str(desk.bodies()[0]) and "hunter2" not in str(desk.bodies()[0])
    shown = (await run(desk, "instructions", "--json")).out
    assert "a permission rule keeps it from being read" in shown and "hunter2" not in shown


async def test_K2_I2_M2_the_command_line_and_the_configuration_decide_what_is_sent(desk: Desk, tmp_path: Path) -> None:
    make_project(desk.project, {"AGENTS.md": "Project rule."})
    make_project(tmp_path / "added", {"AGENTS.md": "Added rule."})
    (desk.home / "config" / "AGENTS.md").write_text("Own rule.\n")
    rules = ("Own rule.", "Project rule.", "Added rule.", "Last word.")

    async def sent(*arguments: str) -> str:
        desk.wire.reply("Done.")
        result = await run(desk, "-p", "go", "-m", desk.model, "--no-session", *arguments)
        assert result.code == 0, result.err
        return str(desk.bodies()[-1])

    added = ("--add-dir", str(tmp_path / "added"), "--config", 'instructions.text="Last word."')
    everything = await sent(*added)
    places = [everything.index(rule) for rule in rules]
    assert places == sorted(places) and "<project_instructions path=" in everything
    alone = await sent(*added, "--no-instructions")
    assert not any(rule in alone for rule in rules)
    own = await sent(*added, "--config", 'instructions.layers=["user"]', "--config", 'instructions.format="headings"')
    assert "Own rule." in own and "Project rule." not in own and "Added rule." not in own
    assert f"# Instructions from {desk.home.resolve()}" in own and "<project_instructions" not in own
    without = await sent("--config", 'instructions.exclude=["AGENTS.md"]')
    assert "Project rule." not in without

"""`claw instructions`: the tree, the JSON, and lint with its exit codes; and the same tree on the screen."""

import hashlib

import pytest

from agent.instructions.item import Include, InstructionItem
from agent.instructions.report import Finding, InstructionsReport
from tests.fakes.claw_process import run
from tests.fakes.session_kit import Desk, make_project
from tests.tui.harness import late_key, press, running, screen_text, until
from tui.screens.instructions import InstructionsScreen, instruction_rows
from tui.subcommands.instruction_tree import NOTHING, finding_text, tree_rows

FILES = {
    "AGENTS.md": "Root rule. [/x]\n@docs/more.md\n@gone.md\n",
    "docs/more.md": "More.",
    "CLAUDE.md": "Root rule.",
    ".claw/rules/py.md": "---\npaths: '*.py'\n---\nUse type hints.",
    "a/AGENTS.md": "Rule of a.",
    "a/x.py": "x = 1\n",
}
KEYS = {
    "path", "layer", "reason", "tokens", "sha256", "loaded", "skipped_because", "cut_chars", "duplicates", "condition",
    "active", "includes",
}  # fmt: skip


async def test_instructions_are_told_with_size_hash_and_why(desk: Desk) -> None:
    nothing = await run(desk, "instructions")
    assert (nothing.code, nothing.out) == (0, f"{NOTHING}\n")
    make_project(desk.project, FILES | {".claude/CLAUDE.md": "Root rule."})
    (desk.home / "config" / "AGENTS.md").write_text("Mine.\n")
    result = (await run(desk, "instructions", "--json")).json
    assert result.keys() == {"files", "warnings"} and all(file.keys() == KEYS for file in result["files"])
    root = desk.project.resolve()
    by_name = {file["path"].removeprefix(f"{root}/"): file for file in result["files"]}
    file = by_name["AGENTS.md"]
    assert file["sha256"] == hashlib.sha256(FILES["AGENTS.md"].encode()).hexdigest()
    assert file["loaded"] and file["active"] and file["layer"] == "project" and 0 < file["tokens"] < 80
    more, gone = file["includes"]
    assert (more["written"], more["line"], more["status"]) == ("@docs/more.md", 2, "followed")
    assert (gone["line"], gone["status"]) == (3, "refused") and gone["reason"]
    assert any("@gone.md" in warning for warning in result["warnings"])
    rule, nested = by_name[".claw/rules/py.md"], by_name["a/AGENTS.md"]
    assert not rule["loaded"] and not rule["active"] and "*.py" in rule["condition"]
    assert not nested["loaded"] and not nested["active"] and str(root / "a") in nested["condition"]
    twin = by_name[".claude/CLAUDE.md"]
    assert not twin["loaded"] and "the same text" in twin["skipped_because"] and file["condition"] is None
    text = (await run(desk, "instructions")).out
    assert "AGENTS.md  (loaded; user; " in text and "line 3: @gone.md → " in text and "skipped: the same text" in text
    assert "not active" in text and "warning: " in text and "\x1b" not in text


async def test_what_changed_since_the_newest_session_and_what_is_active_in_it_is_told(desk: Desk) -> None:
    make_project(desk.project, FILES)
    desk.wire.reply(tools=[("read", {"path": "a/x.py"})])
    desk.wire.reply("Done.")
    async with desk.open() as talk:
        await talk.session.prompt("go")
        assert not talk.session.instructions().changed
    assert "changed on disk" not in (await run(desk, "instructions")).out
    (desk.project / "docs/more.md").write_text("Other.")
    text = (await run(desk, "instructions")).out
    assert text.count("changed on disk since the newest session began") == 1 and text.count("(active now)") == 2
    files = (await run(desk, "instructions", "--json")).json["files"]
    assert [file["path"].rsplit("/", 1)[-1] for file in files if file["active"] and not file["loaded"]] == [
        "py.md",
        "AGENTS.md",
    ]


async def test_lint_prints_findings_and_its_exit_code_is_fit_for_ci(desk: Desk) -> None:
    clean = await run(desk, "instructions", "lint")
    assert (clean.code, clean.out) == (0, "No findings.\n")
    make_project(desk.project, {"AGENTS.md": "Hello ${nope}.\n"})
    warned = await run(desk, "instructions", "lint")
    path = desk.project.resolve() / "AGENTS.md"
    assert warned.code == 0 and warned.out.startswith(f"{path}:1: warning: ${{nope}} is no variable")
    make_project(desk.project, {"AGENTS.md": "Hello.\n\n@gone.md\n"})
    failed = await run(desk, "instructions", "lint")
    assert (
        failed.code == 1
        and f"{path}:3: error: @gone.md is not included" in failed.out
        and "[dead_include]" in failed.out
    )
    found = (await run(desk, "instructions", "lint", "--json")).json
    assert [(one["line"], one["kind"], one["severity"]) for one in found] == [(3, "dead_include", "error")]
    for wrong in (("instructions", "lnit"), ("instructions", "lint", "x"), ("instructions", "--yaml")):
        usage = await run(desk, *wrong)
        assert usage.code == 2 and usage.err.startswith("claw: ")


# --------------------------------------------------------------------------- rows and screen


def report(**fields: object) -> InstructionsReport:
    evil = "/p/\x1b]0;t\x07[@click=app.quit]x[b]\nAGENTS.md"
    items = (
        InstructionItem(evil, "project", "in the project", text="x", sha256="ab" * 32, hidden={"bidi": 2}, cut_chars=1_200),
        InstructionItem("/p/CLAUDE.md", "project", "r", "skipped", "the same file as /p/AGENTS.md", duplicates=("/p/A.md",)),
        InstructionItem("/p/r.md", "project", "r", "conditional", condition="paths: *.py", line=7),
        InstructionItem(
            "config", "config", "instructions in config.toml",
            includes=(Include("@a", 3, "/p/a", includes=(Include("@b\x1b[2J", 4, "", "refused", "why"),)),),
        ),
    )  # fmt: skip
    values = {"items": items, "tokens": (1_000, 0, 20, 300), "changed": (evil,), "told": (2,)}
    return InstructionsReport(**(values | fields))  # type: ignore[arg-type] # any field


def test_a_tree_tells_everything_of_a_file_and_lets_nothing_of_it_act() -> None:
    text = "\n".join(row.text for row in tree_rows(report(), "since then"))
    assert "\x1b" not in text and "\x07" not in text and "[@click=app.quit]x[b]" in text
    for part in (
        "changed on disk since then", "cut: 1,200 characters", "2 bidi", "the same as /p/A.md", "r.md:7", "(active now)",
        "line 3: @a → /p/a (followed, 0 characters)", "(refused: why)", "1,320 tokens in force", "config.toml",
    ):  # fmt: skip
        assert part in text, part
    assert all("\n" not in row.text for row in tree_rows(report(), "since then"))
    assert "not active" in "\n".join(row.text for row in tree_rows(report(told=()), "since then"))
    finding = Finding("/p/\x1b[2J", 0, "cycle", "error", "a\nb")
    assert finding_text(finding) == "/p/␛[2J: error: a␊b [cycle]"


def test_nothing_at_all_is_said_too() -> None:
    rows = instruction_rows(InstructionsReport((), ()))
    assert rows[0].text == NOTHING and "r reads them anew" in rows[-1].text


@pytest.mark.parametrize("size", [(80, 24), (30, 8)])
async def test_the_screen_shows_tree_findings_and_changes_and_r_asks_for_a_reload(size: tuple[int, int]) -> None:
    wishes: list[str | None] = []
    shown = report(findings=(Finding("/p/A.md", 3, "cycle", "error", "round and round"),))
    async with running(size=size) as (app, _):
        screen = InstructionsScreen(shown)
        app.push_screen(screen, wishes.append)
        await until(lambda: "/p" in screen_text(app))
        await press(app, "end")
        await until(lambda: "prompt cache" in screen_text(app) or "cache." in screen_text(app))
        if size[1] > 20:
            assert "round and round [cycle]" in screen_text(app)
            assert "different on disk" in screen_text(app)
        await late_key(app, "r")
        await until(lambda: wishes)
        assert wishes == ["reload"]


async def test_a_key_that_was_typed_before_the_screen_was_there_reloads_nothing() -> None:
    wishes: list[str | None] = []
    async with running() as (app, _):
        app.push_screen(InstructionsScreen(report()), wishes.append)
        await until(lambda: "/p" in screen_text(app))
        await press(app, "r")
        assert wishes == []
        await press(app, "q")
        await until(lambda: wishes)
        assert wishes == [None]

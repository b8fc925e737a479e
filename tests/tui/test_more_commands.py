"""The commands around a session: effort, clipboard, export, diff, side questions, configuration, fork."""

import asyncio
from pathlib import Path

import pytest

from agent.events import MessageCompleted, ToolFinished
from agent.git_diff import GitDiff
from agent.side_question import SideAnswer
from agent.tools.details import DiffDetails, TextDetails
from providers.errors import OverloadedError
from providers.types import TextBlock, Usage
from tests.tui.fake_session import Opener
from tests.tui.harness import press, resize, running, screen_text, settle, type_in, until
from tests.tui.test_app_literal import ALL, CONTROLS, is_clean
from tui.answers import answers, code_blocks
from tui.bridge import Target
from tui.screens.diff import DiffScreen, edit_rows, git_rows
from tui.screens.side_question import SideQuestionScreen
from tui.session_export import ExportError, export_target

ANSWER = "Two blocks:\n\n```python\nprint(1)\n```\n\nand\n\n~~~sh\nls\n~~~\n"


def said(text: str, key: int = 1) -> MessageCompleted:
    return MessageCompleted(key, (TextBlock(text),), Usage(), None, "end_turn")


def edited(path: str, diff: str, *, is_error: bool = False) -> ToolFinished:
    return ToolFinished(f"c{path}", "edit", 1, is_error, DiffDetails(path, diff, 1, 1), "")


# --------------------------------------------------------------------------- effort


async def test_effort_is_shown_set_and_refused_by_what_the_model_knows() -> None:
    async with running(Opener(efforts=("low", "high"))) as (app, opener):
        await type_in(app, "/effort")
        await until(lambda: "as the provider decides" in screen_text(app) and "/effort low|high" in screen_text(app))
        await type_in(app, "/effort HIGH")
        await until(lambda: opener.session.effort == "high")
        for wrong in ("off", "medium", "11", "[b]"):
            await type_in(app, f"/effort {wrong}")
            await until(lambda: f"There is no effort {wrong} here." in screen_text(app))  # noqa: B023 - awaited at once
        assert opener.session.effort == "high"


async def test_a_model_that_cannot_think_says_so() -> None:
    async with running(Opener(efforts=())) as (app, opener):
        await type_in(app, "/effort high")
        await until(lambda: "demo cannot be told how much to think" in screen_text(app))
        assert opener.session.effort is None


# --------------------------------------------------------------------------- copy


async def test_copy_takes_answers_by_number_and_code_blocks_by_choice() -> None:
    past = (said("the first"), said(""), said(ANSWER, 2))
    async with running(Opener(past=past)) as (app, _):
        for command, expected in (
            ("/copy", ANSWER), ("/copy 2", "the first"), ("/copy code 1", "print(1)"), ("/copy code 2", "ls"),
        ):  # fmt: skip
            await type_in(app, command)
            await until(lambda: app.clipboard == expected)  # noqa: B023 - awaited at once
        await type_in(app, "/copy code")
        await until(lambda: "Code blocks" in screen_text(app) and "python 1 line" in screen_text(app))
        await press(app, "enter")
        await until(lambda: app.clipboard == "print(1)" and len(app.screen_stack) == 1)
        for wrong, told in (
            ("3", "There are 2."),
            ("0", "There are 2."),
            ("x", "/copy code"),
            ("code 9", "no code block 9"),
        ):
            await type_in(app, f"/copy {wrong}")
            await until(lambda: told in screen_text(app))  # noqa: B023 - awaited at once
        assert app.clipboard == "print(1)"


async def test_copy_without_an_answer_or_code_says_so() -> None:
    async with running() as (app, _):
        await type_in(app, "/copy")
        await until(lambda: "There is no answer to copy yet." in screen_text(app))
    async with running(Opener(past=(said("only words"),))) as (app, _):
        await type_in(app, "/copy code")
        await until(lambda: "holds no code block" in screen_text(app))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []), ("no code", []), ("```\na\n```", [("", "a")]), ("```js x\na\n\nb\n```\nz", [("js x", "a\n\nb")]),
        ("````md\n```\ninner\n```\n````", [("md", "```\ninner\n```")]), ("~~~\n```\n~~~", [("", "```")]),
        ("```\nnever closed", [("", "never closed")]), ("   ```\nx\n   ```", [("", "x")]), ("    ```\nx", []),
        ("`inline` ```x``` y", []), ("```\n``` \n```\nb\n```", [("", ""), ("", "b")]),
    ],
)  # fmt: skip
def test_code_blocks_are_found_as_markdown_fences_them(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(block.language, block.text) for block in code_blocks(text)] == expected


def test_answers_are_the_newest_first_and_never_empty() -> None:
    assert answers([said("a"), said(" "), said("b")]) == ["b", "a"]


# --------------------------------------------------------------------------- diff


def test_edits_are_shown_by_file_and_failed_ones_are_not() -> None:
    rows = edit_rows(
        [
            edited("a.py", "@@ -1 +1 @@\n-x\n+y"),
            edited("b.py", "@@ -1 +1 @@\n-p\n+q"),
            edited("a.py", "@@ -2 +2 @@\n-y\n+z"),
            edited("c.py", "+never", is_error=True),
            ToolFinished("r", "read", 1, False, TextDetails("10 lines"), ""),
        ]
    )
    texts = [row.text for row in rows]
    assert texts[0] == "a.py  +2 -2 in 2 edits" and texts.index("+z") < texts.index("b.py  +1 -1")
    assert not any("never" in text or "c.py" in text for text in texts)
    assert "has edited no file" in edit_rows([])[0].text


def test_what_git_says_is_shown_with_what_it_does_not_track() -> None:
    rows = git_rows(GitDiff("diff --git a/x b/x\n-old\n+new\n", tuple(f"f{n}" for n in range(60)), is_cut=True))
    texts = [row.text for row in rows]
    assert "+new" in texts and "f0" in texts and "f59" not in texts and any("too long" in text for text in texts)
    assert "No tracked file differs" in git_rows(GitDiff(""))[0].text


async def test_diff_goes_from_the_agents_edits_to_git_and_back(tmp_path: Path) -> None:
    opener = Opener(past=(edited(f"{ALL}.py", f"@@ -1 +1 @@\n-{CONTROLS}\n+{ALL}"),), cwd=tmp_path, project=tmp_path)
    async with running(opener, size=(110, 30)) as (app, _):
        await type_in(app, "/diff")
        await until(lambda: isinstance(app.screen, DiffScreen) and "What the agent edited" in screen_text(app))
        await until(lambda: "[red]x" in screen_text(app))
        assert is_clean(screen_text(app))
        await press(app, "g")
        await until(lambda: "in no git repository" in screen_text(app))
        await press(app, "g")
        await until(lambda: "What the agent edited" in screen_text(app))
        await press(app, "escape")
        assert len(app.screen_stack) == 1


# --------------------------------------------------------------------------- side questions


async def test_a_side_question_is_answered_in_a_dialog_and_stays_out_of_the_transcript() -> None:
    async with running() as (app, opener):
        await type_in(app, "/btw what colour is it?")
        await until(lambda: "It is [b]red[/b]." in screen_text(app) and "kept nowhere · $0.01" in screen_text(app))
        assert opener.session.calls == [("aside", "what colour is it?")]
        await press(app, "q")
        await until(lambda: len(app.screen_stack) == 1)
        assert "[b]red[/b]" not in screen_text(app)


async def test_the_answer_is_drawn_as_replies_are_and_read_from_its_beginning() -> None:
    text = "# Title\n\n**bold** and `code`\n\n| a | b |\n|---|---|\n| 1 | two |\n\n" + "\n".join(
        f"- item {n}" for n in range(40)
    )
    async with running(Opener(aside_pieces=(text[:50], text[50:]), aside=SideAnswer(text))) as (app, opener):
        opener.session.aside_gate.clear()
        await type_in(app, "/btw why?")
        await until(lambda: "• item 5" in screen_text(app))
        shown = screen_text(app)
        assert "▌ why?" in shown and "bold and code" in shown and "1 │ two" in shown and "**" not in shown
        await press(app, "end")
        assert "• item 38" in screen_text(app) and "▌ why?" not in screen_text(app)
        opener.session.aside_gate.set()
        await until(lambda: "kept nowhere" in screen_text(app) and "• item 39" in screen_text(app))
        await press(app, "home", "down")
        assert "▌ why?" not in screen_text(app) and "bold and code" in screen_text(app)
        await resize(app, 30, 9)
        assert "• item" not in screen_text(app) and "bold and code" in screen_text(app)


async def test_an_answer_that_is_tried_again_begins_anew() -> None:
    screen = SideQuestionScreen("why?")
    async with running() as (app, _):
        app.push_screen(screen)
        screen.take("Half a sen")
        await until(lambda: "Half a sen" in screen_text(app))
        screen.start_over("busy [b]")
        await until(lambda: "busy [b]; trying again" in screen_text(app) and "Half" not in screen_text(app))
        screen.answer(SideAnswer("Whole."))
        await until(lambda: "Whole." in screen_text(app) and "kept nowhere" in screen_text(app))


async def test_the_answer_is_shown_while_it_is_written_and_escape_ends_the_call() -> None:
    async with running() as (app, opener):
        opener.session.aside_gate.clear()
        await type_in(app, "/btw why?")
        await until(lambda: "It is [b]red[/b]." in screen_text(app) and "asking…" in screen_text(app))
        await press(app, "q", "enter")
        assert isinstance(app.screen, SideQuestionScreen)
        await press(app, "escape")
        await until(lambda: ("aside cancelled",) in opener.session.calls and len(app.screen_stack) == 1)


async def test_a_side_question_works_while_a_turn_runs_and_interrupts_nothing() -> None:
    async with running() as (app, opener):
        await type_in(app, "work")
        await until(lambda: opener.session.running)
        await type_in(app, "/btw why?")
        await until(lambda: "kept nowhere" in screen_text(app))
        await press(app, "escape")
        await settle(app)
        assert opener.session.running and ("interrupt",) not in opener.session.calls


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (SideAnswer("", wanted_tool="read"), "wanted to use read"), (SideAnswer(""), "said nothing"),
        (SideAnswer("half", is_cut=True), "cut off"), (OverloadedError("busy [b]", remedy="Wait."), "busy [b]"),
    ],
)  # fmt: skip
async def test_every_end_of_a_side_question_is_told(outcome: SideAnswer | Exception, told: str) -> None:
    async with running(Opener(aside=outcome)) as (app, _):
        await type_in(app, "/btw why?")
        await until(lambda: told in screen_text(app))
        await press(app, "enter")
        await until(lambda: len(app.screen_stack) == 1)


async def test_B24_question_and_answer_are_literal() -> None:
    async with running(Opener(aside=SideAnswer(f"{ALL}\n{CONTROLS}")), size=(200, 40)) as (app, _):
        app.overlays.ask_aside(app.current.session, f"{ALL}{CONTROLS}")  # type: ignore[arg-type] # it is open
        await until(lambda: screen_text(app).count("[red]x [/closing]") >= 2)
        assert is_clean(screen_text(app))


async def test_a_side_question_without_a_question_asks_for_one() -> None:
    async with running() as (app, opener):
        await type_in(app, "/btw ")
        await until(lambda: "/btw QUESTION" in screen_text(app))
        assert opener.session.calls == []


# --------------------------------------------------------------------------- configuration, export, fork


async def test_config_shows_what_is_in_force() -> None:
    shown = '# model is not set  # the model\n\n[tui]\ntheme = "x"  # user config.toml:3: the colours\n# error: bad [b]key[/b]\n'
    async with running(show_config=lambda: f"{shown}{CONTROLS}\n" + "x = 1\n" * 50) as (app, _):
        await type_in(app, "/config")
        await until(lambda: "config.toml:3" in screen_text(app) and "bad [b]key[/b]" in screen_text(app))
        await until(lambda: "more rows" in screen_text(app))
        assert is_clean(screen_text(app))
        await press(app, "end", "escape")
        assert len(app.screen_stack) == 1


async def test_export_names_the_session_and_the_file_and_tells_failures() -> None:
    asked: list[tuple[str, str]] = []

    def export(session_id: str, file: str) -> str:
        asked.append((session_id, file))
        if file == "there.md":
            raise ExportError("there.md exists already.")
        return "Exported to /tmp/x.md (10 bytes)."

    async with running(export=export) as (app, opener):
        await type_in(app, "/export")
        await until(lambda: "Exported to /tmp/x.md" in screen_text(app))
        await type_in(app, "/export there.md")
        await until(lambda: "Nothing was exported: there.md exists already." in screen_text(app))
        assert asked == [(opener.session.id, ""), (opener.session.id, "there.md")]


def test_an_export_goes_where_it_was_told_and_never_over_a_folder(tmp_path: Path) -> None:
    assert export_target(tmp_path, "2026-x/..", "") == tmp_path / "claw-2026-x___.md"
    assert export_target(tmp_path, "s", " 'a b.json' ") == tmp_path / "a b.json"
    (tmp_path / "d").mkdir()
    for wrong in ("d", ".", "a\0b"):
        with pytest.raises(ExportError):
            export_target(tmp_path, "s", wrong)


async def test_fork_opens_a_copy_of_the_session_and_not_while_it_works() -> None:
    async with running() as (app, opener):
        first = opener.session.id
        await type_in(app, "/fork")
        await until(lambda: Target("fork", first) in opener.targets and len(opener.sessions) == 2)
        await until(lambda: app.current.session is opener.session)
        await until(lambda: f"A copy: session {opener.session.id}" in screen_text(app))
        await type_in(app, "work")
        await until(lambda: opener.session.running)
        await type_in(app, "/fork")
        await until(lambda: "Not while it works" in screen_text(app))
        assert len(opener.sessions) == 2
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "side question"]

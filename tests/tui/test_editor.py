import asyncio
import os
from pathlib import Path

import pytest

from tests.agent.processes.marks import comes_true, marked, new_mark
from tests.agent.processes.running import linux_only
from tui.composing.editor import EditorError, edit_text, find_editor


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def test_visual_comes_before_editor_and_keeps_its_arguments(tmp_path: Path, project: Path) -> None:
    mine = script(tmp_path / "bin" / "mine", "true")
    env = {"VISUAL": "mine --wait 'a b'", "EDITOR": "vi", "PATH": f"relative:{mine.parent}"}
    assert find_editor(env, project) == [str(mine), "--wait", "a b"]
    assert find_editor({"EDITOR": str(mine)}, project) == [str(mine)]


def test_without_a_word_one_of_the_usual_ones(tmp_path: Path, project: Path) -> None:
    vi = script(tmp_path / "bin" / "vi", "true")
    assert find_editor({"VISUAL": " ", "PATH": "/x"}, project, (str(vi.parent),)) == [str(vi)]
    with pytest.raises(EditorError, match="Set VISUAL"):
        find_editor({}, project, ())


@pytest.mark.parametrize("how", ["absolute", "relative", "by PATH", "by a link"])
def test_R8_never_an_editor_from_the_project(
    tmp_path: Path, project: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = script(project / "bin" / "vim", "touch ran")
    monkeypatch.chdir(project)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "ed").symlink_to(evil)
    env = {
        "absolute": {"EDITOR": str(evil)},
        "relative": {"EDITOR": "bin/vim"},
        "by PATH": {"EDITOR": "vim", "PATH": f"{evil.parent}"},
        "by a link": {"EDITOR": str(tmp_path / "out" / "ed")},
    }[how]
    with pytest.raises(EditorError, match=r"\$EDITOR is"):
        find_editor(env, project)
    with pytest.raises(EditorError, match="no such program"):
        find_editor({"EDITOR": "vim", "PATH": ".:bin:"}, project)


def test_where_the_project_is_the_home_folder_the_users_programs_are_no_projects(tmp_path: Path) -> None:
    mine = script(tmp_path / "bin" / "ed", "true")
    env = {"EDITOR": str(mine), "HOME": str(tmp_path)}
    assert find_editor(env, tmp_path) == [str(mine)]


@pytest.mark.parametrize("wanted", ["'unclosed", "/no/such/editor", "no-such-editor-x"])
def test_what_cannot_be_run_is_named(project: Path, wanted: str) -> None:
    with pytest.raises(EditorError, match=r"\$VISUAL"):
        find_editor({"VISUAL": wanted, "PATH": os.defpath}, project)


async def test_the_text_comes_back_as_it_was_left(tmp_path: Path) -> None:
    editor = script(
        tmp_path / "ed", 'pwd; cat "$1" > seen; printf "ü changed\\nline\\n" >> "$1"; test "$PWD" != "$OLDPWD"'
    )
    assert await edit_text([str(editor)], "before\n") == "before\nü changed\nline"
    unchanged = script(tmp_path / "ed2", "true")
    for text in ("", "x", "two\nlines", "é\ttab"):
        assert await edit_text([str(unchanged)], text) == text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("exit 3", "exit code 3"),
        ("kill -9 $$", "signal 9"),
        ('rm "$1"', "cannot be used"),
        ('rm "$1"; mkdir "$1"', "cannot be used"),
        ('head -c 17000000 /dev/zero > "$1"', "more than"),
    ],
)
async def test_a_failing_editor_says_why(tmp_path: Path, body: str, said: str) -> None:
    with pytest.raises(EditorError, match=said):
        await edit_text([str(script(tmp_path / "ed", body))], "text")
    with pytest.raises(EditorError, match="cannot be used"):
        await edit_text([str(tmp_path / "gone")], "text")


@linux_only
async def test_cancelled_it_ends_the_editor_and_what_that_has_started(tmp_path: Path) -> None:
    mark = new_mark()
    stubborn = script(tmp_path / "ed", f"trap '' TERM HUP\nsleep {mark} &\nsleep {mark}\nsleep {mark}")
    editing = asyncio.ensure_future(edit_text([str(stubborn)], "text"))
    assert await comes_true(lambda: len(marked(mark)) == 2)
    editing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await editing
    assert await comes_true(lambda: not marked(mark))

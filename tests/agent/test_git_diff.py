"""git's view of a repository, and that nothing in a hostile one runs."""

import asyncio
import os
from pathlib import Path

import pytest

from agent import git_diff as module
from agent.git_diff import GitError, git_diff, git_program
from tests.fakes.session_kit import git


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    (folder / "a.txt").write_text("one\ntwo\n")
    git(folder, "add", "a.txt")
    git(folder, "commit", "-qm", "first")
    return folder


async def test_changes_staged_ones_and_new_files_are_seen(tmp_path: Path) -> None:
    folder = repository(tmp_path / "r")
    (folder / "a.txt").write_text("one\nTWO\n")
    (folder / "staged.txt").write_text("staged\n")
    git(folder, "add", "staged.txt")
    (folder / "näu.txt").write_text("x")
    (folder / "sub").mkdir()
    found = await git_diff(folder / "sub", folder)
    assert "-two" in found.diff and "+TWO" in found.diff and "+staged" in found.diff and not found.is_cut
    assert (await git_diff(folder, folder)).untracked == ("näu.txt",)


async def test_a_repository_without_a_commit_has_a_diff_too(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a.txt").write_text("x\n")
    git(tmp_path, "add", "a.txt")
    assert "+x" in (await git_diff(tmp_path, tmp_path)).diff


async def test_a_folder_without_a_repository_is_told(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="in no git repository"):
        await git_diff(tmp_path, tmp_path)


async def test_R6_nothing_that_a_repository_names_runs(tmp_path: Path) -> None:
    folder, marker = repository(tmp_path / "r"), tmp_path / "ran"
    script = tmp_path / "evil"
    script.write_text(f'#!/bin/sh\necho "$0 $*" >> {marker}\ncat\n')
    script.chmod(0o755)
    for name, value in {
        "core.fsmonitor": str(script), "core.pager": str(script), "diff.external": str(script),
        "diff.x.textconv": str(script), "diff.x.command": str(script), "core.hooksPath": str(tmp_path),
        "filter.f.clean": str(script), "filter.f.smudge": str(script), "filter.g.process": str(script),
        "filter.g.required": "true", "filter.f.required": "true", "filter.a b.clean": str(script), "core.sshCommand": str(script),
        "log.showSignature": "true", "gpg.program": str(script), "core.editor": str(script),
    }.items():  # fmt: skip
        git(folder, "config", name, value)
    (folder / ".gitattributes").write_text("*.txt diff=x filter=f\n*.dat filter=g\n")
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "attributes").write_text('a.txt filter=f diff=x\n*.c filter="a b"\n')
    (folder / "a.txt").write_text("changed\n")
    (folder / "b.dat").write_text("new\n")
    os.utime(folder / "a.txt", (1, 1))
    found = await git_diff(folder, folder)
    assert "+changed" in found.diff
    assert not marker.exists(), marker.read_text()


async def test_R6_a_submodule_of_the_repository_is_not_entered(tmp_path: Path) -> None:
    inner, marker = repository(tmp_path / "inner"), tmp_path / "ran"
    folder = repository(tmp_path / "r")
    git(folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    git(folder, "commit", "-qm", "sub")
    script = tmp_path / "evil"
    script.write_text(f"#!/bin/sh\ntouch {marker}\ncat\n")
    script.chmod(0o755)
    git(folder / "sub", "config", "filter.f.clean", str(script))
    git(folder / "sub", "config", "core.fsmonitor", str(script))
    (folder / "sub" / ".gitattributes").write_text("* filter=f\n")
    (folder / "sub" / "a.txt").write_text("other\n")
    marker.unlink(missing_ok=True)  # setting it up may have run it
    assert (await git_diff(folder, folder)).diff == ""
    assert not marker.exists()


def test_R6_git_inside_the_workspace_is_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "git"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    monkeypatch.setattr(module, "_PLACES", ())
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), ".", "", str(tmp_path / "link")]))
    (tmp_path / "link").symlink_to(tmp_path)
    assert git_program(tmp_path, places=()) is None
    assert git_program(tmp_path / "elsewhere", places=()) == str(fake)


async def test_a_large_diff_is_cut_and_says_so(tmp_path: Path) -> None:
    folder = repository(tmp_path / "r")
    (folder / "a.txt").write_text("x" * 99 + "\n" + "line of text\n" * 600_000)
    found = await git_diff(folder, folder)
    assert found.is_cut and len(found.diff) <= module.MOST_BYTES
    assert asyncio.all_tasks() == {asyncio.current_task()}

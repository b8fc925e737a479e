import os
from pathlib import Path

import pytest

from agent.instructions.discovery import system_prompt_files
from agent.instructions.item import warnings
from agent.prompt import build_sections, session_facts
from tests.agent.instructions.kit import Tree

BODY = ["identity", "working", "tools", "safety", "answers"]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path.resolve())


def names(tree: Tree, *, trusted: bool = True) -> list[tuple[str, str]]:
    files = system_prompt_files(tree.place(trusted=trusted))
    facts = session_facts(tree.cwd, tree.project, instructions="The instructions.", appended="Flag.", files=files)
    return [(section.name, section.text) for section in build_sections(facts)]


def test_I4_without_such_files_the_built_in_body_holds(tree: Tree) -> None:
    files = system_prompt_files(tree.place())
    assert (files.replacement, files.appended, files.sources) == (None, (), ())
    assert [name for name, _ in names(tree)] == [*BODY, "environment", "appended", "instructions"]


def test_I4_SYSTEM_replaces_the_body_alone_and_the_rest_is_still_assembled(tree: Tree) -> None:
    tree.write("home/c/SYSTEM.md", "\nI am the user's.\n")
    found = names(tree)
    assert [name for name, _ in found] == ["system", "environment", "appended", "instructions"]
    assert found[0][1] == "I am the user's." and str(tree.cwd) in found[1][1]
    assert found[2][1] == "Flag." and found[3][1] == "The instructions."
    facts = session_facts(tree.cwd, tree.project, files=system_prompt_files(tree.place()))
    assert [section.static for section in build_sections(facts)] == [True, False]


def test_I4_the_trusted_projects_SYSTEM_counts_before_the_users(tree: Tree) -> None:
    tree.write("home/c/SYSTEM.md", "user's")
    tree.write("project/.claw/SYSTEM.md", "project's @x.md ${home} <!-- kept -->")
    assert names(tree)[0] == ("system", "project's @x.md ${home} <!-- kept -->")
    assert names(tree, trusted=False)[0] == ("system", "user's")
    project, user = system_prompt_files(tree.place()).sources
    assert project.is_loaded and user.skipped_because == f"{project.path} counts in its place"
    untrusted = system_prompt_files(tree.place(trusted=False)).sources
    assert [item.skipped_because for item in untrusted] == ["the folder is not trusted", ""]


def test_I4_APPEND_adds_the_users_then_the_projects_then_the_command_lines(tree: Tree) -> None:
    tree.write("project/.claw/APPEND_SYSTEM.md", "project")
    tree.write("home/c/APPEND_SYSTEM.md", "user")
    assert dict(names(tree))["appended"] == "user\n\nproject\n\nFlag."
    assert dict(names(tree, trusted=False))["appended"] == "user\n\nFlag."


def test_I4_what_cannot_be_used_is_reported_and_changes_nothing(tree: Tree) -> None:
    secret = tree.write("home/secret", "secret")
    (tree.project / ".claw").mkdir()
    (tree.project / ".claw" / "SYSTEM.md").symlink_to(secret)
    os.mkfifo(tree.project / ".claw" / "APPEND_SYSTEM.md")
    tree.write("home/c/SYSTEM.md", "open").chmod(0o666)
    (tree.paths.config / "APPEND_SYSTEM.md").write_bytes(b"\0\1\2" * 50)
    files = system_prompt_files(tree.place())
    assert (files.replacement, files.appended) == (None, ())
    found = warnings(files.sources)
    assert len(found) == 4
    for part, line in zip(("leads out of", "anyone may write", "not text", "FIFO"), found, strict=True):
        assert part in line


def test_I4_an_empty_SYSTEM_does_not_leave_the_model_without_a_prompt(tree: Tree) -> None:
    tree.write("project/.claw/SYSTEM.md", " \n")
    tree.write("home/c/SYSTEM.md", "user's")
    assert names(tree)[0] == ("system", "user's")

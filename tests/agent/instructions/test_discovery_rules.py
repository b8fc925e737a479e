import os
import time
from pathlib import Path

import pytest

from agent.config.schema import InstructionsConfig
from agent.instructions.candidates import MOST_RULES
from agent.instructions.discovery import discover_nested
from agent.instructions.item import InstructionItem, warnings
from agent.instructions.loader import recorded, render
from agent.instructions.rules import matches
from tests.agent.instructions.kit import Tree, includes, loaded, reasons, skipped, value


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path.resolve())


def nested(tree: Tree, folder: str, known: tuple[InstructionItem, ...] = ()) -> tuple[InstructionItem, ...]:
    return discover_nested(tree.place(), InstructionsConfig(), tree.root / folder, known=known)


def test_K2_rules_stand_at_their_place_in_the_order_of_a_folder(tree: Tree) -> None:
    for path in (
        *("managed/CLAUDE.md", "managed/rules/b.md", "managed/rules/a.md"),
        *("home/c/AGENTS.md", "home/c/rules/x.md", "home/c/rules/sub/a.md"),
        *("project/AGENTS.md", "project/CLAUDE.md", "project/.claude/CLAUDE.md"),
        *("project/.claude/rules/b.md", "project/.claude/rules/A.MD", "project/.claude/rules/sub/deep/c.md"),
        *("project/.claw/instructions.md", "project/.claw/rules/d.md", "project/CLAUDE.local.md"),
        *("project/a/.claude/rules/e.md", "project/a/b/c/.claude/rules/too_deep.md"),
        "added/.claw/rules/f.md",
    ):
        tree.write(path, path)
    tree.write("project/.claude/rules/not_markdown.txt", "no")
    items = tree.find(added=(tree.root / "added",))
    assert loaded(items) == [
        *("managed/CLAUDE.md", "managed/rules/a.md", "managed/rules/b.md"),
        *("home/c/AGENTS.md", "home/c/rules/x.md", "home/c/rules/sub/a.md"),
        *("project/AGENTS.md", "project/CLAUDE.md", "project/.claude/CLAUDE.md"),
        *("project/.claude/rules/A.MD", "project/.claude/rules/b.md", "project/.claude/rules/sub/deep/c.md"),
        *("project/.claw/instructions.md", "project/.claw/rules/d.md", "project/CLAUDE.local.md"),
        *("project/a/.claude/rules/e.md", "added/.claw/rules/f.md"),
    ]
    assert [item.layer for item in items[:6]] == ["managed"] * 3 + ["user"] * 3
    assert loaded(tree.find(enabled=False)) == ["managed/CLAUDE.md", "managed/rules/a.md", "managed/rules/b.md"]
    assert len(loaded(tree.find(trusted=False))) == 6


def test_C3_K3_conditional_sections_wait_for_their_paths(tree: Tree) -> None:
    tree.write("project/a/.claude/rules/py.md", "\n---\nwhen: file:*.py\n---\npython\n\n---\npaths: web/**\n---\nweb")
    tree.write("home/c/rules/mine.md", "---\nglobs: docs/**\n---\ndocs")
    tree.write("project/AGENTS.md", "always\n\n---\npaths: only\n---\nsometimes")
    items = tree.find()
    assert loaded(items) == ["always"]
    conditional = {item.text: item for item in items if item.status == "conditional"}
    assert {text: (item.line, item.condition) for text, item in conditional.items()} == {
        "docs": (4, "globs: docs/**"),
        "sometimes": (6, "paths: only"),
        "python": (5, "when: file:*.py"),
        "web": (10, "paths: web/**"),
    }
    # Relative to the folder that the rule belongs to; the user's own to the project.
    touched = [tree.project / "a" / "web" / "x.py", tree.project / "web" / "x", tree.project / "docs" / "y"]
    names = [[text for text, item in conditional.items() if matches(item, path)] for path in touched]
    assert names == [["python", "web"], [], ["docs"]]
    assert [file.path for file in recorded(items, len)] == [f"{tree.project}/AGENTS.md"]
    assert "python" not in str(render(items))


def test_C3_bad_frontmatter_warns_with_file_and_line(tree: Tree) -> None:
    path = tree.write("project/.claw/rules/x.md", "\n\n---\nwhen: lang:py\n---\nrule")
    items = tree.find()
    assert loaded(items) == ["rule"]
    assert warnings(items)[0].startswith(f"{path}:4: `when` must be `file:PATTERN`")


def test_C3_frontmatter_of_others_is_not_sent(tree: Tree) -> None:
    tree.write("project/AGENTS.md", "---\nname: x\ndescription: y\n---\nThe text.")
    assert loaded(tree.find()) == ["The text."]


def test_html_comments_are_not_sent_and_code_keeps_them(tree: Tree) -> None:
    text = "<!-- top -->\nOne <!-- a\nb --> two.\n\n<!--\nlong\n\ncomment\n-->\n\n```html\n<!-- code -->\n```\n`<!-- span -->`"
    tree.write("project/AGENTS.md", text)
    assert loaded(tree.find()) == ["One\n two.\n\n```html\n<!-- code -->\n```\n`<!-- span -->`"]
    tree.write("project/AGENTS.md", "<!-- nothing else -->")
    assert skipped(tree.find()) == {"AGENTS.md": "empty"}


def test_C3_variables_in_files_and_in_config_texts(tree: Tree) -> None:
    tree.write("project/AGENTS.md", "`cd ${workspaceFolder}` ${cwd} ${other}")
    items = tree.find(InstructionsConfig(text=(value("user", "home is ${home}"),)))
    assert loaded(items) == [f"`cd {tree.project}` {tree.cwd} ${{other}}", f"home is {tree.paths.home}"]


def test_K3_a_rule_with_a_condition_is_cut_by_itself_and_takes_no_room(tree: Tree) -> None:
    tree.write("project/.claw/rules/big.md", "---\npaths: x\n---\n" + "rule\n" * 10_000)
    tree.write("project/AGENTS.md", "word\n" * 150)
    plain, big = tree.find(InstructionsConfig(max_file_chars=1_000, max_total_chars=1_000))
    assert plain.cut_chars == 0 and big.status == "conditional"
    assert len(big.text) <= 1_000 and "read " in big.text.splitlines()[-1]


@pytest.mark.parametrize("name", ["rules", "rules/sub"])
def test_a_folder_of_rules_that_leads_out_of_the_project_is_reported(tree: Tree, name: str) -> None:
    tree.write("home/rules/x.md", "secret")
    link = tree.project / ".claude" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(tree.root / "home" / "rules")
    items = tree.find()
    assert loaded(items) == [] and "leads out of" in warnings(items)[0] and str(link) in warnings(items)[0]


def test_links_inside_the_project_are_followed_and_circles_end(tree: Tree) -> None:
    tree.write("project/.claw/rules/x.md", "one rule")
    (tree.project / ".claude").mkdir()
    (tree.project / ".claude" / "rules").symlink_to("../.claw/rules")
    (tree.project / ".claw" / "rules" / "again").symlink_to(".")
    items = tree.find()
    assert loaded(items) == ["one rule"]
    assert "the same file as" in skipped(items)["x.md"]


def test_B16_what_is_no_rule_file_is_reported_and_too_many_are_counted(tree: Tree) -> None:
    folder = tree.project / ".claude" / "rules"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "fifo.md")
    (folder / "nowhere.md").symlink_to("missing")
    for n in range(MOST_RULES + 50):
        tree.write(f"project/.claude/rules/n{n:03}.md", f"rule {n}")
    began = time.process_time()
    items = tree.find()
    assert time.process_time() - began < 2
    found = warnings(items)
    assert len(loaded(items)) == MOST_RULES - 1
    assert "FIFO" in found[0] and "there are too many files" in found[-1]


def test_K2_rules_above_the_project_must_be_beyond_others_reach(tree: Tree) -> None:
    tree.write(".claude/rules/open.md", "open").chmod(0o666)
    tree.write(".claude/rules/safe.md", "safe")
    items = tree.find()
    assert loaded(items) == ["safe"] and "can be changed by others" in warnings(items)[0]


# --------------------------------------------------------------------------- worktrees


def test_K2w_a_nested_worktree_skips_the_main_checkouts_files_and_keeps_local_ones(tree: Tree) -> None:
    for folder in ("", "main/", "main/.claude/worktrees/", "main/.claude/worktrees/x/"):
        tree.write(f"{folder}CLAUDE.md", f"project {folder}")
        tree.write(f"{folder}CLAUDE.local.md", f"local {folder}")
    tree.write("main/.claude/rules/r.md", "rule")
    (tree.root / "main" / ".git" / "worktrees" / "x").mkdir(parents=True)
    tree.project = tree.cwd = tree.root / "main" / ".claude" / "worktrees" / "x"
    pointer = tree.write("main/.claude/worktrees/x/.git", f"gitdir: {tree.root}/main/.git/worktrees/x\n")
    items = tree.find()
    assert loaded(items) == [
        *("project", "local", "local main/", "local main/.claude/worktrees/"),
        *("project main/.claude/worktrees/x/", "local main/.claude/worktrees/x/"),
    ]
    why = "it belongs to the main checkout around this worktree"
    assert [item.skipped_because for item in items if not item.is_loaded] == [why] * 3 and warnings(items) == ()
    for elsewhere in ("gitdir: ../../../../other/.git/worktrees/x", "gitdir: ../../../.git/modules/x", "nonsense", ""):
        pointer.write_text(elsewhere)
        assert "project main/" in loaded(tree.find())


# --------------------------------------------------------------------------- nested folders


def test_a_nested_folder_gives_what_it_holds_itself(tree: Tree) -> None:
    tree.write("project/a/b/c/AGENTS.md", "c")
    tree.write("project/a/b/c/.claude/rules/py.md", "---\nwhen: file:*.py\n---\npy")
    tree.write("project/other/CLAUDE.md", "other")
    tree.write("project/a/b/c/d/AGENTS.md", "d")
    assert [(i.status, i.text, i.base) for i in nested(tree, "project/a/b/c")] == [
        ("loaded", "c", f"{tree.cwd}/c"),
        ("conditional", "py", f"{tree.cwd}/c"),
    ]
    assert loaded(nested(tree, "project/other")) == ["other"]
    assert nested(tree, "project/a/b") == nested(tree, "project") == nested(tree, "home") == nested(tree, "") == ()
    place = tree.place(trusted=False)
    assert discover_nested(place, InstructionsConfig(), tree.cwd / "c") == ()
    assert discover_nested(tree.place(), InstructionsConfig(), tree.cwd / "c", enabled=False) == ()


def test_a_nested_file_does_not_repeat_what_is_known(tree: Tree) -> None:
    tree.write("project/common.md", "shared")
    tree.write("project/AGENTS.md", "root @common.md")
    tree.write("project/other/AGENTS.md", "nested @../common.md @../AGENTS.md @/etc/passwd")
    items = nested(tree, "project/other", known=tree.find())
    assert loaded(items) == ["nested @../common.md @../AGENTS.md @/etc/passwd"]
    assert [include.status for include in includes(items)] == ["followed", "followed", "refused"]
    assert "outside the workspace" in reasons(items)["@/etc/passwd"]
    assert "shared\n" in loaded(nested(tree, "project/other"))[0]

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.config.schema import InstructionLayer, InstructionsConfig, Layer
from agent.instructions.item import warnings
from tests.agent.instructions.kit import Tree, loaded, skipped, value


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path.resolve())


def test_K2_C2_layers_and_the_order_inside_a_folder(tree: Tree) -> None:
    for path, text in (
        ("managed/CLAUDE.md", "managed"),
        ("home/c/AGENTS.md", "user"),
        ("CLAUDE.md", "above"),
        ("project/AGENTS.local.md", "root agents local"),
        ("project/CLAUDE.local.md", "root claude local"),
        ("project/.claw/instructions.md", "root claw"),
        ("project/.claude/CLAUDE.md", "root dot claude"),
        ("project/CLAUDE.md", "root claude"),
        ("project/AGENTS.md", "root agents"),
        ("project/a/AGENTS.md", "a"),
        ("project/a/b/CLAUDE.md", "b"),
        ("project/a/b/c/CLAUDE.md", "too deep"),
        ("added/AGENTS.md", "added"),
    ):
        tree.write(path, text)
    config = InstructionsConfig(text=(value("user", "config user"), value("project", "config project")))
    items = tree.find(config, added=(tree.root / "added",))
    assert loaded(items) == [
        *("managed", "user", "above", "root agents", "root claude", "root dot claude", "root claw"),
        *("root claude local", "root agents local", "a", "b", "added", "config user", "config project"),
    ]
    assert [item.layer for item in items if item.is_loaded] == [
        *("managed", "user", *["project"] * 5, "local", "local", *["project"] * 3, "config", "config"),
    ]
    assert items[2].reason == "above the project" and items[3].reason == "in the project"
    assert items[-1].path == "config" and items[-1].reason == "instructions in project.toml"
    assert items[3].sha256 and items[3].chars == len("root agents")


def test_I3_an_override_replaces_its_folders_three_files_and_nothing_else(tree: Tree) -> None:
    tree.write("project/AGENTS.override.md", "override")
    for name in (
        "AGENTS.md",
        "CLAUDE.md",
        ".claude/CLAUDE.md",
        ".claw/instructions.md",
        "CLAUDE.local.md",
        "a/AGENTS.md",
    ):
        tree.write(f"project/{name}", name)
    items = tree.find()
    assert loaded(items) == ["override", ".claw/instructions.md", "CLAUDE.local.md", "a/AGENTS.md"]
    assert [item.skipped_because for item in items if not item.is_loaded] == ["replaced by AGENTS.override.md"] * 3


def test_I3_an_empty_override_switches_off_and_a_broken_one_does_not(tree: Tree) -> None:
    tree.write("project/AGENTS.md", "agents")
    override = tree.write("project/AGENTS.override.md", "")
    assert loaded(tree.find()) == []
    override.unlink()
    override.mkdir()
    items = tree.find()
    assert loaded(items) == ["agents"]
    assert any("it is a directory" in line for line in warnings(items))


def test_I3_agents_and_claude_side_by_side_unless_linked_or_equal(tree: Tree) -> None:
    tree.write("project/AGENTS.md", "one")
    claude = tree.write("project/CLAUDE.md", "two")
    assert loaded(tree.find()) == ["one", "two"]
    claude.write_text("one\n")
    items = tree.find()
    assert loaded(items) == ["one"]
    assert skipped(items)["CLAUDE.md"] == f"the same text as {tree.project}/AGENTS.md"
    assert items[0].duplicates == (str(claude),)
    claude.unlink()
    claude.symlink_to("AGENTS.md")
    assert skipped(tree.find())["CLAUDE.md"] == f"the same file as {tree.project}/AGENTS.md"


def test_the_same_text_in_another_folder_is_loaded_and_named(tree: Tree) -> None:
    first = tree.write("project/AGENTS.md", "same")
    tree.write("project/a/AGENTS.md", "same")
    items = tree.find()
    assert loaded(items) == ["same", "same"]
    assert items[1].duplicates == (str(first),)


def test_a_name_with_a_capital_ending_is_found(tree: Tree) -> None:
    tree.write("project/AGENTS.MD", "loud")
    assert loaded(tree.find()) == ["loud"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_K2_files_of_others_above_the_project_do_not_count(tree: Tree) -> None:
    above = tree.write("AGENTS.md", "above")
    os.chown(above, 12345, 12345)
    items = tree.find()
    assert loaded(items) == []
    assert "belongs to another user" in warnings(items)[0]


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_K2_files_above_the_project_that_others_may_write_do_not_count(tree: Tree, mode: int) -> None:
    tree.write("AGENTS.md", "above").chmod(mode)
    inside = tree.write("project/AGENTS.md", "inside")
    inside.chmod(mode)
    items = tree.find()
    assert loaded(items) == ["inside"]
    assert "can be changed by others" in warnings(items)[0]


def test_K2_a_link_above_the_project_does_not_count(tree: Tree) -> None:
    secret = tree.write("secret", "secret")
    (tree.root / "AGENTS.md").symlink_to(secret)
    items = tree.find()
    assert loaded(items) == [] and "reached through a link" in warnings(items)[0]


def test_a_link_out_of_the_project_is_not_followed(tree: Tree) -> None:
    secret = tree.write("home/secret", "secret")
    (tree.project / "AGENTS.md").symlink_to(secret)
    (tree.project / ".claude").symlink_to(tree.write("elsewhere/CLAUDE.md", "foreign").parent)
    items = tree.find()
    assert loaded(items) == []
    assert len([line for line in warnings(items) if "leads out of" in line]) == 2


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ((), ["managed", "managed text"]),
        (("user",), ["managed", "user", "managed text", "user text"]),
        (("project",), ["managed", "project", "managed text", "project text"]),
        (("local",), ["managed", "local", "managed text", "local text"]),
    ],
)
def test_K2_each_layer_but_managed_can_be_switched_off(
    tree: Tree, layers: tuple[InstructionLayer, ...], expected: list[str]
) -> None:
    tree.write("managed/CLAUDE.md", "managed")
    tree.write("home/c/AGENTS.md", "user")
    tree.write("project/AGENTS.md", "project")
    tree.write("project/CLAUDE.local.md", "local")
    each: tuple[Layer, ...] = ("managed", "user", "project", "local")
    words = tuple(value(layer, f"{layer} text") for layer in each)
    config = InstructionsConfig(text=words, layers=layers)
    assert loaded(tree.find(config)) == expected
    assert loaded(tree.find(InstructionsConfig(text=words), enabled=False)) == ["managed", "managed text"]
    assert loaded(tree.find(InstructionsConfig(text=words), trusted=False)) == [
        *("managed", "user", "managed text", "user text"),
    ]


def test_K3_excluded_files_and_whose_patterns_bind_what(tree: Tree) -> None:
    tree.write("managed/CLAUDE.md", "managed")
    tree.write("home/c/AGENTS.md", "user")
    tree.write("project/CLAUDE.md", "root")
    tree.write("project/a/CLAUDE.md", "a")
    every = str(tree.root) + "/**"
    users = InstructionsConfig(exclude=(value("user", every),))
    assert loaded(tree.find(users)) == ["managed"]
    projects = InstructionsConfig(exclude=(value("project", every),))
    assert loaded(tree.find(projects)) == ["managed", "user"]
    one = tree.find(InstructionsConfig(exclude=(value("user", "/CLAUDE.md"), value("user", "a/*.md"))))
    assert loaded(one) == ["managed", "user", "root"]
    assert skipped(one)["CLAUDE.md"] == "excluded by 'a/*.md'"


def test_files_that_the_configuration_names(tree: Tree) -> None:
    tree.write("home/notes.md", "from home")
    tree.write("home/c/more.md", "beside the config")
    tree.write("project/docs/style.md", "project style")
    tree.write("project/AGENTS.md", "agents")
    (tree.project / "docs/out.md").symlink_to("/etc/passwd")
    config = InstructionsConfig(
        files=(
            value("user", "~/notes.md", tree.paths.config),
            value("user", "more.md", tree.paths.config),
            value("project", "docs/style.md", tree.project),
            value("project", "../home/notes.md", tree.project),
            value("project", "missing.md", tree.project),
            value("project", "/etc/no-such-file", tree.project),
            value("project", "docs/out.md", tree.project),
        )
    )
    items = tree.find(config)
    assert loaded(items) == ["from home", "beside the config", "agents", "project style"]
    found = warnings(items)
    outside = "was not loaded: it lies outside the project"
    assert next(line for line in found if outside in line).startswith(str(tree.root / "home/notes.md"))
    assert any(f"/etc/no-such-file {outside}" in line for line in found)
    assert any("docs/out.md was not loaded: cannot be read: it is a link that leads out of" in line for line in found)
    assert any("missing.md was not loaded: it does not exist" in line for line in found)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _directory(path: Path) -> None:
    path.mkdir()


def _binary(path: Path) -> None:
    path.write_bytes(b"\x00\x01\x02\x03" * 100)


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize("make", [_fifo, _device, _directory, _binary, _dangling])
def test_T12_B16_what_is_no_instruction_file_is_reported_and_never_a_wait(
    tree: Tree, make: Callable[[Path], None]
) -> None:
    make(tree.project / "CLAUDE.md")
    tree.write("project/a/AGENTS.md", "fine")
    began = time.perf_counter()
    items = tree.find()
    assert time.perf_counter() - began < 10
    assert loaded(items) == ["fine"]
    assert len(warnings(items)) == 1 and f"{tree.project}/CLAUDE.md was not loaded: " in warnings(items)[0]


def test_B16_a_200_MB_file_is_cut_and_named(tree: Tree) -> None:
    path = tree.write("project/CLAUDE.md", "first line\n" * 1000)
    os.truncate(path, 200 << 20)
    with path.open("r+b") as file:
        file.write(b"first line\n" * 100_000)
    began = time.process_time()
    (item,) = tree.find()
    assert time.process_time() - began < 1
    assert item.is_loaded and len(item.text) <= 40_000
    assert item.cut_chars > 190 << 20
    assert "characters were cut off" in warnings((item,))[0]


def test_K3_one_file_is_cut_at_a_line_and_the_text_says_where_the_rest_is(tree: Tree) -> None:
    path = tree.write("project/AGENTS.md", "".join(f"rule {n}\n" for n in range(10_000)))
    (item,) = tree.find()
    *kept, note = item.text.splitlines()
    assert len(item.text) <= 40_000 < item.chars
    assert kept == [f"rule {n}" for n in range(len(kept))]
    assert note == f"[Cut here: {item.cut_chars:,} more characters did not fit; read {path} for the rest.]"
    assert item.cut_chars == item.chars - len("\n".join(kept))


def test_B16_K3_the_room_is_spent_nearest_first(tree: Tree) -> None:
    tree.write("project/CLAUDE.md", "".join(f"{n} 漢字漢字漢字\n" for n in range(3_000)))
    tree.write("project/a/b/CLAUDE.md", "nearest marker")
    config = InstructionsConfig(max_total_chars=1_000)
    root, nearest = tree.find(config)
    assert nearest.text == "nearest marker" and nearest.cut_chars == 0
    assert root.cut_chars > 0 and len(root.text) + len(nearest.text) <= 1_000
    assert root.text.splitlines()[-2].endswith("漢字漢字漢字")


def test_K3_all_instructions_take_at_most_a_quarter_of_the_window(tree: Tree) -> None:
    for folder in ("project", "project/a", "project/a/b"):
        tree.write(f"{folder}/AGENTS.md", f"{folder}\n" * 2_000)
    items = tree.find(window=8_000)
    tokens = sum(-(-len(item.text.encode()) // 4) for item in items)
    assert tokens <= 2_000 + 3 * 40  # the notes of files that are cut to nothing
    assert items[-1].text.startswith("project/a/b\n") and items[0].text.startswith("[Cut here: ")


def test_K3_managed_policy_is_served_before_the_project_can_push_it_out(tree: Tree) -> None:
    tree.write("managed/CLAUDE.md", "policy")
    tree.write("project/a/b/AGENTS.md", "x\n" * 100_000)
    items = tree.find(InstructionsConfig(max_file_chars=5_000, max_total_chars=2_000))
    assert items[0].text == "policy" and items[1].cut_chars > 0


def test_one_line_longer_than_the_cap_is_cut_inside(tree: Tree) -> None:
    tree.write("project/AGENTS.md", "ä" * 50_000)
    (item,) = tree.find()
    assert item.text.startswith("ä" * 1_000) and len(item.text) <= 40_000


def test_T11_hidden_characters_are_reported(tree: Tree) -> None:
    tree.write("project/AGENTS.md", "\ufeffRun \U000e0041tests\u202e\r\n")
    items = tree.find()
    assert loaded(items) == ["Run tests"]
    assert "hidden characters were removed (1 tag, 1 bidi)" in warnings(items)[0]


def test_a_users_file_that_anyone_may_write_is_not_loaded(tree: Tree) -> None:
    tree.write("home/c/AGENTS.md", "user").chmod(0o666)
    items = tree.find()
    assert loaded(items) == [] and "anyone may write to it" in warnings(items)[0]


def test_M3_discovery_of_the_same_files_gives_the_same_items(tree: Tree) -> None:
    tree.write("project/AGENTS.md", "a\n" * 50_000)
    tree.write("project/a/AGENTS.md", "b")
    assert tree.find() == tree.find()


def test_B15_K2_nothing_but_the_listed_files_and_real_includes_is_opened(tree: Tree) -> None:
    opened: set[Path] = set()
    watching: list[bool] = []

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if watching and event in ("open", "os.listdir", "os.scandir", "subprocess.Popen", "os.posix_spawn"):
            opened.add(Path(os.fsdecode(arguments[0])) if isinstance(arguments[0], str | bytes | Path) else Path())

    for name in (
        "README.md",
        "src/AGENTS.md",
        "a/node_modules/x/CLAUDE.md",
        ".git/config",
        "fenced.md",
        "a/b/c/AGENTS.md",
    ):
        tree.write(f"project/{name}", "not to be read")
    tree.write("project/real.md", "Real.")
    tree.write("project/AGENTS.md", "@real.md\n\n```\n@fenced.md\n```\n`@fenced.md` me@fenced.md @README\n")
    tree.write("project/.claw/rules/x.md", "Rule.")
    tree.find()  # what is imported is imported now
    sys.addaudithook(watch)
    watching.append(True)
    items = tree.find()
    watching.clear()
    assert len(loaded(items)) == 2
    inside = {path.relative_to(tree.project).as_posix() for path in opened if path.is_relative_to(tree.project)}
    assert inside == {"AGENTS.md", "real.md", ".claw/rules", ".claw/rules/x.md"}
    assert Path() not in opened

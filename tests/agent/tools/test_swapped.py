"""What the gate judged is what a call opens, whatever a path leads to by the time it runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.permissions.gate import Gate
from agent.permissions.path_pattern import PathScope
from agent.permissions.rules import RuleLayer, parse_rules
from agent.tools.base import Tool, ToolError
from agent.tools.edit import Edit
from agent.tools.glob import Glob
from agent.tools.grep import Grep
from agent.tools.read import Read
from agent.tools.write import Write
from tests.agent.tools.file_calls import Calls

ONE_EDIT = [{"old": "one", "new": "two"}]
LARGE = "one\n" + "x" * 600_000  # not worked out before it is asked about
EXISTING: list[tuple[Callable[[], Tool], dict[str, Any]]] = [
    (Read, {"path": "d/f"}),
    (Edit, {"path": "d/f", "edits": ONE_EDIT}),
    (Edit, {"path": "d/large", "edits": ONE_EDIT}),
    (Write, {"path": "d/new", "content": "x"}),
    (Write, {"path": "d/more/new", "content": "x"}),
    (Grep, {"pattern": "one", "path": "d"}),
    (Grep, {"pattern": "one", "path": "d/f"}),
    (lambda: Grep(without_rg=True), {"pattern": "one", "path": "d"}),
    (Glob, {"pattern": "*", "path": "d"}),
    (lambda: Glob(without_rg=True), {"pattern": "d/../d/*"}),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in (("proj/d", "one inside"), ("outside", "one SECRET")):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "f").write_text(text)
        (folder / "large").write_text(LARGE)
    (tmp_path / "outside" / "secret_name").touch()
    return tmp_path / "proj"


def everything(folder: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in folder.iterdir()}


@pytest.mark.parametrize(("tool", "params"), EXISTING)
async def test_R28_T46_a_folder_swapped_for_a_link_after_it_was_judged_is_not_left(
    root: Path, tool: Callable[[], Tool], params: dict[str, Any]
) -> None:
    calls, outside = Calls(root), root.parent / "outside"
    before = everything(outside)
    running = tool()
    values, context = msgspec.convert(params, running.params), calls.context()
    judged = running.access(values, context).paths
    assert all(calls.workspace.contains(path) for path in judged)
    (root / "d").rename(root / "aside")
    (root / "d").symlink_to(outside)
    with pytest.raises(ToolError) as refused:
        await running.run(values, context)
    assert "SECRET" not in refused.value.text and "secret_name" not in refused.value.text
    assert everything(outside) == before


@pytest.mark.parametrize(("tool", "params"), EXISTING)
async def test_R28_a_link_turned_elsewhere_after_it_was_judged_leads_where_it_led(
    root: Path, tool: Callable[[], Tool], params: dict[str, Any]
) -> None:
    calls, outside = Calls(root), root.parent / "outside"
    (root / "d").rename(root / "real")
    (root / "d").symlink_to("real")
    before = everything(outside)
    running = tool()
    values, context = msgspec.convert(params, running.params), calls.context()
    running.access(values, context)
    (root / "d").unlink()
    (root / "d").symlink_to(outside)
    output = await running.run(values, context)
    assert "SECRET" not in output.text and "secret_name" not in output.text
    assert everything(outside) == before


@pytest.mark.parametrize("without_rg", [False, True])
async def test_R27_links_in_a_searched_folder_lead_nowhere_not_even_to_ignore_files(
    root: Path, without_rg: bool
) -> None:
    outside = root.parent / "outside"
    (outside / "rules").write_text("f\n")
    (root / "d" / ".ignore").symlink_to(outside / "rules")
    for name in ("link", "file"):
        (root / "d" / name).symlink_to(outside if name == "link" else outside / "f")
    calls = Calls(root)
    text = (await calls.run(Grep(without_rg=without_rg), pattern="one i|SECRET")).text
    assert text == "d/f\n1:one inside"
    assert "secret_name" not in (await calls.run(Glob(without_rg=without_rg), pattern="**")).text


@pytest.mark.skipif(not Path("/proc/self/root").exists(), reason="needs /proc")
@pytest.mark.parametrize("way", ["{root}/d/f", "link", "folder/f", "/proc/self/root{root}/d/f", "d/../d/./f", "fd"])
def test_T46_a_rule_that_denies_hits_through_every_kind_of_link(root: Path, way: str) -> None:
    (root / "link").symlink_to("d/f")
    (root / "folder").symlink_to(root / "d")
    calls = Calls(root)
    scope = PathScope(root, root.parent)
    deny = RuleLayer("user", deny=parse_rules(["read(d/f)", "edit(d)", "read(d)"], scope))
    gate = Gate("auto", calls.workspace, [deny], home=root.parent)
    with (root / "d" / "f").open() as opened:
        path = f"/proc/self/fd/{opened.fileno()}" if way == "fd" else way.format(root=root)
        for tool, params in (
            (Read(), {"path": path}),
            (Grep(), {"pattern": "x", "path": path}),
            (Edit(), {"path": path, "edits": ONE_EDIT}),
            (Write(), {"path": path, "content": "x"}),
        ):
            calls.known.clear()
            try:
                access = calls.access(tool, **params)
            except ToolError:
                continue  # refused before anyone was asked: `write` over what was not read
            assert access.paths == (root / "d" / "f",)
            assert gate.decide(access, tool.name).kind == "refuse", tool.name
    if way in ("folder/f", "{root}/d/f"):
        folder = str(Path(path).parent)
        for search in (Glob(), Grep()):
            access = calls.access(search, pattern="x", path=folder)
            assert gate.decide(access, search.name).kind == "refuse"

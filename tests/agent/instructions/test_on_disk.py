"""Instruction files are read again only when something about them changed."""

import os
import time
from pathlib import Path

from agent.config.paths import Paths
from agent.config.schema import Config, InstructionsConfig
from agent.instructions.discovery import Place
from agent.instructions.nested import folders_of
from agent.instructions.on_disk import InstructionsOnDisk
from agent.registry import Registry
from agent.starting import Beginning
from tests.fakes.session_kit import make_project


def texts(disk: InstructionsOnDisk) -> list[str]:
    return [item.text for item in disk.items() if item.is_loaded]


def on_disk(project: Path, window: list[int], *, enabled: bool = True) -> InstructionsOnDisk:
    home = project.parent / "home"
    place = Place(Paths(home, home, home, home, home, managed=home / "managed"), project, project)
    return InstructionsOnDisk(
        place,
        InstructionsConfig(),
        Registry(),
        enabled=enabled,
        effective_window_tokens=lambda: window[0],
        count_tokens=len,
    )


def settle(disk: InstructionsOnDisk) -> None:
    """Until what was found is old enough to be relied on: the same value comes twice."""
    while True:
        disk.recheck()
        first = disk.items()
        disk.recheck()
        if disk.items() is first:
            return
        os.sched_yield()


def test_K1_unchanged_files_are_taken_as_they_were_and_any_change_is_seen(tmp_path: Path) -> None:
    project = make_project(
        tmp_path / "p", {"AGENTS.md": "One.\n@inc.md\n@later.md\n", "inc.md": "Two.", ".claw/rules/a.md": "Three."}
    )
    window = [100_000]
    disk = on_disk(project, window)
    changes = {
        "AGENTS.md": "Uno.\n@inc.md\n@later.md\n",
        "inc.md": "Due.",
        ".claw/rules/a.md": "Tre.",
        ".claw/rules/b.md": "Quattro.",
        "later.md": "Cinque.",
        "CLAUDE.local.md": "Sei.",
    }
    for name, text in changes.items():
        settle(disk)
        before = disk.items()
        (project / name).write_text(text)
        assert disk.items() is before, "within a turn it stays as it was found"
        disk.recheck()
        assert text.split("\n", 1)[0] in "\n".join(texts(disk)), name
    settle(disk)
    before = disk.items()
    (project / "other.txt").write_text("x")
    disk.recheck()
    assert disk.items() is before, "what comes and goes beside them is not their business"
    window[0] = 40
    assert disk.items() is not before, "another window has another room"
    window[0] = 100_000
    assert disk.items() is before
    disk.forget()
    assert disk.items() is not before and disk.items() == before


def test_folders_below_are_looked_at_when_they_are_asked_for(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", {"AGENTS.md": "One.", "a/AGENTS.md": "Two.", "a/b/x.txt": ""})
    disk = on_disk(project, [100_000])
    assert texts(disk) == ["One."]
    assert [item.text for item in disk.nested(project / "a")] == ["Two."]
    assert disk.nested(project / "a/b") == () == disk.nested(project / "none")
    (project / "a/b/CLAUDE.md").write_text("Three.")
    assert disk.nested(project / "a/b") == ()
    disk.recheck()
    assert [item.text for item in disk.nested(project / "a/b")] == ["Three."]
    (project / "a/AGENTS.md").unlink()
    disk.recheck()
    assert disk.nested(project / "a") == ()


def test_K2_managed_policy_alone_is_no_reason_for_a_new_prefix_with_no_instructions(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", {"AGENTS.md": "Mine."})
    make_project(tmp_path / "home/managed", {"CLAUDE.md": "Policy. @more.md", "more.md": "More."})

    def beginning(*, enabled: bool) -> Beginning:
        disk = on_disk(project, [100_000], enabled=enabled)
        return Beginning(disk, Registry(), Config(), (), "1", count_tokens=len)

    whole, policy = beginning(enabled=True), beginning(enabled=False)
    assert "Mine." in str(whole.prefix()) and "Mine." not in str(policy.prefix()) and "Policy." in str(policy.prefix())
    assert policy.needs_new_prefix(whole.prefix(), str(project))
    assert not policy.needs_new_prefix(policy.prefix(), str(project))


def test_deep_and_many_folders_without_instructions_cost_little(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", {"AGENTS.md": "One."})
    deep = project.joinpath(*["dd"] * 300)
    deep.mkdir(parents=True)
    (deep / "AGENTS.MD").write_text("Deep rule.")
    disk = on_disk(project, [100_000])
    disk.items()
    began = time.process_time()
    found = [item.text for folder in folders_of(deep / "x.txt", disk.place) for item in disk.nested(folder)]
    assert time.process_time() - began < 3
    assert found == ["Deep rule."]

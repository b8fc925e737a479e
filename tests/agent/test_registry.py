"""What was loaded stays for its lifetime, and not longer."""

import os
from pathlib import Path

from agent.instructions.stamps import Stamps
from agent.registry import Registry

LONG_AGO_NS = 1_700_000_000_000_000_000


class Loads:
    """Counts how often something was loaded."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> int:
        self.count += 1
        return self.count


def test_K1_a_session_value_is_loaded_once_and_a_turn_value_once_a_turn() -> None:
    registry, session, turn = Registry(), Loads(), Loads()
    for number in range(1, 4):
        for _ in range(3):
            assert registry.get("s", "session", session) == 1
            assert registry.get("t", "turn", turn) == number
        registry.new_turn()


def test_K1_invalidation_forgets_everything_whatever_its_lifetime() -> None:
    registry, session, turn = Registry(), Loads(), Loads()
    registry.get("s", "session", session)
    registry.get("t", "turn", turn)
    registry.invalidate()
    assert (registry.get("s", "session", session), registry.get("t", "turn", turn)) == (2, 2)


def test_K1_a_value_made_from_files_is_loaded_again_only_when_they_changed(tmp_path: Path) -> None:
    file, missing = tmp_path / "file", tmp_path / "folder" / "missing"
    file.write_text("one")
    registry, loads = Registry(), Loads()

    def look() -> int:
        registry.new_turn()
        return registry.get("t", "turn", loads, lambda value: (file, missing))

    assert look() == 1
    wait_until_settled(file)
    first = look()
    assert [look() for _ in range(3)] == [first] * 3
    file.write_text("two")
    assert look() == first + 1
    wait_until_settled(file)
    second = look()
    assert look() == second
    missing.parent.mkdir()
    missing.write_text("x")
    assert look() == second + 1


def wait_until_settled(file: Path) -> None:
    """Let the file be old enough that its time can tell a change from none."""
    while not Stamps((file,)).hold():
        os.sched_yield()


def test_a_file_that_has_just_changed_is_not_relied_on(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("one")
    assert not Stamps((file,)).hold()
    wait_until_settled(file)
    stamps = Stamps((file, tmp_path / "missing"))
    assert stamps.hold()
    os.utime(file, ns=(LONG_AGO_NS, file.stat().st_mtime_ns))  # the same size and time, and yet it was touched
    assert not stamps.hold()

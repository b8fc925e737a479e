"""What a killed write has left is taken away, and nothing else."""

import fcntl
from pathlib import Path

from agent.interrupted_writes import clear_up
from agent.permissions.workspace import Workspace
from agent.transcript import Assistant, Entry, Result, User
from providers.types import TextBlock, ToolCall, Usage


def test_B11_what_a_killed_write_left_is_taken_away(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    left, held = folder / ".claw-0123456789abcdef.tmp", folder / ".claw-00000000000000ff.tmp"
    others = [folder / "a.py", folder / ".claw-backup.tmp", folder / ".claw-0123456789ABCDEF.tmp", tmp_path / left.name]
    for path in (left, held, *others):
        path.write_text("x")
    calls = (
        ToolCall("a", "edit", '{"path": "src/a.py", "edits": []}'),
        ToolCall("b", "bash", '{"path": "x"}'),
        ToolCall("c", "write", "[]"),
        ToolCall("d", "write", '{"path": "b.py", "content": ""}'),
    )
    reply = Assistant(calls, "p", "m", "chat", "m", None, Usage(1, 0, 0, 1), "tool_use")
    branch = [
        Entry(1, None, 0, User((TextBlock("go"),))),
        Entry(2, 1, 0, reply),
        Entry(3, 2, 0, Result("d", "write", (TextBlock("written"),))),
    ]
    with held.open() as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        clear_up(branch, ("a", "b", "c"), Workspace(tmp_path, tmp_path))
    assert not left.exists()
    assert held.exists() and all(path.exists() for path in others)

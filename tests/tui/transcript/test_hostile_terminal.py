import os
import sys
from pathlib import Path

from tests.fakes.hostile import HOSTILE, leaks
from tests.fakes.terminal import Terminal
from tests.tui.transcript.hostile_app import GROUP

ROOT = Path(__file__).parents[3]


def test_T59_a_real_terminal_receives_no_sequence_that_is_not_ours() -> None:
    argv = [sys.executable, "-P", "-m", "tests.tui.transcript.hostile_app"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with Terminal(argv, cwd=ROOT, env=env, columns=200, rows=120) as terminal:
        terminal.wait_for("READY")
        terminal.drain()
        start = len(terminal.raw)
        for left in reversed(range(0, len(HOSTILE), GROUP)):
            terminal.type("n")
            terminal.wait_for_bytes(f"LEFT {left} END".encode(), start)
        written = bytes(terminal.raw[start:])
        assert "␛]52;c;ZXZpbA==␇" in written.decode()
        assert leaks(written) == []
        terminal.type("q")
        assert terminal.wait_end() == 0

import os
import re
import sys
from pathlib import Path

from tests.fakes.hostile import HOSTILE
from tests.fakes.terminal import Terminal
from tests.tui.transcript.hostile_app import GROUP

ROOT = Path(__file__).parents[3]
OURS = re.compile(
    r"\x1b\[[\d;:]*m"  # colours
    r"|\x1b\[\d+;\d+H"  # where to write
    r"|\x1b\[\?2026[hl]"  # a frame begins and ends
    r"|\x1b\[\?25[hl]"  # cursor
    r"|[\n\r]"
)
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


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
        written = bytes(terminal.raw[start:]).decode()
        assert "␛]52;c;ZXZpbA==␇" in written
        foreign = FORBIDDEN.search(OURS.sub("", written))
        assert foreign is None, repr(foreign)
        terminal.type("q")
        assert terminal.wait_end() == 0

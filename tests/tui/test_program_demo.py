"""Without a key: what the first screen says, and the demo that it offers, to its end."""

import re
from pathlib import Path
from typing import Any

from tests.fakes.session_kit import Desk, make_project
from tests.tui.program import Program
from tui.screens.dialog import GUARD_S

QUESTION, END = "Yes, once", "no model was involved"


def everything(*folders: Path) -> dict[str, bytes | None]:
    """Every file with its content, and every folder."""
    found = [path for folder in folders for path in folder.rglob("*")]
    return {str(path): path.read_bytes() if path.is_file() else None for path in found}


def without_key(desk: Desk, **env: str) -> Program:
    surroundings: dict[str, Any] = {**dict.fromkeys(desk.wire.env, ""), **env}
    return Program(desk, columns=160, rows=40, **surroundings)


def test_without_a_key_the_demo_is_one_key_away_and_leaves_nothing(desk: Desk) -> None:
    make_project(desk.project, {"mine.py": "x = 1\n"})
    before = everything(desk.project, desk.home)
    with without_key(desk, CLAW_DEMO_CHARS_PER_S="0") as claw:
        claw.wait_for("Set up claw")
        claw.read_for(GUARD_S + 0.2)
        claw.type("h")
        shown = claw.wait_for("export ANTHROPIC_API_KEY")
        told_whole = re.sub(r"[│↳\s]", "", shown)  # a long path is wrapped
        for told in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", f"{desk.home}/data/auth.json", "/config/config.toml"):
            assert told in told_whole, shown
        claw.type("\x1b")
        claw.answer("d", "Set up claw")
        claw.wait_for_status("(scripted/demo)")
        claw.say("anything")
        asked = 0
        seen = ""
        while END not in (shown := claw.wait_for(lambda text: QUESTION in text or END in text)):
            seen += shown
            claw.answer("y", QUESTION)
            asked += 1
            assert asked < 20
        claw.idle()
        assert asked >= 5 and "python3 -m unittest" in seen and "calc/core.py" in seen
        assert "[scripted]" in claw.text()
        claw.type("\x1b[5~" * 2)
        claw.wait_for("Compacted")
        claw.quit()
    assert everything(desk.project, desk.home) == before
    assert desk.wire.server.requests == []


def test_without_a_key_q_leaves(desk: Desk) -> None:
    before = everything(desk.project, desk.home)
    with without_key(desk) as claw:
        claw.answer("q", "Set up claw")
        assert claw.wait_end() == 0
        claw.assert_restored()
    assert everything(desk.project, desk.home) == before

"""claw killed on the screen while a command runs, and what the next claw shows and sends."""

import os
import signal

from agent.window import MISSING_RESULT
from tests.agent.processes.marks import children_of, comes_true, marked, new_mark, runs
from tests.fakes.session_kit import Desk, make_project
from tests.tui.program import Program


async def test_B11_killed_while_a_command_runs_it_goes_on_and_says_what_is_unknown(desk: Desk) -> None:
    make_project(desk.project, {"a.txt": "alpha\n"})
    marks = [new_mark() for _ in range(3)]
    command = f"echo begun; (setsid sleep {marks[0]} &) ; sleep {marks[1]} & sleep {marks[2]}"
    desk.wire.reply("I wait.", thinking="Hm.", tools=[("read", {"path": "a.txt"}), ("bash", {"command": command})])
    with Program(desk, "-m", desk.model) as claw:
        claw.ready()
        claw.say("wait for it")
        claw.answer("y", "Yes, once")
        claw.wait_for("   begun")
        assert await comes_true(lambda: all(map(marked, marks)))
        everything = [claw.pid, *children_of(claw.pid)]
        os.kill(claw.pid, signal.SIGKILL)
        claw.wait_end()
        assert await comes_true(lambda: not any(map(marked, marks)) and not any(map(runs, everything)), 1.5)

    desk.wire.reply("I check.")
    with Program(desk, "-c", rows=40) as claw:
        shown = claw.wait_for("its effects are unknown")
        for line in ("▌ wait for it", "I wait.", "● read a.txt · 1 line", "✗ bash echo begun; ", "Thought: Hm."):
            assert line in shown, shown
        assert "interrupted" in shown
        claw.say("go on")
        claw.wait_for("I check.")
        claw.idle()
        claw.quit()
    assert desk.wire.refusals == []
    results = [MISSING_RESULT in str(block) for role, block in desk.last_flat() if role == "result"]
    assert results == [False, True]
    assert "go on" in desk.wire.texts(desk.bodies()[-1])

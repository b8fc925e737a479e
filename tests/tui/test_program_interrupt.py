"""Stopping, steering and leaving the real program, and the keys that were typed before it could take them."""

import os
import signal
import threading

from tests.agent.processes.marks import comes_true, marked, new_mark
from tests.fakes.session_kit import Desk
from tests.tui.program import Program

GREEDY = ("-m", "openai/gpt-test", "--mode", "auto")


def test_keys_before_the_first_frame_arrive_and_are_sent_once(desk: Desk) -> None:
    held = threading.Event()
    desk.wire.reply("Hello.", after=held)
    desk.wire.reply("Steered.")
    with Program(desk, "-m", desk.model, cold=True) as claw:
        claw.say("typed blindly")
        claw.type("and a dra")
        claw.wait_for(lambda text: len(desk.wire.requests) == 1)
        claw.type("ft")
        shown = claw.wait_for("│ and a draft")
        assert shown.count("typed blindly") == 1
        held.set()
        claw.wait_for("Hello.")
        claw.idle("│ and a draft")
        claw.type("\r")
        claw.wait_for("Steered.")
        claw.idle()
        assert claw.text().count("typed blindly") == 1
        claw.quit()
    said = [text for text in desk.wire.texts(desk.bodies()[-1]) if not text.startswith("<reminder")]
    assert said == ["typed blindly", "and a draft"]


async def test_escape_stops_a_reply_and_a_command_and_enter_steers(desk: Desk) -> None:
    wire, mark = desk.wire, new_mark()
    wire.unfinished("Half a sentence ")
    wire.reply("I work.", tools=[("bash", {"command": f"echo working; sleep {mark}"})])
    wire.reply("I go on.", tools=[("bash", {"command": "echo waiting; until [ -e go ]; do sleep 0.02; done"})])
    wire.reply("Turned left.")
    with Program(desk, *GREEDY, rows=40) as claw:
        claw.ready()
        claw.say("begin")
        claw.wait_for("Half a sentence")
        claw.type("\x1b")
        claw.wait_for("Interrupted.")
        assert "Half a sentence" in claw.idle()

        claw.say("work")
        claw.wait_for("   working")
        assert await comes_true(lambda: bool(marked(mark)))
        claw.type("\x1b")
        claw.wait_for(lambda text: text.count("Interrupted.") == 2)
        assert await comes_true(lambda: not marked(mark))
        claw.idle()

        claw.say("again")
        claw.wait_for("   waiting")
        claw.say("turn left")
        claw.wait_for("↳ turn left")
        (desk.project / "go").touch()
        claw.wait_for("Turned left.")
        assert "▌ turn left" in claw.idle()
        claw.type("\x03")
        claw.wait_for("Ctrl+C again leaves")
        claw.type("\x03\x03")  # where the first came too late, it counts as one anew
        assert claw.wait_end() == 0
        claw.assert_restored()
    assert wire.refusals == []
    roles = [role for role, _ in desk.last_flat()]
    assert "turn left" in wire.texts(desk.bodies()[-1]) and roles[-2:] == ["result", "user"]


def test_T63_a_signal_in_the_middle_of_a_reply_ends_it_with_143_and_a_usable_terminal(desk: Desk) -> None:
    desk.wire.unfinished("Half a sentence ")
    with Program(desk, *GREEDY) as claw:
        claw.ready()
        claw.say("begin")
        claw.wait_for("Half a sentence")
        os.kill(claw.pid, signal.SIGTERM)
        assert claw.wait_end() == 128 + signal.SIGTERM
        claw.assert_restored()
    assert [type(entry.payload).__name__ for entry in desk.entries()][-1] == "Assistant"

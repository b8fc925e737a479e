"""The slash commands and their keys in the real program, one after the other as a person tries them."""

import os

from tests.fakes.session_kit import Desk
from tests.tui.program import Program


def test_every_command_does_what_help_says(desk: Desk) -> None:
    desk.wire.otherwise(lambda body: f"Answer to {desk.wire.texts(body)[-1]!r}."[:60])
    desk.wire.server.responses.models({"id": "gpt-test"}, {"id": "gpt-other"})
    with Program(desk, "-m", desk.model, columns=100, rows=50) as claw:
        claw.ready()
        claw.say("first question")
        claw.wait_for("Answer to")
        claw.idle()

        claw.say("/help")
        shown = claw.wait_for("Commands")
        assert "/compact [focus]" in shown and "Shift+Tab" in shown
        claw.type("\x1b")
        claw.wait_for(lambda text: "╭─ Help" not in text)

        claw.type("\x1b[Z")
        claw.wait_for_status("^ (edits)")
        claw.say("/mode plan")
        claw.wait_for_status("^ (plan)")
        claw.say("/mode wild")
        claw.wait_for("There is no mode wild.")
        claw.say("/hlep")
        claw.wait_for("Did you mean /help?")

        claw.say("/model")
        shown = claw.wait_for("openai/gpt-other")
        assert "openai/gpt-test" in shown and "· now" in shown
        claw.type("other")
        claw.wait_for(lambda text: "gpt-test  " not in text.partition("╰")[0])
        claw.type("\r")
        claw.wait_for_status("(openai/gpt-other)")
        claw.say("/model nowhere/x")
        claw.wait_for("names no model")

        claw.say("/new")
        claw.wait_for(lambda text: "first question" not in text)
        assert claw.wait_for_status("^ (plan  openai/gpt-other)")
        claw.say("second question")
        claw.wait_for("Answer to")
        claw.idle()
        assert desk.bodies()[-1]["model"] == "gpt-other" and "first" not in str(desk.wire.texts(desk.bodies()[-1]))

        claw.say("/resume")
        shown = claw.wait_for("first question")
        assert "╭─ Sessions" in shown, shown
        claw.type("\x1b[B\r")
        shown = claw.wait_for("▌ first question")
        assert "second question" not in claw.idle()
        claw.type("\x1b[48;50;100;0;0t\x1b[<0;9;9M\x1b[<0;9;9m")  # a size without pixels, then a click counted in them
        os.write(claw.fd, b"caf\xe9 \xff")  # what a terminal that is not set to UTF-8 sends
        claw.wait_for("│ caf\N{REPLACEMENT CHARACTER} \N{REPLACEMENT CHARACTER}")
        claw.type("\x03")
        claw.wait_for("Cleared")
        claw.idle()
        claw.quit()
    assert desk.wire.refusals == []

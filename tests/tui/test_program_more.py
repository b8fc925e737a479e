"""The commands around a session in the real program, against a real session and a real folder."""

import base64

from tests.fakes.session_kit import Desk, git
from tests.tui.program import Program


def test_the_commands_around_a_session_do_what_help_says(desk: Desk) -> None:
    git(desk.project, "init", "-q")
    (desk.project / "a.txt").write_text("one\n")
    git(desk.project, "add", "a.txt")
    git(desk.project, "commit", "-qm", "first")
    desk.wire.reply(tools=[("edit", {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]})])
    desk.wire.reply("Changed it:\n\n```\ntwo\n```")
    with Program(desk, "-m", desk.model, "--mode", "edits", columns=100, rows=34) as claw:
        claw.ready()
        claw.say("change a.txt")
        claw.wait_for("Changed it:")
        claw.idle()

        claw.say("/copy code")
        claw.wait_for("The code block is on the clipboard (1 line)")
        assert base64.b64encode(b"two") in claw.raw

        claw.say("/diff")
        shown = claw.wait_for("What the agent edited")
        assert "a.txt" in shown and "+two" in shown
        claw.type("g")
        claw.wait_for(lambda text: "Changes since the last commit" in text and "diff --git" in text and "+two" in text)
        claw.type("q")
        claw.wait_for(lambda text: "Changes since" not in text)

        requests = len(desk.wire.requests)
        desk.wire.reply("It was one before.")
        claw.say("/btw what was it before?")
        claw.wait_for(lambda text: "It was one before." in text and "kept nowhere" in text)
        claw.type("q")
        claw.wait_for(lambda text: "It was one before." not in text)
        assert len(desk.wire.requests) == requests + 1 and "what was it before?" not in str(desk.entries())

        claw.say("/export out.json")
        claw.wait_for("Exported to")
        assert "change a.txt" in (desk.project / "out.json").read_text()
        claw.say("/export out.json")
        claw.wait_for(lambda text: "exists already" in " ".join(text.split()))  # where it wraps, the path decides

        claw.say("/config")
        shown = claw.wait_for("Configuration")
        assert "more rows" in claw.wait_for("more rows")
        claw.type("q")
        claw.wait_for(lambda text: "╭─ Configuration" not in text)

        claw.say("/theme nord")
        claw.wait_for(lambda _: claw.screen.buffer[2][90].bg == "2e3440")

        claw.say("/fork")
        claw.wait_for(lambda text: "Changed it:" in text and "Exported" not in text)
        desk.wire.reply("In the copy.")
        claw.say("go on")
        claw.wait_for("In the copy.")
        claw.idle()
        claw.quit()
    assert len(list(desk.folder.glob("*.db"))) == 2
    with Program(desk, "-m", desk.model) as claw:  # the theme was kept
        claw.ready()
        claw.wait_for(lambda _: claw.screen.buffer[2][70].bg == "2e3440")
        claw.quit()
    assert desk.wire.refusals == []

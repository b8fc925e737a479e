"""`/init`: the model is asked for an AGENTS.md in the user's name, and writes it through the gate."""

from tests.fakes.session_kit import Desk
from tests.tui.harness import running, type_in, until
from tests.tui.program import Program

ASKED = "Write an `AGENTS.md` for this project"


async def test_K4_init_sends_the_request_and_the_users_wishes_as_their_message() -> None:
    async with running() as (app, opener):
        await type_in(app, "/init about the tests alone")
        await until(lambda: any(call[0] == "prompt" for call in opener.session.calls))
        ((_, sent),) = [call for call in opener.session.calls if call[0] == "prompt"]
    assert sent.startswith(ASKED) and sent.endswith("about the tests alone")


def test_K4_init_writes_an_agents_md_and_never_replaces_one_behind_the_users_back(desk: Desk) -> None:
    path = desk.project / "AGENTS.md"
    desk.wire.reply(tools=[("write", {"path": "AGENTS.md", "content": "Run make.\n"})])
    desk.wire.reply("Written.")
    desk.wire.reply(tools=[("read", {"path": "AGENTS.md"})])
    desk.wire.reply(tools=[("write", {"path": "AGENTS.md", "content": "Other.\n"})])
    desk.wire.reply("Left as it is.")
    desk.wire.reply("Known.")
    with Program(desk, "-m", desk.model, columns=100, rows=40) as claw:
        claw.ready()
        claw.say("/init")
        claw.answer("y", "No, and say why")
        claw.wait_for("Written.")
        claw.idle()
        assert path.read_text() == "Run make.\n"
        claw.say("/init")
        claw.answer("n", "No, and say why")
        claw.wait_for("Left as it is.")
        claw.idle()
        assert path.read_text() == "Run make.\n"
        claw.quit()
    first = desk.wire.texts(desk.bodies()[0])
    assert sum(text.startswith(ASKED) for text in first) == 1

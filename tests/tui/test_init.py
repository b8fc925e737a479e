"""`/init`: the model is asked for an AGENTS.md in the user's name, and writes it through the gate."""

import pytest

from agent.events import UserMessageAdded
from agent.prompt import load_prompt
from tests.fakes.session_kit import Desk
from tests.tui.fake_session import Opener
from tests.tui.harness import click, press, running, screen_text, type_in, until
from tests.tui.program import Program
from tui.init_command import typed_for
from tui.widgets.composer import Composer

ASKED = "Write an `AGENTS.md` for this project"


async def test_K4_init_sends_the_request_and_the_users_wishes_as_their_message() -> None:
    async with running() as (app, opener):
        await type_in(app, "/init about the tests alone")
        await until(lambda: any(call[0] == "prompt" for call in opener.session.calls))
        ((_, sent),) = [call for call in opener.session.calls if call[0] == "prompt"]
    assert sent.startswith(ASKED) and sent.endswith("about the tests alone")


async def test_the_command_stands_for_the_request_where_the_user_looks_at_it() -> None:
    past = UserMessageAdded(1, load_prompt("init"))
    async with running(Opener(past=(past,))) as (app, opener):
        await until(lambda: "▌ /init  ▸" in screen_text(app))
        await type_in(app, "/init in French")
        await until(lambda: "▌ /init in French  ▸" in screen_text(app))
        assert ASKED not in screen_text(app)
        await type_in(app, "/init shorter")
        await until(lambda: "↳ /init shorter" in screen_text(app))
        assert opener.session.queued[0].startswith(ASKED)
        await press(app, "up")
        assert app.query_one(Composer).text == "/init shorter" and opener.session.queued == ()
        row = next(y for y, text in enumerate(screen_text(app).split("\n")) if "/init in French" in text)
        await click(app, offset=(6, row))
        await until(lambda: "First find out" in screen_text(app))


@pytest.mark.parametrize("text", ["", "hello", "Write an `AGENTS.md`", load_prompt("init") + " And more."])
def test_what_is_not_the_request_stands_for_itself(text: str) -> None:
    assert typed_for(text) == text


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

from tests.tui.fake_session import Opener
from tests.tui.harness import late_key, running, screen_text, settle, type_in, until
from tui.app import ClawApp
from tui.screens.typed_secret import TypedSecretScreen

SEEN = ("GitHub token (ghp_…)", "known value ([b]hu…)")


def asked(app: ClawApp) -> bool:
    return isinstance(app.screen, TypedSecretScreen) and app.screen.is_drawn


async def test_R50_a_message_with_a_secret_is_asked_about_once_before_it_is_sent() -> None:
    async with running() as (app, opener):
        opener.session.secrets = SEEN
        await type_in(app, "my key is ghp_x")
        await until(lambda: asked(app))
        assert all(what in screen_text(app) for what in SEEN) and opener.session.calls == []
        await late_key(app, "y")
        await until(lambda: opener.session.calls == [("prompt", "my key is ghp_x")])
        opener.session.end()
        await until(lambda: not opener.session.running)
        await type_in(app, "my key is ghp_x")
        await until(lambda: len(opener.session.calls) == 2)
        assert not asked(app)


async def test_R50_no_and_escape_give_the_message_back() -> None:
    for key in ("n", "escape", "enter"):  # the answer that is marked is no
        async with running() as (app, opener):
            opener.session.secrets = SEEN
            await type_in(app, "my key is ghp_x")
            await until(lambda app=app: asked(app))  # type: ignore[misc]
            await late_key(app, key)
            await settle(app)
            await until(lambda app=app: "was not sent" in screen_text(app))  # type: ignore[misc]
            assert opener.session.calls == [] and app._composer.text == "my key is ghp_x"


async def test_a_message_that_waited_for_the_session_is_asked_about_too() -> None:
    opener = Opener(secrets=SEEN)
    opener.gate.clear()
    async with running(opener, opened=False) as (app, _):
        await type_in(app, "my key is ghp_x")
        opener.gate.set()
        await until(lambda: asked(app))
        await late_key(app, "y")
        await until(lambda: opener.session.calls == [("prompt", "my key is ghp_x")])

"""The set-up screen step by step, against a set-up that answers from lists."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual import events
from textual.widgets import Input

from providers.errors import AuthenticationError, ConnectionFailedError
from providers.types import Secret
from tests.tui.fake_session import Opener
from tests.tui.fake_set_up import LLAMA, FakeSetUp
from tests.tui.harness import key_event, late_key, press, resize, running, screen_text, settle, type_in, until
from tests.tui.test_app_literal import ALL, CONTROLS, is_clean
from tui.app import ClawApp
from tui.bridge import NoKey, Target
from tui.launch.listed_models import ModelChoice
from tui.screens.setup import SetupScreen
from tui.screens.setup_texts import typed_key_fault
from tui.setup_seam import Candidate, FoundServer, Offer
from tui.widgets.secret_field import SecretField

LLAMA_EVERYWHERE = tuple((f"llama.cpp {n}", f"http://127.0.0.1:808{n}/v1") for n in range(4))
MISSING = NoKey("~/.local/share/claw/auth.json", "~/.config/claw/config.toml")


@asynccontextmanager
async def setting_up(
    set_up: FakeSetUp | None = None, missing: NoKey = MISSING, **changes: Any
) -> AsyncIterator[tuple[ClawApp, Opener, FakeSetUp]]:
    """The first screen of a claw that can reach nothing."""
    set_up = set_up or FakeSetUp()
    async with running(opened=False, missing_key=missing, make_set_up=lambda: set_up, **changes) as (app, opener):
        await until(lambda: isinstance(app.screen, SetupScreen) and app.screen.is_drawn)
        yield app, opener, set_up


async def choose(app: ClawApp, label: str) -> None:
    """Mark the line with this label and press Enter."""
    for _ in range(20):
        marked = next((row for row in screen_text(app).split("\n") if label in row), None)
        assert marked is not None, screen_text(app)
        if marked_label(app).startswith(label):
            return await late_key(app, "enter")
        await press(app, "down")
    raise AssertionError(f"{label} cannot be marked")


async def late_escape(app: ClawApp) -> None:
    """Escape as a person presses it who has read what there is: to the application, whose bindings it is for."""
    event = key_event("escape")
    event.time += 10
    app.post_message(event)
    await settle(app)


def marked_label(app: ClawApp) -> str:
    from tui.widgets.choice_list import ChoiceList

    lines = app.screen.query_one(ChoiceList)
    return "" if lines.highlighted is None else str(lines.get_option_at_index(lines.highlighted).prompt)[3:].strip()


async def test_the_first_screen_leaves_the_composer_whole_where_it_has_room_and_is_cut_nowhere() -> None:
    offers = tuple(Offer(f"p{n}", f"Provider {n}", f"P{n}_API_KEY") for n in range(8))
    set_up = FakeSetUp(offers, LLAMA_EVERYWHERE, found=())
    async with setting_up(set_up) as (app, _, _):
        box, composer = app.screen.query_one("#box"), app.screen_stack[0].query_one("#composer")
        await until(lambda: 0 < box.region.bottom <= composer.region.y)
        await late_key(app, "l")
        await until(lambda: "look again." in screen_text(app))
        await settle(app)
        assert "Enter chooses" in screen_text(app) and "Set up claw" in screen_text(app) and "─╯" in screen_text(app)


async def test_the_first_screen_offers_everything_and_sends_nothing() -> None:
    async with setting_up() as (app, opener, set_up):
        text = screen_text(app)
        for part in (
            "A server on this machine",
            "Anthropic",
            "ANTHROPIC_API_KEY",
            "has a key",
            "Another server",
            "Quit",
        ):
            assert part in text
        await press(app, "escape")
        assert isinstance(app.screen, SetupScreen)
        assert opener.targets == [] and set_up.looks == 0 and set_up.asked == []


async def test_a_key_that_comes_too_early_chooses_nothing() -> None:
    async with setting_up() as (app, opener, set_up):
        await press(app, "enter", "d", "q")
        assert opener.targets == [] and set_up.looks == 0 and app.is_running
        await late_key(app, "d")
        await until(lambda: opener.targets == [Target("demo")])


async def test_a_server_on_this_machine_is_looked_for_only_when_chosen_and_then_used() -> None:
    async with setting_up() as (app, opener, set_up):
        await choose(app, "A server on this machine")
        await until(lambda: "These answered" in screen_text(app))
        assert set_up.looks == 1 and "smol and 1 more" in screen_text(app)
        await late_key(app, "enter")
        await until(lambda: "Which model of llama.cpp?" in screen_text(app))
        await until(lambda: "8k" in screen_text(app) and "131k" in screen_text(app))
        await press(app, "down", "enter")
        await until(lambda: opener.targets == [Target()])
        assert set_up.kept == [(LLAMA, "big")]
        await until(lambda: app.current.session is not None and len(app.screen_stack) == 1)
        await type_in(app, "hello")
        await until(lambda: opener.session.calls == [("prompt", "hello")])


async def test_where_no_server_answers_the_screen_says_where_it_looked() -> None:
    async with setting_up(FakeSetUp(found=())) as (app, _, set_up):
        await late_key(app, "l")
        await until(lambda: "No model server answered at llama.cpp (http://127.0.0.1:8080/v1)" in _flat(app))
        await late_key(app, "l")
        await until(lambda: set_up.looks == 2)


async def test_the_search_can_be_stopped_and_its_answer_no_longer_counts() -> None:
    set_up = FakeSetUp()
    set_up.gate.clear()
    async with setting_up(set_up) as (app, _, _):
        await late_key(app, "l")
        await until(lambda: "Asking the usual ports" in screen_text(app))
        await press(app, "escape")
        await until(lambda: "Quit" in screen_text(app))
        set_up.gate.set()
        await settle(app)
        assert "These answered" not in screen_text(app)


async def test_a_pasted_key_is_hidden_asked_with_and_kept() -> None:
    async with setting_up() as (app, opener, set_up):
        await choose(app, "Anthropic")
        await until(lambda: "~/.local/share/claw/auth.json" in _flat(app))
        app.post_message(events.Paste("  sk-ant-0123456789\n"))
        await settle(app)
        assert "sk-ant" not in screen_text(app) and "•" in screen_text(app)
        await press(app, "enter")
        await until(lambda: "Which model of Anthropic?" in screen_text(app))
        assert set_up.asked[0].key == Secret("sk-ant-0123456789") and set_up.kept == []
        await press(app, "enter")
        await until(lambda: opener.targets == [Target()])
        candidate, model = set_up.kept[0]
        assert (candidate.name, candidate.key, model) == ("anthropic", Secret("sk-ant-0123456789"), "claude-test")


@pytest.mark.parametrize(
    ("pasted", "told"),
    [
        ("", "no key yet"), ("   ", "no key yet"), ("sk ant", "space"), ("sk-1\nsk-2", "space"), ("'sk-1'", "quotes"),
        ('"sk-1"', "quotes"), ("“sk-1”", "quotes"), ("ANTHROPIC_API_KEY=sk-1", "assignment"),
        ("export ANTHROPIC_API_KEY=sk-1", "assignment"), ("sk-ключ", "not copied whole"), ("sk-\x00", "not copied whole"),
    ],
)  # fmt: skip
async def test_B20_what_cannot_be_a_key_is_told_in_place_and_not_sent(pasted: str, told: str) -> None:
    async with setting_up() as (app, _, set_up):
        await choose(app, "Anthropic")
        if pasted:
            app.post_message(events.Paste(pasted))
        await press(app, "enter")
        await until(lambda: told in _flat(app))
        assert set_up.asked == [] and app.screen.query_one(SecretField).display
        assert not pasted.strip() or pasted.strip() not in screen_text(app)


async def test_a_key_that_is_refused_leads_back_to_the_field() -> None:
    refused = AuthenticationError("invalid x-api-key", remedy="Check the key.")
    async with setting_up(FakeSetUp(listed=refused)) as (app, _, set_up):
        await choose(app, "Anthropic")
        await type_in(app, "sk-wrong")
        await until(lambda: "invalid x-api-key" in screen_text(app) and "Check the key." in screen_text(app))
        assert app.screen.query_one(SecretField).display and app.screen.query_one(SecretField).value == ""
        set_up.listed = (ModelChoice("anthropic/claude-test"),)
        await type_in(app, "sk-right")
        await until(lambda: "Which model" in screen_text(app))
        assert set_up.asked[-1].key == Secret("sk-right")


async def test_a_server_that_cannot_be_asked_stops_nobody_who_knows_the_models_name() -> None:
    gone = ConnectionFailedError("cannot connect [b]", remedy="Is it on?")
    async with setting_up(FakeSetUp(listed=gone)) as (app, opener, set_up):
        await choose(app, "OpenAI")
        await press(app, "enter")
        await until(lambda: "cannot connect [b]" in screen_text(app) and "Is it on?" in screen_text(app))
        await press(app, "enter")
        assert "Type the name of a model" in screen_text(app)
        await type_in(app, "gpt-x")
        await until(lambda: opener.targets == [Target()])
        assert set_up.kept[0][1] == "gpt-x" and set_up.kept[0][0].key == Secret("known")


async def test_a_variable_that_goes_before_a_kept_key_is_told() -> None:
    async with setting_up() as (app, _, set_up):
        await choose(app, "OpenAI")
        await type_in(app, "sk-other")
        await until(lambda: "OPENAI_API_KEY is set" in _flat(app))
        assert set_up.asked == []


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("", "empty"), ("ftp://x", "https://"), ("http://example.org", "unencrypted"), ("https://u:p@x.org", "password"),
        ("http://127.0.0.1:99999", "no address"), ("https://x.org/?k=1", "after ?"), ("local host", "space"),
    ],
)  # fmt: skip
async def test_B20_an_address_that_cannot_be_used_is_told_in_place(address: str, told: str) -> None:
    async with setting_up() as (app, _, set_up):
        await late_key(app, "o")
        app.screen.query_one("#field", Input).value = address
        await press(app, "enter")
        await until(lambda: told in _flat(app))
        assert app.screen.query_one("#field").display and set_up.asked == []


async def test_an_own_server_is_reached_by_address_api_and_a_key_that_may_be_left_out() -> None:
    async with setting_up() as (app, opener, set_up):
        await late_key(app, "o")
        await type_in(app, "http://127.0.0.1:9999")
        await choose(app, "Anthropic Messages")
        await until(lambda: "Enter alone goes on without" in _flat(app))
        await press(app, "enter")
        await until(lambda: "Which model of http://127.0.0.1:9999?" in screen_text(app))
        await press(app, "enter")
        await until(lambda: opener.targets == [Target()])
        candidate, _ = set_up.kept[0]
        assert (candidate.api, candidate.base_url, candidate.is_written) == ("anthropic", "http://127.0.0.1:9999", True)


async def test_escape_goes_back_one_step_at_a_time() -> None:
    async with setting_up() as (app, _, _):
        await late_key(app, "o")
        await type_in(app, "http://127.0.0.1:9999")
        await choose(app, "OpenAI Chat Completions")
        await press(app, "escape")
        await until(lambda: "Which API" in screen_text(app))
        await late_escape(app)
        await until(lambda: "The server's address" in screen_text(app))
        assert app.screen.query_one("#field", Input).value == "http://127.0.0.1:9999"
        await press(app, "escape")
        await until(lambda: "Nothing is sent" in screen_text(app))


async def test_what_cannot_be_written_is_told_and_can_be_tried_again() -> None:
    failing = FakeSetUp(failure=OSError("config.toml line 3: not valid TOML"))
    async with setting_up(failing) as (app, opener, set_up):
        await late_key(app, "l")
        await until(lambda: "These answered" in screen_text(app))
        await late_key(app, "enter")
        await press(app, "enter")
        await until(lambda: "config.toml line 3" in screen_text(app))
        assert opener.targets == []
        set_up.failure = None
        await press(app, "enter")
        await until(lambda: opener.targets == [Target()])


async def test_a_server_that_wants_a_key_is_asked_with_one() -> None:
    async with setting_up(FakeSetUp(found=(FoundServer(LLAMA, wants_key=True),))) as (app, _, set_up):
        await late_key(app, "l")
        await until(lambda: "wants a key" in screen_text(app))
        await late_key(app, "enter")
        await type_in(app, "secret")
        await until(lambda: set_up.asked != [])
        assert set_up.asked[0].key == Secret("secret") and set_up.asked[0].name == "llama.cpp"


async def test_setup_in_an_open_session_changes_its_model_and_can_be_closed() -> None:
    set_up = FakeSetUp()
    async with running(make_set_up=lambda: set_up) as (app, opener):
        await type_in(app, "/setup")
        await until(lambda: isinstance(app.screen, SetupScreen) and app.screen.is_drawn)
        assert "Quit" not in screen_text(app)
        await late_escape(app)
        await until(lambda: len(app.screen_stack) == 1)
        opener.session.provider_name = "openai"
        await type_in(app, "/setup")
        await until(lambda: isinstance(app.screen, SetupScreen) and app.screen.is_drawn)
        await late_key(app, "l")
        await until(lambda: "These answered" in screen_text(app))
        await late_key(app, "enter")
        await press(app, "enter")
        await until(lambda: opener.session.calls == [("model", "llama.cpp/smol")])


async def test_by_hand_shows_variables_and_files() -> None:
    async with setting_up() as (app, _, _):
        await late_key(app, "h")
        await until(lambda: "export ANTHROPIC_API_KEY=…" in screen_text(app))
        for part in ("OPENAI_API_KEY", "auth.json", "config.toml", "base_url"):
            assert part in screen_text(app)
        await press(app, "escape")
        await until(lambda: isinstance(app.screen, SetupScreen))


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (30, 8), (20, 5)])
async def test_every_step_stays_usable_at_any_size(size: tuple[int, int]) -> None:
    async with setting_up(size=(110, 38)) as (app, _, _):
        await resize(app, *size)
        await late_key(app, "end")
        await until(lambda: "Quit" in screen_text(app))
        await late_key(app, "o")
        await until(lambda: app.screen.query_one("#field").region.height == 1)
        field = app.screen.query_one("#field").region
        assert 0 <= field.y < size[1], screen_text(app)


async def test_B24_foreign_texts_are_literal() -> None:
    server = FoundServer(
        Candidate("llama.cpp", "llama.cpp", "chat", f"http://x/{ALL}{CONTROLS}"), (), fault=f"{ALL}{CONTROLS}"
    )
    named = FoundServer(LLAMA, (ModelChoice(f"llama.cpp/{ALL}{CONTROLS}"),))
    async with setting_up(FakeSetUp(found=(server, named)), NoKey("a", "b", detail=f"{ALL}{CONTROLS}"), size=(200, 40)) as (
        app, _, _,
    ):  # fmt: skip
        assert is_clean(screen_text(app))
        await late_key(app, "l")
        await until(lambda: "These answered" in screen_text(app))
        assert is_clean(screen_text(app)) and "[red]x" in screen_text(app)
        await press(app, "down")
        await late_key(app, "enter")
        await until(lambda: "Which model" in screen_text(app))
        assert is_clean(screen_text(app)) and "[red]x" in screen_text(app)


def test_a_remote_server_needs_a_key_and_one_on_this_machine_does_not() -> None:
    remote = Candidate("own", "x", "chat", "https://models.example.org/v1")
    assert typed_key_fault("", remote, has_variable=False)
    assert not typed_key_fault("", LLAMA, has_variable=False)


def _flat(app: ClawApp) -> str:
    """The screen without frames and line breaks, since texts are wrapped."""
    return " ".join(screen_text(app).replace("│", " ").split())

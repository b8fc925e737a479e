"""Fields take what is typed, pasted or dropped into them, and draw nothing that could drive a terminal."""

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.widgets import Input, TextArea

from tests.fakes.hostile import HOSTILE, leaks
from tests.tui.harness import press, running, screen_text, settle, until
from tui.sanitize import clean
from tui.widgets.secret_field import SecretField
from tui.widgets.text_field import MOST_CHARS, TextBox, TextField


class Fields(App[None]):
    def compose(self) -> ComposeResult:
        yield TextField(id="one")
        yield TextBox(id="many")
        yield SecretField(id="secret")


async def test_T59_no_field_holds_a_character_that_acts() -> None:
    app = Fields()
    async with app.run_test(size=(100, 30)):
        for field in (app.query_one("#one", Input), app.query_one("#secret", Input), app.query_one(TextArea)):
            field.focus()
            for sequence in HOSTILE:
                app.post_message(events.Paste(f"x{sequence}y "))
            await settle(app)
            held = field.value if isinstance(field, Input) else field.text
            assert "␛" in held and clean(held) == held
            assert leaks(screen_text(app).encode()) == []


async def test_T61_a_paste_of_any_size_into_one_line_is_cut() -> None:
    app = Fields()
    async with app.run_test():
        field = app.query_one("#one", Input)
        field.focus()
        app.post_message(events.Paste("\u200d" * 3_000_000))
        await settle(app)
        assert 0 < len(field.value) <= 8 * MOST_CHARS
        await press(app, "a")
        assert field.value.endswith("⟩")


@pytest.mark.parametrize("opens", ["pick_model", "pick_session", "context"])
async def test_T59_the_fields_of_the_screens_are_such(opens: str) -> None:
    async with running(size=(100, 40)) as (app, _):
        getattr(app.overlays, opens)()
        await until(lambda: len(app.screen_stack) == 2 and list(app.screen.query(Input)))
        assert all(isinstance(field, TextField) for field in app.screen.query(Input))

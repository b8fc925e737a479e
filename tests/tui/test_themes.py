import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict
from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from tests.fakes.session_kit import Desk
from tests.tui.harness import press, running, screen_text, type_in, until
from tests.tui.program import READY, Program
from tui.terminal_background import PATIENCE_S, AnswerFilter, dark_by_environment, is_dark
from tui.theme_choice import keep_theme, kept_theme
from tui.themes import CLAW_DARK, CLAW_LIGHT, CONTRAST, Palette, contrast, palette_for
from tui.theming import BackgroundKnown

THEMES = [CLAW_DARK, CLAW_LIGHT, *BUILTIN_THEMES.values()]
NO_TEXT = {"faint", "thumb", "track", "user_bar", "selection"}


def styles(palette: Palette) -> dict[str, Style]:
    named = {name: value for name, value in asdict(palette).items() if isinstance(value, Style) and name not in NO_TEXT}
    return named | dict(palette.syntax)


@pytest.mark.parametrize("theme", [theme for theme in THEMES if not theme.ansi], ids=lambda theme: theme.name)
def test_all_text_can_be_read(theme: Theme) -> None:
    palette = palette_for(theme)
    for name, style in styles(palette).items():
        assert style.color is not None, name
        assert style.bgcolor is not None, name
        ratio = contrast(Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor))
        assert ratio >= CONTRAST, (name, ratio)
    panel = Color.from_rich_color(palette.panel.bgcolor)
    assert all(contrast(Color.parse(color), panel) >= CONTRAST for color in palette.colors)


@pytest.mark.parametrize("theme", [theme for theme in THEMES if theme.ansi], ids=lambda theme: theme.name)
def test_an_ansi_theme_uses_the_terminals_own_colours_alone(theme: Theme) -> None:
    for style in styles(palette_for(theme)).values():
        for color in (style.color, style.bgcolor):
            assert color is None or color.is_system_defined or color.is_default


def test_the_palette_of_a_theme_is_one_object() -> None:
    assert palette_for(CLAW_DARK) is palette_for(CLAW_DARK)
    assert palette_for(CLAW_DARK) is not palette_for(CLAW_LIGHT)


# --------------------------------------------------------------------------- the terminal's brightness

LIGHT, DARK = "\x1b]11;rgb:fafa/fafa/fafa\x1b\\", "\x1b]11;rgb:1e/1e/1e\x07"


@pytest.mark.parametrize(
    ("color", "expected"),
    [
        ("rgb:0000/0000/0000", True), ("rgb:ffff/ffff/ffff", False), ("rgb:f/f/f", False), ("rgb:28/2c/34", True),
        ("rgba:ffff/ffff/ffff/8000", False), ("#ffffff", False), ("#1e1e2e", True), ("rgb:0000/2b2b/3636", True),
        ("rgb:fdfd/f6f6/e3e3", False), ("", None), ("rgb:/1/1", None), ("rgb:12345/1/1", None), ("white", None), ("?", None),
    ],
)  # fmt: skip
def test_a_colour_of_the_terminal_is_dark_or_light(color: str, expected: bool | None) -> None:
    assert is_dark(color) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("15;0", True),
        ("0;15", False),
        ("0;default;15", False),
        ("12;8", True),
        ("", None),
        ("x;y", None),
        ("15;", None),
    ],
)
def test_the_environment_says_it_in_numbers(value: str, expected: bool | None) -> None:
    assert dark_by_environment({"COLORFGBG": value}) is expected


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@given(
    before=st.text("ab\x1b[A;]1", max_size=12),
    after=st.text("ab\x1b[A;]1", max_size=12),
    cuts=st.sets(st.integers(0, 60)),
)
def test_the_answer_is_taken_out_of_the_input_however_it_is_cut(before: str, after: str, cuts: set[int]) -> None:
    heard: list[bool] = []
    answers = AnswerFilter(heard.append, Clock())
    text = before + LIGHT + after
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    kept = "".join(answers.feed(text[a:b]) for a, b in itertools.pairwise(places)) + answers.give_up()
    assert kept == before + after and heard == [False]


@given(st.lists(st.text("a\x1b]1;[\x07\\\\", max_size=8), max_size=8))
def test_no_key_is_lost_or_changed_where_no_answer_comes(pieces: list[str]) -> None:
    answers = AnswerFilter(lambda dark: None, Clock())
    kept = "".join(answers.feed(piece) for piece in pieces) + answers.give_up()
    whole = "".join(pieces)
    assert kept == whole or ("\x1b]11;" in whole and len(kept) < len(whole))


def test_only_one_answer_is_taken_and_none_that_comes_too_late() -> None:
    heard: list[bool] = []
    clock = Clock()
    answers = AnswerFilter(heard.append, clock)
    assert answers.feed(DARK) == "" and answers.feed(LIGHT) == LIGHT and heard == [True]
    late = AnswerFilter(heard.append, clock)
    clock.now = PATIENCE_S + 0.1
    assert late.feed(LIGHT) == LIGHT and heard == [True] and not late.holds


# --------------------------------------------------------------------------- the theme in force


@pytest.fixture
def no_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLORFGBG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_hint")
async def test_auto_follows_the_terminal_and_a_chosen_theme_does_not() -> None:
    async with running(theme="auto") as (app, _):
        assert app.theme == "claw-dark"
        app.post_message(BackgroundKnown(False))
        await until(lambda: app.theme == "claw-light")
        await type_in(app, "/theme nord")
        await until(lambda: app.theme == "nord")
        app.post_message(BackgroundKnown(True))
        await type_in(app, "/theme auto")
        await until(lambda: app.theme == "claw-dark")


async def test_the_environments_hint_counts_until_the_terminal_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLORFGBG", "0;15")
    async with running(theme="auto") as (app, _):
        assert app.theme == "claw-light"
        app.post_message(BackgroundKnown(True))
        await until(lambda: app.theme == "claw-dark")


async def test_no_color_has_no_colours_whatever_is_wished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(theme="claw-light") as (app, _):
        assert app.current_theme.ansi and app.native_ansi_color and not app.asks_background
        await type_in(app, "/theme nord")
        assert app.current_theme.ansi


@pytest.mark.usefixtures("no_hint")
async def test_an_unknown_theme_in_the_configuration_is_no_crash_and_one_typed_is_told() -> None:
    async with running(theme="nonsense[b]") as (app, _):
        assert app.theme == "claw-dark" and app.theme_wish == "auto"
        await type_in(app, "/theme claw-ligt")
        await until(lambda: "Did you mean /theme claw-light?" in screen_text(app))
        assert app.theme == "claw-dark"


@pytest.mark.usefixtures("no_hint")
async def test_the_marked_theme_is_in_force_at_once_enter_keeps_it_and_escape_goes_back() -> None:
    kept: list[str] = []

    def keep(name: str) -> str:
        kept.append(name)
        return "a remark"

    async with running(theme="claw-dark", keep_theme=keep) as (app, _):
        await type_in(app, "/theme")
        await until(lambda: "as dark or light as the terminal" in screen_text(app))
        await press(app, "down")
        await until(lambda: app.theme == "claw-light")
        await press(app, "escape")
        await until(lambda: app.theme == "claw-dark" and len(app.screen_stack) == 1)
        assert kept == []
        await type_in(app, "/theme")
        await until(lambda: len(app.screen_stack) == 2)
        await press(app, *"nord")
        await until(lambda: app.theme == "nord")
        await press(app, "enter")
        await until(lambda: kept == ["nord"] and "a remark" in screen_text(app))
        assert app.theme == "nord"


def test_the_choice_is_kept_beside_what_else_the_state_holds(tmp_path: Path) -> None:
    state = tmp_path / "state" / "state.toml"
    assert kept_theme(state) is None
    keep_theme(state, "nord")
    assert kept_theme(state) == "nord"
    state.write_text(state.read_text() + '[grants."/x"]\nallow = ["edit"]\n')
    keep_theme(state, "auto")
    assert kept_theme(state) == "auto" and "allow" in state.read_text()
    for damaged in (b"theme = ", b"tui = 3 # theme", b"[tui]\ntheme = 3\n", b"\xff theme"):
        state.write_bytes(damaged)
        assert kept_theme(state) is None


def test_the_real_program_asks_the_terminal_and_turns_light(desk: Desk) -> None:
    with Program(desk, "-m", desk.model) as claw:
        claw.wait_for_bytes(b"\x1b]11;?")
        claw.type(LIGHT)
        claw.ready()
        claw.wait_for(lambda _: claw.screen.buffer[2][70].bg == "fcfcfa")
        assert "rgb:" not in claw.text() and READY in claw.text()
        claw.quit()


def test_the_real_program_writes_no_colour_where_none_is_wanted(desk: Desk) -> None:
    with Program(desk, "-m", desk.model, NO_COLOR="1") as claw:
        claw.ready()
        claw.say("/help")
        claw.wait_for("╭─ Help")
        claw.type("\x1b")
        claw.wait_for(lambda text: "╭─ Help" not in text)
        claw.quit()
        assert b"\x1b]11;?" not in claw.raw
        assert not any(code in claw.raw for code in (b"38;2;", b"48;2;", b"38;5;", b"[31m", b"[34m"))

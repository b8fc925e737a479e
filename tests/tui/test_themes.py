import pytest
from msgspec.structs import asdict
from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from tui.themes import CLAW_DARK, CLAW_LIGHT, CONTRAST, Palette, contrast, palette_for

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

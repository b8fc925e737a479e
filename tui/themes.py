"""Colours: claw's own dark and light themes for Textual, and the palette of rich styles the transcript is drawn with.

A palette is made from the theme in force, whatever that is: claw's own, another of Textual's, or an ANSI theme that
follows the terminal's colours. Every text colour is moved until its contrast with the surface behind it is at least 4.5.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.theme import Theme

_SEEDS = ("background", "foreground", "primary", "secondary", "accent", "success", "warning", "error")
AUTO = "auto"
"""Instead of a theme's name: claw's own, as dark or light as the terminal."""
CONTRAST = 4.5
"""WCAG AA for normal text."""

CLAW_DARK = Theme(
    name="claw-dark",
    primary="#7aa7f0",
    secondary="#b39df0",
    accent="#e0a66c",
    success="#86c58f",
    warning="#e2c06c",
    error="#ec8080",
    foreground="#d8dbe2",
    background="#14161a",
    surface="#1b1e24",
    panel="#22262e",
    dark=True,
)

CLAW_LIGHT = Theme(
    name="claw-light",
    primary="#2456b5",
    secondary="#6a44b0",
    accent="#8f520a",
    success="#1f6d38",
    warning="#7d5a08",
    error="#b3282d",
    foreground="#25282e",
    background="#fcfcfa",
    surface="#f2f2ee",
    panel="#e9e9e4",
    dark=False,
)


class Palette(Struct, frozen=True, eq=False):
    """Styles with their background baked in, so that a row needs no further work once it is made.

    Palettes are compared by identity: `palette_for` gives the same object for the same colours.
    """

    text: Style
    strong: Style
    dim: Style
    faint: Style
    """Rules and table borders; never text."""
    thinking: Style
    heading: Style
    code: Style
    """Code inside a sentence."""
    link: Style
    target: Style
    """The real address behind a link."""
    quote: Style
    user: Style
    user_dim: Style
    user_bar: Style
    panel: Style
    """Code blocks and command output."""
    panel_dim: Style
    running: Style
    success: Style
    error: Style
    warning: Style
    info: Style
    added: Style
    removed: Style
    added_word: Style
    removed_word: Style
    added_mark: Style
    removed_mark: Style
    selection: Style
    """Laid over selected cells."""
    thumb: Style
    track: Style
    colors: tuple[str, ...]
    """The sixteen colours that programs may ask for, readable on `panel`."""
    syntax: Mapping[str, Style]
    """Name of a Pygments token without `Token.`, for instance `Literal.String`, → style on `panel`."""


def register_themes(app: App[Any]) -> None:
    """Make claw's themes known to the application; choose one with `app.theme = "claw-dark"`."""
    app.register_theme(CLAW_DARK)
    app.register_theme(CLAW_LIGHT)


def theme_names(available: Sequence[str]) -> tuple[str, ...]:
    """What can be wished for: "auto" and claw's own, then the others by name."""
    own = (CLAW_DARK.name, CLAW_LIGHT.name)
    return (AUTO, *own, *sorted(name for name in available if name not in own))


def palette_for(theme: Theme) -> Palette:
    """The palette that belongs to a theme; the same object as long as the theme's colours are the same."""
    if theme.ansi:
        return _ansi_palette()
    return _palette(theme.dark, _seeds(theme.dark, *(getattr(theme, name) for name in _SEEDS)))


@lru_cache(8)
def _seeds(dark: bool, *given: str | None) -> tuple[str, ...]:
    """The colours that Textual makes of what a theme gives; it works out two hundred others with them."""
    colors = Theme("", **dict(zip(_SEEDS, given, strict=True)), dark=dark).to_color_system().generate()  # type: ignore[arg-type]
    return tuple(Color.parse(colors[name]).hex6 for name in _SEEDS)


def contrast(a: Color, b: Color) -> float:
    """WCAG contrast of two opaque colours, from 1.0 (equal) to 21.0."""
    high, low = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@lru_cache(1024)
def readable(color: Color, background: Color, ratio: float = CONTRAST) -> Color:
    """The colour, moved towards white or black only as far as its contrast with the background needs."""
    pole = Color.parse("white" if _luminance(background) < 0.18 else "black")
    for step in range(20):
        moved = color.blend(pole, step / 20)
        if contrast(moved, background) >= ratio:
            return moved
    return pole


def _luminance(color: Color) -> float:
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color.normalized)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _on(
    back: Color, color: Color, bold: bool | None = None, italic: bool | None = None, line: bool | None = None
) -> Style:
    readable_color = readable(color, back).hex6
    return Style(color=readable_color, bgcolor=back.hex6, bold=bold, italic=italic, underline=line)


@lru_cache(8)
def _palette(dark: bool, seeds: tuple[str, ...]) -> Palette:
    base, ink, blue, purple, orange, green, yellow, red = map(Color.parse, seeds)
    raised, panel, quiet = base.blend(blue, 0.12), base.blend(ink, 0.05), ink.blend(base, 0.42)
    tint, word = (0.15, 0.36) if dark else (0.13, 0.30)
    added, removed = base.blend(green, tint), base.blend(red, tint)
    sixteen = (quiet, red, green, yellow, blue, purple, blue.blend(green, 0.5), ink)
    return Palette(
        text=_on(base, ink),
        strong=_on(base, ink, bold=True),
        dim=_on(base, quiet),
        faint=Style(color=ink.blend(base, 0.72).hex6, bgcolor=base.hex6),
        thinking=_on(base, quiet, italic=True),
        heading=_on(base, blue, bold=True),
        code=_on(base, orange),
        link=_on(base, blue, line=True),
        target=_on(base, quiet),
        quote=_on(base, ink.blend(base, 0.2), italic=True),
        user=_on(raised, ink),
        user_dim=_on(raised, quiet),
        user_bar=Style(color=blue.hex6, bgcolor=raised.hex6),
        panel=_on(panel, ink),
        panel_dim=_on(panel, quiet),
        running=_on(base, yellow),
        success=_on(base, green),
        error=_on(base, red),
        warning=_on(base, yellow),
        info=_on(base, blue),
        added=_on(added, ink),
        removed=_on(removed, ink),
        added_word=_on(base.blend(green, word), ink),
        removed_word=_on(base.blend(red, word), ink),
        added_mark=_on(added, green),
        removed_mark=_on(removed, red),
        selection=Style(bgcolor=base.blend(blue, 0.42 if dark else 0.28).hex6),
        thumb=Style(color=ink.blend(base, 0.6).hex6, bgcolor=base.hex6),
        track=Style(color=base.hex6, bgcolor=base.hex6),
        colors=tuple(readable(color, panel).hex6 for color in (*sixteen, *sixteen)),
        syntax=_syntax(panel, quiet, blue, purple, orange, green, red),
    )


def _syntax(
    panel: Color, quiet: Color, blue: Color, purple: Color, orange: Color, green: Color, red: Color
) -> Mapping[str, Style]:
    by_color = {
        blue: ("Name.Function", "Name.Class", "Name.Builtin", "Generic.Heading"),
        purple: ("Keyword", "Name.Tag", "Operator.Word", "Generic.Subheading"),
        orange: ("Literal.Number", "Name.Decorator", "Name.Attribute", "Name.Exception", "Keyword.Constant"),
        green: ("Literal.String", "Generic.Inserted"),
        red: ("Generic.Deleted", "Generic.Error"),
        quiet: ("Comment", "Generic.Prompt", "Generic.Output"),
    }
    return MappingProxyType(
        {
            name: _on(panel, color, italic=True if name == "Comment" else None)
            for color, names in by_color.items()
            for name in names
        }
    )


@lru_cache(1)
def _ansi_palette() -> Palette:
    """Only the terminal's own colours, on its own background."""

    def ink(
        color: str = "default", *, dim: bool | None = None, bold: bool | None = None, italic: bool | None = None
    ) -> Style:
        return Style(color=color, bgcolor="default", dim=dim, bold=bold, italic=italic)

    plain, dim, bold = ink(), ink(dim=True), ink(bold=True)
    red, green, yellow, blue, magenta = (ink(name) for name in ("red", "green", "yellow", "blue", "magenta"))
    named = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
    return Palette(
        text=plain,
        strong=bold,
        dim=dim,
        faint=dim,
        thinking=ink(dim=True, italic=True),
        heading=ink("blue", bold=True),
        code=magenta,
        link=blue + Style(underline=True),
        target=dim,
        quote=ink(italic=True),
        user=bold,
        user_dim=dim,
        user_bar=blue,
        panel=plain,
        panel_dim=dim,
        running=yellow,
        success=green,
        error=red,
        warning=yellow,
        info=blue,
        added=green,
        removed=red,
        added_word=green + Style(bold=True, underline=True),
        removed_word=red + Style(bold=True, underline=True),
        added_mark=green,
        removed_mark=red,
        selection=Style(reverse=True),
        thumb=plain,
        track=dim,
        # Black and white could equal the background: they become the ordinary colour.
        colors=tuple("default" if name in ("black", "white") else name for name in (*named, *named)),
        syntax=MappingProxyType(
            {
                "Keyword": magenta,
                "Literal.String": green,
                "Literal.Number": yellow,
                "Comment": dim,
                "Name.Function": blue,
                "Name.Class": blue,
            }
        ),
    )

"""The kinds of parts that fill a window: how each is called and coloured, in the order in which they are shown.

A kind that is not in the table (a newer agent's) is shown under its own name. Fills stand out from the background by at
least 3:1, as graphics have to; without colours a kind is told by its letter.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache

from msgspec import Struct
from rich.style import Style
from textual.color import Color

from tui.sanitize import one_line
from tui.themes import Palette, readable

FREE, RESERVE = "free", "reserve"
"""Kinds beside those of the agent: room that is left, and room that the reply needs."""
GRAPHIC_CONTRAST = 3.0


class Kind(Struct, frozen=True):
    label: str
    letter: str


KINDS: Mapping[str, Kind] = {
    "system": Kind("system", "S"),
    "tools": Kind("tools", "T"),
    "mcp": Kind("MCP tools", "M"),
    "instructions": Kind("instructions", "I"),
    "summary": Kind("summary", "C"),
    "pins": Kind("pins", "P"),
    "user": Kind("user", "U"),
    "images": Kind("images", "G"),
    "assistant": Kind("assistant", "A"),
    "thinking": Kind("thinking", "H"),
    "tool_results": Kind("tool results", "R"),
    "reminders": Kind("reminders", "N"),
    FREE: Kind("free", "·"),
    RESERVE: Kind("reserve", "/"),
}
_ORDER = {name: place for place, name in enumerate(KINDS)}


def kind_of(name: str) -> Kind:
    known = KINDS.get(name)
    return known if known is not None else Kind(one_line(name.replace("_", " "), 14), "?")


def order_of(name: str) -> int:
    """Where the kind stands among the others; unknown ones behind the known, before free and reserve."""
    place = _ORDER.get(name, _ORDER["reminders"] + 0.5)
    return round(place * 2)


class Tint(Struct, frozen=True):
    """A kind's colours as the theme in force has them."""

    fill: str
    """Of its cells in the map."""
    shade: str
    """Of every other part in a run of the same kind."""
    label: Style
    """Text on the fill."""
    text: Style
    """Its name beside other text."""


@lru_cache(8)
def tints(palette: Palette) -> Callable[[str], Tint]:
    """The tint of each kind under a palette, by name."""
    made = _ansi_tints(palette) if not _is_true(palette) else _tints(palette)
    return lambda name: made.get(name) or made["reminders"]


def _is_true(palette: Palette) -> bool:
    """Whether the palette has colours of its own, not only names of the terminal's."""
    return palette.text.bgcolor is not None and palette.text.bgcolor.triplet is not None


def _tints(palette: Palette) -> Mapping[str, Tint]:
    quiet, red, green, yellow, blue, purple, cyan, ink = map(Color.parse, palette.colors[:8])
    assert palette.text.bgcolor is not None and palette.code.color is not None
    base, orange = Color.from_rich_color(palette.text.bgcolor), Color.from_rich_color(palette.code.color)
    colors = {
        "system": blue,
        "tools": cyan,
        "mcp": cyan.blend(base, 0.35),
        "instructions": purple,
        "summary": yellow,
        "pins": orange.blend(red, 0.45),
        "user": green,
        "images": green.blend(yellow, 0.6),
        "assistant": ink.blend(base, 0.15),
        "thinking": quiet,
        "tool_results": red.blend(purple, 0.3),
        "reminders": quiet.blend(yellow, 0.35),
    }
    # As pale as an area may be: what is right for letters is loud on a field of cells.
    pale = {name: readable(color.blend(base, 0.12), base, GRAPHIC_CONTRAST) for name, color in colors.items()}
    made = {name: _tint(fill, base, palette) for name, fill in pale.items()}
    room = base.blend(ink, 0.1).hex6
    made[FREE] = Tint(room, room, Style(color=readable(quiet, base.blend(ink, 0.1)).hex6, bgcolor=room), palette.dim)
    made[RESERVE] = Tint(base.hex6, base.hex6, palette.dim, palette.dim)
    return made


def _tint(fill: Color, base: Color, palette: Palette) -> Tint:
    shade = fill.blend(base, 0.22)
    on_fill = readable(base, fill)
    text = palette.text + Style(color=readable(fill, base).hex6)
    return Tint(fill.hex6, shade.hex6, Style(color=on_fill.hex6, bgcolor=fill.hex6), text)


def _ansi_tints(palette: Palette) -> Mapping[str, Tint]:
    names = {
        "system": ("blue", "bright_blue"),
        "tools": ("cyan", "bright_cyan"),
        "mcp": ("bright_cyan", "cyan"),
        "instructions": ("magenta", "bright_magenta"),
        "summary": ("yellow", "bright_yellow"),
        "pins": ("bright_yellow", "yellow"),
        "user": ("green", "bright_green"),
        "images": ("bright_green", "green"),
        "assistant": ("white", "bright_white"),
        "thinking": ("bright_black", "bright_black"),
        "tool_results": ("red", "bright_red"),
        "reminders": ("bright_magenta", "magenta"),
        FREE: ("default", "default"),
        RESERVE: ("default", "default"),
    }
    return {
        kind: Tint(fill, shade, Style(color="black", bgcolor=fill), palette.text + Style(color=fill))
        if fill != "default"
        else Tint(fill, shade, palette.dim, palette.dim)
        for kind, (fill, shade) in names.items()
    }

"""Which theme is in force: the one that was wished for, or claw's own in the terminal's brightness where that is "auto".

The brightness is asked of the terminal when the screen opens and known a moment later; until then the environment's word
counts, and dark without one. With NO_COLOR nothing is asked and nothing coloured. Who keeps a wish is not known here.
"""

import os
from typing import Any

from rich.console import Console
from textual.app import App
from textual.message import Message

from tui.sanitize import clean
from tui.terminal_background import dark_by_environment
from tui.themes import AUTO, CLAW_DARK, CLAW_LIGHT, palette_for, register_themes

NO_COLOR_THEME = "ansi-dark"


class BackgroundKnown(Message, bubble=False):
    """The terminal has said how bright it is."""

    def __init__(self, is_dark: bool) -> None:
        super().__init__()
        self.is_dark = is_dark


class ThemedApp(App[None]):
    """An application whose theme is a wish that can be fulfilled now or later."""

    def __init__(self, wish: str, **options: Any) -> None:
        """An unknown theme counts as "auto"."""
        self._colourless = "NO_COLOR" in os.environ
        super().__init__(ansi_color=True if self._colourless else None, **options)
        # Standard error shows every sequence that is written to it, colours too.
        self.error_console = Console(markup=False, highlight=False, stderr=True, color_system=None)
        register_themes(self)
        self._is_dark = dark_by_environment(os.environ) is not False
        self._wish = AUTO
        self.wish_theme(wish)

    def _fatal_error(self) -> None:
        """Textual's own report shows the values of variables, with whatever secrets and sequences they hold."""
        from rich.text import Text

        from tui.crash import crash_text

        if self._exception is not None:
            self._exit_renderables.append(Text(clean(crash_text(self._exception)).rstrip("\n")))
        self._close_messages_no_wait()

    def copy_to_clipboard(self, text: str) -> None:
        """What lies on the clipboard is what stood on the screen: every control in it is visible."""
        super().copy_to_clipboard(clean(text))

    @property
    def theme_wish(self) -> str:
        """The name of a theme, or "auto"."""
        return self._wish

    @property
    def asks_background(self) -> bool:
        """Whether the terminal's answer could change anything."""
        return not self._colourless

    def wish_theme(self, wish: str) -> None:
        self._wish = wish if wish in self.available_themes else AUTO
        self._fulfil()

    def _fulfil(self) -> None:
        wished = (CLAW_DARK if self._is_dark else CLAW_LIGHT).name if self._wish == AUTO else self._wish
        name = NO_COLOR_THEME if self._colourless else wished
        if self.theme != name:
            self.theme = name

    def on_background_known(self, message: BackgroundKnown) -> None:
        self._is_dark = message.is_dark
        self._fulfil()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        color = palette_for(self.current_theme).dim.color
        return {"claw-dim": color.triplet.hex if color is not None and color.triplet else "#808080"}

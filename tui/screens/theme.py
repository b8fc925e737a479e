"""The choice of a theme: the marked one is in force at once, Enter keeps it, Esc goes back to the one before."""

from collections.abc import Callable, Sequence

from textual.content import Content
from textual.widgets import OptionList

from tui.screens.picker import Line, Picker
from tui.themes import AUTO


class ThemeScreen(Picker):
    """Dismissed with the name of a theme, or "auto"."""

    def __init__(self, names: Sequence[str], current: str, preview: Callable[[str], None]) -> None:
        super().__init__("Theme", "A part of a name")
        self._names = names
        self._current = current
        self._preview = preview

    def on_mount(self) -> None:
        self.query_one("#box").border_subtitle = Content("Enter keeps it · Esc")
        self.fill([_line(name) for name in self._names], "There is no theme.")
        if self._current in self._names:
            self.query_one("#lines", OptionList).highlighted = self._names.index(self._current)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        if event.option_index < len(self._shown):
            self._preview(self._shown[event.option_index][0])

    def finish(self, result: str | None) -> None:
        if result is None:
            self._preview(self._current)
        super().finish(result)


def _line(name: str) -> Line:
    return name, name, "claw's own, as dark or light as the terminal" if name == AUTO else ""

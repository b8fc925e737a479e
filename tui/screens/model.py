"""The choice of a model: those that the reachable providers list, with window, price and abilities, or any name typed.

A provider that does not answer is named with the reason below the list.
"""

from collections.abc import Awaitable, Callable

from textual import events
from textual.content import Content
from textual.widgets import Static

from tui.current import said
from tui.launch.listed_models import Listing, ModelChoice, SilentProvider, abilities_text
from tui.sanitize import clean, one_line
from tui.screens.model_lines import model_line, name_cells, silent_text
from tui.screens.picker import Line, Picker

MOST_SILENT = 4


class ModelScreen(Picker):
    """Dismissed with PROVIDER/MODEL."""

    def __init__(self, current: str, list_models: Callable[[], Awaitable[Listing]]) -> None:
        super().__init__("Model", "a part of a name, or PROVIDER/MODEL", free_text=True)
        self._current = current
        self._list_models = list_models
        self._by_name: dict[str, ModelChoice] = {}

    def on_mount(self) -> None:
        self.query_one("#box").border_subtitle = Content("context window · USD in/out for a million tokens")
        self.query_one("#note", Static).update(Content(f"now {one_line(self._current, 60)} · asking the providers…"))
        self.run_worker(self._fetch(), exit_on_error=False)

    async def _fetch(self) -> None:
        try:
            listed = await self._list_models()
        except Exception as error:
            self.fill((), f"The list could not be fetched ({said(error)}). A typed name works.")
            return
        models = [item for item in listed if isinstance(item, ModelChoice)]
        silent = [item for item in listed if isinstance(item, SilentProvider)]
        self._by_name = {model.name: model for model in models}
        names = [model.name for model in models]
        marked = names.index(self._current) if self._current in names else 0
        self.fill([_line(model) for model in models], "No list. A typed name works.", marked)
        if silent:
            self._tell(silent, has_models=bool(models))

    def _tell(self, silent: list[SilentProvider], *, has_models: bool) -> None:
        rows = [silent_text(provider) for provider in silent[:MOST_SILENT]]
        if len(silent) > MOST_SILENT:
            rows.append(f"and {len(silent) - MOST_SILENT} more that did not answer")
        if not has_models:
            rows.append("No list. A typed name works.")
        self.query_one("#note", Static).update(Content(clean("\n".join(rows))))

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self.draw_again)

    def draw(self, line: Line) -> Content:
        width = max(20, (self.query_one("#filter").size.width or self.app.size.width - 8) - 1)
        cells = name_cells(list(self._by_name.values()), width)
        return model_line(self._by_name[line[0]], width, cells, is_current=line[0] == self._current)


def _line(model: ModelChoice) -> Line:
    """What the filter looks through."""
    return model.name, model.name, f"{abilities_text(model)} {model.detail}"

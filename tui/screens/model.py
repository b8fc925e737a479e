"""The choice of a model: those the configured providers list, or any name typed."""

from collections.abc import Awaitable, Callable, Sequence

from tui.bridge import ModelChoice
from tui.screens.picker import Picker


class ModelScreen(Picker):
    """Dismissed with PROVIDER/MODEL."""

    def __init__(self, current: str, list_models: Callable[[], Awaitable[Sequence[ModelChoice]]]) -> None:
        super().__init__("Model", "PROVIDER/MODEL, or a part of a name", free_text=True)
        self._current = current
        self._list_models = list_models

    def on_mount(self) -> None:
        self.run_worker(self._fetch(), exit_on_error=False)

    async def _fetch(self) -> None:
        try:
            models = await self._list_models()
        except Exception as error:
            self.fill((), f"The list could not be fetched ({error}). A typed name works.")
            return
        lines = [
            (model.name, model.name, f"{model.detail} · now" if model.name == self._current else model.detail)
            for model in models
        ]
        self.fill(lines, "No list. A typed name works.")

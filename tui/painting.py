"""The screen that paints what has changed and no more.

Textual asks every widget on the screen for all of its lines whenever a cell changes anywhere, since it compares the change
with the area that a widget may draw in, and that is the whole screen. Here a widget is asked for the rows that changed,
and only if they touch it. Decision: two methods of Textual's compositor are overridden, one of them private; a test
compares what is painted with a full painting.
"""

from collections.abc import Iterable

from textual._compositor import ChopsUpdate, Compositor
from textual.app import App
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip


class NarrowCompositor(Compositor):
    def __init__(self) -> None:
        super().__init__()
        self._changed: tuple[Region, ...] = ()
        """The regions that are being painted; none while all is."""

    def render_partial_update(self) -> ChopsUpdate | None:
        self._changed = tuple(self._dirty_regions)
        try:
            return super().render_partial_update()
        finally:
            self._changed = ()

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        if not self._changed:
            yield from super()._get_renders(crop)
            return
        painted: list[Region] = []
        for widget, (region, clip) in self.visible_widgets.items():  # from the front to the back
            shown = region.intersection(clip)
            touched = [cells for part in self._changed if (cells := part.intersection(shown))]
            if touched and not all(any(front.contains_region(cells) for front in painted) for cells in touched):
                top, bottom = min(cells.y for cells in touched), max(cells.bottom for cells in touched)
                rows = Region(shown.x, top, shown.width, bottom - top)
                painted.append(rows)
                yield region, rows, widget.render_lines(rows.translate((-region.x, -region.y)))


class MainScreen(Screen[None]):
    def __init__(self) -> None:
        super().__init__(id="_default")
        self._compositor = NarrowCompositor()


class NarrowPainting(App[None]):
    """An application whose first screen paints like that."""

    def get_default_screen(self) -> MainScreen:
        return MainScreen()

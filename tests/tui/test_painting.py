import random
from collections.abc import Iterable

import pyte
import pytest
from rich.segment import Segment
from textual._compositor import CompositorUpdate
from textual.app import ComposeResult
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from tui.painting import NarrowPainting

SIZE = (50, 16)


class Rows(Widget):
    """Draws each row by itself, and counts the rows it was asked for."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.texts: dict[int, str] = {}
        self.asked = 0

    def render_line(self, y: int) -> Strip:
        self.asked += 1
        return Strip([Segment(self.texts.get(y, "")[: self.size.width].ljust(self.size.width))])

    def put(self, y: int, text: str) -> None:
        self.texts[y] = text
        self.refresh(Region(0, y, self.size.width, 1))


class Painted(NarrowPainting):
    """Everything the compositor gives out goes to a terminal."""

    CSS = """
    Screen { layers: base popup; }
    #rows { height: 1fr; }
    #frame { height: 3; border: round red; padding: 0 1; }
    #foot { height: 1; }
    #popup { layer: popup; dock: bottom; margin: 0 4 2 6; width: 20; height: 5; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.terminal = pyte.Screen(*SIZE)
        self._stream = pyte.Stream(self.terminal)

    def compose(self) -> ComposeResult:
        yield Rows("rows")
        yield Static("frame", id="frame", markup=False)
        yield Static("foot", id="foot", markup=False)
        yield Static("popup", id="popup", markup=False)

    def _display(self, screen: Screen[object], renderable: object) -> None:
        super()._display(screen, renderable)  # type: ignore[arg-type] # whatever the compositor gave
        if screen is self.screen and isinstance(renderable, CompositorUpdate):
            # A new line moves the cursor where a terminal in raw mode would only go down; each row is placed by itself.
            self._stream.feed(renderable.render_segments(self.console).replace("\n", "\r\n"))


def whole(app: Painted) -> Iterable[str]:
    terminal = pyte.Screen(*SIZE)
    pyte.Stream(terminal).feed(app.screen._compositor.render_full_update().render_segments(app.console))
    return terminal.display


@pytest.mark.parametrize("seed", range(6))
async def test_what_is_painted_bit_by_bit_is_what_a_full_painting_shows(seed: int) -> None:
    chance = random.Random(seed)
    app = Painted()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        for number in range(40):
            for _ in range(chance.randint(1, 3)):
                match chance.randrange(6):
                    case 0 | 1 | 2:
                        app.query_one(Rows).put(chance.randrange(11), f"row {number} " + "x" * chance.randrange(60))
                    case 3:
                        app.query_one("#frame", Static).update(f"frame {number}")
                    case 4:
                        app.query_one("#foot", Static).update(f"foot {number}")
                    case 5:
                        popup = app.query_one("#popup", Static)
                        popup.display = not popup.display if chance.random() < 0.3 else popup.display
                        popup.update("\n".join(f"{number} line {line}" for line in range(chance.randint(1, 5))))
            await pilot.pause()
            assert app.terminal.display == whole(app), number


async def test_a_widget_is_asked_for_the_rows_that_changed_alone() -> None:
    app = Painted()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        rows = app.query_one(Rows)
        rows.asked = 0
        app.query_one("#foot", Static).update("other")
        await pilot.pause()
        assert rows.asked == 0
        rows.put(3, "new")
        await pilot.pause()
        assert rows.asked == 1

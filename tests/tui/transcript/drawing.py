"""What the tests of the transcript share: a screen with nothing but the view, and how blocks look as text."""

from collections.abc import Callable, Iterable

from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.strip import Strip

from tui.sanitize import clean
from tui.themes import CLAW_DARK, palette_for, register_themes
from tui.tuning import SureTimers
from tui.widgets.blocks import Block, reply_block
from tui.widgets.column import render
from tui.widgets.page import Page
from tui.widgets.splitter import Splitter
from tui.widgets.transcript import TranscriptPane, TranscriptView


def page(width: int = 80) -> Page:
    return Page(width, palette_for(CLAW_DARK))


def reply(text: str, width: int = 80) -> list[Strip]:
    """The rows of a whole reply."""
    splitter = Splitter()
    pieces = splitter.feed(clean(text)) + splitter.finish()
    return rows([reply_block(piece, splitter.references) for piece in pieces], width)


def rows(blocks: Iterable[Block], width: int = 80) -> list[Strip]:
    return [strip for block in blocks for strip in render(block, page(width)).strips]


def text_of(strips: Iterable[Strip]) -> str:
    return "\n".join(strip.text.rstrip() for strip in strips)


def screen(view: TranscriptView) -> str:
    """What the view shows, drawn up to date."""
    view.frame()
    return text_of(view.render_lines(view.size.region))


class Recording(TranscriptView):
    """Keeps which rows were asked to be drawn anew."""

    refreshed: list[Region]

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> "Recording":
        self.__dict__.setdefault("refreshed", []).extend(regions)
        super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
        return self


class Screen(SureTimers, App[None]):
    """The view (and its scroll bar) alone; `fill` is called once it is mounted."""

    def __init__(self, fill: Callable[[TranscriptView], None] = lambda _: None, theme: str = "claw-dark") -> None:
        super().__init__()
        register_themes(self)
        self.theme = theme
        self.copied: list[str] = []
        self._fill = fill
        self.pane = TranscriptPane()

    @property
    def view(self) -> TranscriptView:
        return self.pane.view

    def compose(self) -> ComposeResult:
        yield self.pane

    def on_mount(self) -> None:
        self._fill(self.view)

    def copy_to_clipboard(self, text: str) -> None:
        self.copied.append(text)


class RecordingScreen(SureTimers, App[None]):
    """A view that records its refreshes, without a scroll bar."""

    def __init__(self) -> None:
        super().__init__()
        register_themes(self)
        self.theme = "claw-dark"
        self.view = Recording()

    def compose(self) -> ComposeResult:
        yield self.view

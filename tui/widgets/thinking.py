"""The model's thinking: its last lines while it streams, one line afterwards, all of it when unfolded."""

from rich.style import Style

from tui.sanitize import shorten
from tui.widgets.blocks import Block, Foldable
from tui.widgets.lines import Line, wrap
from tui.widgets.page import Page
from tui.widgets.splitter import split_plain

_LIVE_LINES = 6
_LIVE_CHARS = 2000
_MARK = "◇"


class Thinking(Foldable):
    __slots__ = ("_pieces", "_tail", "streaming")

    compact = True

    def __init__(self, text: str = "", streaming: bool = False) -> None:
        super().__init__(text)
        self.streaming = streaming
        self._pieces = [text] if text else []
        self._tail = text[-_LIVE_CHARS:]

    def add(self, text: str) -> None:
        """A further piece, clean."""
        self._pieces.append(text)
        self._tail = (self._tail + text)[-_LIVE_CHARS:]

    def finish(self) -> None:
        self.text = "".join(self._pieces).strip()
        self.streaming = False

    @property
    def can_open(self) -> bool:
        return not self.streaming and bool(self.text)

    def body(self) -> list[Block]:
        return self.own([Thought(part) for part in split_plain(self.text)])

    def lines(self, page: Page) -> list[Line]:
        style = page.palette.thinking
        if self.streaming:
            text = self._tail.strip()
            lines = wrap([("Thinking…", style)], page.measure)
            return page.marked(
                _MARK, style, lines + (wrap([(text, style)], page.measure)[-_LIVE_LINES:] if text else [])
            )
        start = self.text[: 4 * page.measure].split()
        title = "Thought" if self.is_open or not start else "Thought: " + " ".join(start)
        return page.marked(_MARK, style, [_titled(title, self.fold_mark, style, page)])


class Thought(Block):
    """A part of an unfolded thinking."""

    __slots__ = ()

    def lines(self, page: Page) -> list[Line]:
        return page.body(wrap([(self.text, page.palette.thinking)], page.measure))


def _titled(title: str, mark: str, style: Style, page: Page) -> Line:
    short = shorten(title, max(1, page.measure - 2))
    return wrap([(f"{short} {mark}".rstrip(), style)], page.measure + 2)[0]

"""What the transcript consists of: a block is what is rendered on its own, when it comes on screen.

A block holds clean text (tui/sanitize.py) and renders itself for a page; it knows neither its place nor the screen.
A foldable block stands for more blocks, its body, which are made when it is unfolded and thrown away when it is folded.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, Literal

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from tui.sanitize import Look, parse_sgr, shorten
from tui.themes import Palette, readable
from tui.widgets.lines import Line, Span, fold, pad, wrap
from tui.widgets.markdown import markdown_lines, panel_lines
from tui.widgets.page import Page
from tui.widgets.splitter import Piece, split_plain

Level = Literal["info", "warning", "error"]


class Block(ABC):
    """Base of all blocks."""

    __slots__ = ("above", "joins", "line_count", "owner", "text")

    compact: ClassVar[bool] = False
    """No blank row between two compact blocks."""

    def __init__(self, text: str, joins: bool = False, owner: "Foldable | None" = None) -> None:
        self.text = text
        self.joins = joins
        """Goes on from the block above: no blank row between."""
        self.owner = owner
        """The foldable block whose body this belongs to."""
        self.above = 0
        """Blank rows above; the column sets it."""
        self.line_count = text.count("\n") + 1

    @abstractmethod
    def lines(self, page: Page) -> list[Line]:
        """All its lines, margins included, without the blank rows above. None for a block that shows nothing."""

    def estimate(self, page: Page) -> int:
        """Rows it will need, the blank ones above included; cheap, and may be wrong."""
        return self.above + self.line_count + len(self.text) // page.measure


class Prose(Block):
    """A piece of Markdown that is no code fence. `references` is shared by all pieces of its message."""

    __slots__ = ("references",)

    def __init__(self, text: str, joins: bool = False, references: Mapping[str, str] | None = None) -> None:
        super().__init__(text, joins)
        self.references = references

    def lines(self, page: Page) -> list[Line]:
        return page.body(markdown_lines(self.text, page.measure, page.palette, self.references))


class Code(Block):
    """A code fence, or a part of one."""

    __slots__ = ("language", "streaming")

    def __init__(self, text: str, language: str, joins: bool = False, streaming: bool = False) -> None:
        super().__init__(text, joins)
        self.language = language
        self.streaming = streaming

    def lines(self, page: Page) -> list[Line]:
        width = page.panel(_longest(self.text) + 2)
        return page.body(panel_lines(self.language, self.text, width, page.palette, self.streaming))


def reply_block(piece: Piece, references: Mapping[str, str], streaming: bool = False) -> Block:
    """The block for a piece of a reply."""
    if piece.language is not None:
        return Code(piece.text, piece.language, piece.joins, streaming)
    return Prose(piece.text, piece.joins, references)


class Output(Block):
    """A part of an output on a panel; its text may hold SGR sequences, and nothing else of the kind."""

    __slots__ = ()

    def lines(self, page: Page) -> list[Line]:
        return page.body(output_panel(self.text, page, page.palette.panel))


class Notice(Block):
    """claw itself says something."""

    __slots__ = ("level",)

    def __init__(self, level: Level, text: str) -> None:
        super().__init__(text)
        self.level = level

    def lines(self, page: Page) -> list[Line]:
        palette = page.palette
        mark, style = {
            "info": ("·", palette.dim),
            "warning": ("!", palette.warning),
            "error": ("✗", palette.error),
        }[self.level]
        return page.marked(mark, style, wrap([(self.text, style)], page.measure))


class Foldable(Block):
    """Shows its own lines always, and its body while it is open."""

    __slots__ = ("is_open",)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.is_open = False

    @property
    def can_open(self) -> bool:
        return True

    @abstractmethod
    def body(self) -> list[Block]:
        """New blocks for what it stands for, each owned by it."""

    def own(self, blocks: Sequence[Block]) -> list[Block]:
        for number, block in enumerate(blocks):
            block.owner, block.joins = self, block.joins or number > 0
        return list(blocks)

    @property
    def fold_mark(self) -> str:
        return ("▾" if self.is_open else "▸") if self.can_open else ""

    def estimate(self, page: Page) -> int:
        return self.above + 1


class UserText(Foldable):
    """What the user wrote. A long paste shows its first lines and stands for the rest, a command for the text it sent."""

    __slots__ = ("head", "is_command", "key", "rest")
    _HEAD_LINES, _FOLD_LINES, _HEAD_CHARS = 16, 40, 4000

    def __init__(self, text: str, key: int | None = None, typed: str = "") -> None:
        """`typed`: the command that the text was sent by, if it was."""
        super().__init__(text)
        self.key = key
        """Its entry; None as long as it is not recorded."""
        self.head, self.rest = text, ""
        self.is_command = typed not in ("", text)
        if self.is_command:
            self.head, self.rest = typed, text
        elif self.line_count > self._FOLD_LINES or len(text) > 2 * self._HEAD_CHARS:
            self.head = "\n".join(text.split("\n", self._HEAD_LINES)[: self._HEAD_LINES])[: self._HEAD_CHARS]
            self.rest = text[len(self.head) :].removeprefix("\n")

    @property
    def can_open(self) -> bool:
        return bool(self.rest)

    def body(self) -> list[Block]:
        blocks = self.own([UserRest(part) for part in split_plain(self.rest)])
        blocks[0].joins = True
        return blocks

    def lines(self, page: Page) -> list[Line]:
        if self.is_command:
            return _user_lines(f"{self.head}  {self.fold_mark}", page)
        lines = _user_lines(self.head, page)
        if self.rest and not self.is_open:
            count = self.rest.count("\n") + 1
            hint = f"{self.fold_mark} {count:,} more line{'s' * (count != 1)}"
            lines += _user_lines(hint, page, page.palette.user_dim)
        return lines

    def estimate(self, page: Page) -> int:
        return self.above + self.head.count("\n") + 1 + len(self.head) // page.measure + bool(self.rest)


class UserRest(Block):
    """A further part of a long message of the user."""

    __slots__ = ()

    def lines(self, page: Page) -> list[Line]:
        return _user_lines(self.text, page)


def _user_lines(text: str, page: Page, style: Style | None = None) -> list[Line]:
    palette = page.palette
    lines = page.filled(wrap([(text, style or palette.user)], page.measure - 1), palette.user)
    margin = [Segment(" " * page.margin, palette.text)] if page.margin else []
    bar = Segment("▌ ", palette.user_bar)
    return [line._replace(segments=[*margin, bar, *line.segments[1:]]) for line in lines]


class Compaction(Foldable):
    """The history above was replaced by a summary: a rule that says so, and the summary behind it."""

    __slots__ = ("title",)

    def __init__(self, text: str) -> None:
        title, _, rest = text.partition("\n")
        self.title = " ".join(title.split())
        super().__init__(rest.strip("\n"))

    @property
    def can_open(self) -> bool:
        return bool(self.text)

    def body(self) -> list[Block]:
        return self.own([Output(part) for part in split_plain(self.text)])

    def lines(self, page: Page) -> list[Line]:
        palette = page.palette
        title = shorten(f"{self.title} {self.fold_mark}".rstrip(), max(1, page.measure - 8))
        rule = "─" * max(0, page.measure - cell_len(title) - 5)
        spans = [Segment("─── ", palette.faint), Segment(title, palette.dim), Segment(" " + rule, palette.faint)]
        return page.body([Line(spans)])


# --------------------------------------------------------------------------- panels of output


def output_panel(text: str, page: Page, style: Style) -> list[Line]:
    """Lines of a panel for output with SGR sequences, set in the body by the caller."""
    spans = output_spans(text, page, style)
    width = page.panel(_longest("".join(part for part, _ in spans)) + 2)
    edge = Segment(" ", style)
    return [Line(pad([edge, *line.segments], width, style), line.joint, 1) for line in fold(spans, max(2, width - 2))]


def output_spans(text: str, page: Page, style: Style) -> list[Span]:
    """The text as the program coloured it, in colours that can be read on the panel."""
    spans = []
    for part, look in parse_sgr(text):
        spans.append((part, _seen(look, page.palette, style)))
    return spans


@lru_cache(1024)
def _seen(look: Look, palette: Palette, style: Style) -> Style:
    color = palette.colors[look.color] if isinstance(look.color, int) else look.color
    if color and color.startswith("#"):
        back = style.bgcolor.name if style.bgcolor else ""
        # On the terminal's own background, whatever that is, no exact colour is sure to be readable.
        color = readable(Color.parse(color), Color.parse(back)).hex6 if back.startswith("#") else None
    return style + Style(
        color=color,
        bold=look.bold or None,
        italic=look.italic or None,
        underline=look.underline or None,
        strike=look.strike or None,
    )


def _longest(text: str) -> int:
    return max(len(line.expandtabs(4)) if line.isascii() else cell_len(line.expandtabs(4)) for line in text.split("\n"))

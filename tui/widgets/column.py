"""The blocks of a transcript in their order, the rows of those that were drawn, and the heights of all.

A block is rendered when its rows are asked for, and the rows of the last few hundred are kept. Heights of blocks that
were not rendered are estimates: they place the scroll bar's thumb and nothing else.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import accumulate, repeat
from typing import NamedTuple

from textual.strip import Strip

from tui.widgets.blocks import Block, Foldable
from tui.widgets.lines import to_strip
from tui.widgets.page import Page

_KEPT = 400
"""Rendered blocks; a strip costs about 2 KB with its caches."""


class Rendered(NamedTuple):
    strips: list[Strip]
    joints: Sequence[str | None]
    """Per row: what the text has between the row above and this one; None: a line break."""
    insets: list[int]
    """Per row: cells on the left that are no text."""


def render(block: Block, page: Page) -> Rendered:
    """All rows of a block, the blank ones above it included; none at all if it shows nothing."""
    lines = block.lines(page)
    if not lines:
        return Rendered([], [], [])
    style, above = page.palette.text, block.above
    strips = [to_strip(line.segments, page.width, style) for line in lines]
    blank = [Strip.blank(page.width, style) for _ in range(above)]
    return Rendered(
        blank + strips,
        [*repeat(None, above), *(line.joint for line in lines)],
        [page.indent] * above + [line.inset for line in lines],
    )


class Column:
    """A list of blocks that knows its rows. `page` must be set before rows are asked for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.blocks: list[Block] = []
        self._tail: Block | None = None
        self._tail_rows: Rendered | None = None
        self._heights: list[int] = []
        self._sums = [0]
        """Prefix sums of the heights; valid as far as they go."""
        self._cache: OrderedDict[Block, Rendered] = OrderedDict()

    def __len__(self) -> int:
        """Number of blocks, the tail included."""
        return len(self.blocks) + (self._tail is not None)

    @property
    def rendered_count(self) -> int:
        """Number of blocks whose rows are kept at the moment."""
        return len(self._cache)

    def set_tail(self, tail: Block | None) -> None:
        """The block behind all others that is still being written; it is given anew whenever it grew."""
        if tail is not None:
            tail.above = spacing(self.blocks[-1] if self.blocks else None, tail)
        self._tail, self._tail_rows = tail, None

    # ---- content
    def append(self, block: Block) -> None:
        block.above = spacing(self.blocks[-1] if self.blocks else None, block)
        self.blocks.append(block)
        self._heights.append(block.estimate(self.page))

    def replace(self, blocks: Iterable[Block]) -> None:
        """Everything new."""
        new = list(blocks)
        self.blocks, self._heights, self._sums = [], [], [0]
        self._cache.clear()
        for block in new:
            self.append(block)

    def insert(self, at: int, blocks: Sequence[Block]) -> None:
        self.blocks[at:at] = blocks
        self._heights[at:at] = [0] * len(blocks)
        self._respace(at, at + len(blocks) + 1)

    def remove(self, start: int, end: int) -> None:
        for block in self.blocks[start:end]:
            self._cache.pop(block, None)
        del self.blocks[start:end], self._heights[start:end]
        self._respace(start, start + 1)

    def changed(self, at: int) -> None:
        """A block's content changed: it is rendered anew, and its place between its neighbours checked."""
        self._cache.pop(self.blocks[at], None)
        self._respace(at, at + 2)

    def redraw(self, blocks: Iterable[Block]) -> None:
        """Blocks whose looks, but not their order, changed: those that were drawn are drawn anew."""
        for block in blocks:
            self._cache.pop(block, None)

    def index(self, block: Block) -> int | None:
        """Where the block stands, the newest first, as it is mostly a new one that is asked for."""
        blocks = self.blocks
        return next((i for i in range(len(blocks) - 1, -1, -1) if blocks[i] is block), None)

    def set_page(self, page: Page) -> None:
        """Another width or palette: nothing rendered is valid any more, and all heights are estimated anew."""
        self.page = page
        self._cache.clear()
        self._tail_rows = None
        self._sums = [0]
        self._heights = [block.estimate(page) for block in self.blocks]

    def _respace(self, start: int, end: int) -> None:
        for i in range(start, min(end, len(self.blocks))):
            block = self.blocks[i]
            above = spacing(self.blocks[i - 1] if i else None, block)
            if above != block.above:
                block.above = above
                self._cache.pop(block, None)
            self._heights[i] = block.estimate(self.page)
        del self._sums[start + 1 :]

    # ---- rows
    def rows(self, at: int) -> Rendered:
        """The rows of one block; its height is exact from now on."""
        if at == len(self.blocks) and self._tail is not None:
            if self._tail_rows is None:
                self._tail_rows = render(self._tail, self.page)
            return self._tail_rows
        block = self.blocks[at]
        rendered = self._cache.get(block)
        if rendered is None:
            rendered = self._cache[block] = render(block, self.page)
            if len(self._cache) > _KEPT:
                self._cache.popitem(last=False)
        else:
            self._cache.move_to_end(block)
        if self._heights[at] != len(rendered.strips):
            self._heights[at] = len(rendered.strips)
            del self._sums[at + 1 :]
        return rendered

    def top_of(self, at: int) -> int:
        """Estimated rows above a block."""
        return self._prefix()[min(at, len(self.blocks))]

    def height(self) -> int:
        """Estimated rows of all blocks."""
        tail = len(self.rows(len(self.blocks)).strips) if self._tail is not None else 0
        return self._prefix()[-1] + tail

    def at_row(self, row: int) -> int:
        """The block that an estimated row lies in."""
        return max(0, min(bisect_right(self._prefix(), row) - 1, len(self.blocks) - 1))

    def _prefix(self) -> list[int]:
        known = len(self._sums)
        if known <= len(self._heights):
            self._sums += list(accumulate(self._heights[known - 1 :], initial=self._sums[-1]))[1:]
        return self._sums


def spacing(before: Block | None, block: Block) -> int:
    """Blank rows between two blocks."""
    if before is None or block.joins:
        return 0
    if block.owner is not None and block.owner is (before.owner or before):
        return 0
    if block.compact and before.compact and not (isinstance(before, Foldable) and before.is_open):
        return 0
    return 1

"""Folding and unfolding blocks of a column while what is on the screen stays where it is. Pure.

The body of a foldable block stands behind it while it is open, and does not exist while it is folded.
"""

from collections.abc import Iterator

from tui.widgets.blocks import Block, Foldable
from tui.widgets.column import Column
from tui.widgets.viewport import Viewport


class Folding:
    def __init__(self, column: Column, viewport: Viewport) -> None:
        self._column = column
        self._viewport = viewport

    def unfold(self, block: Foldable) -> None:
        at = self._column.index(block)
        if at is None or block.is_open:
            return
        block.is_open = True
        body = block.body()
        self._column.insert(at + 1, body)
        self._viewport.inserted(at + 1, len(body))
        self._column.changed(at)

    def fold(self, block: Foldable) -> None:
        at = self._column.index(block)
        if at is None or not block.is_open:
            return
        block.is_open = False
        blocks, end = self._column.blocks, at + 1
        while end < len(blocks) and blocks[end].owner is block:
            end += 1
        self._column.remove(at + 1, end)
        self._viewport.removed(at + 1, end)
        self._column.changed(at)

    def fold_all(self, kinds: tuple[type[Foldable], ...], is_open: bool) -> None:
        """Bring all blocks of these kinds into one state; the block at the top of the screen stays there."""
        blocks = self._column.blocks
        top = blocks[min(self._viewport.top.block, len(blocks) - 1)] if blocks else None
        self._column.replace(_refolded(blocks, kinds, is_open))
        if top is not None and not self._viewport.following:
            self._viewport.show(self._column.index(top.owner or top) or 0)


def _refolded(blocks: list[Block], kinds: tuple[type[Foldable], ...], is_open: bool) -> Iterator[Block]:
    for block in blocks:
        if isinstance(block, kinds):
            block.is_open = is_open and block.can_open
            yield block
            if block.is_open:
                yield from block.body()
        elif not isinstance(block.owner, kinds):
            yield block

"""A long conversation's screen stays within bounds: its oldest blocks are taken away. The session's record has them all. Pure."""

from tui.widgets.blocks import Block
from tui.widgets.column import Column
from tui.widgets.viewport import Viewport

MOST_BLOCKS = 8_000
"""About 500 turns with tools, or two megabytes."""
KEPT_BLOCKS = 6_000
OLDER = "What stood above is shown no more; /history WORDS finds it."


def trim(column: Column, viewport: Viewport, instead: Block) -> bool:
    """Where there are too many blocks, put `instead` in the place of the oldest ones; not while somebody looks back.

    True if something was taken away.
    """
    blocks = column.blocks
    if len(blocks) <= MOST_BLOCKS or not viewport.following:
        return False
    end = len(blocks) - KEPT_BLOCKS
    while end < len(blocks) and blocks[end].owner is not None:  # a body goes with what it belongs to
        end += 1
    column.remove(0, end)
    viewport.removed(0, end)
    column.insert(0, [instead])
    viewport.inserted(0, 1)
    return True

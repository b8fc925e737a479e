"""A long conversation's screen stays within bounds: its oldest blocks are taken away. The session's record has them all.

Decision: what stood there when a session was opened may stay, however long it is; only what comes later makes it grow. Pure.
"""

from tui.widgets.blocks import Block
from tui.widgets.column import Column
from tui.widgets.viewport import Viewport

MOST_BLOCKS = 8_000
"""About 500 turns with tools, or two megabytes."""
AT_ONCE = 2_000
"""How many are taken away together, so that it happens rarely."""
OLDER = "What stood above is shown no more; /history WORDS finds it."


def bound(opened_with: int) -> int:
    """How many blocks a view that was opened with so many may have."""
    return max(MOST_BLOCKS, opened_with + AT_ONCE)


def trim(column: Column, viewport: Viewport, instead: Block, most: int = MOST_BLOCKS) -> bool:
    """Where there are more than `most` blocks, put `instead` in the place of the oldest ones; not while somebody looks back.

    True if something was taken away.
    """
    blocks = column.blocks
    if len(blocks) <= most or not viewport.following:
        return False
    end = len(blocks) - most + AT_ONCE
    while end < len(blocks) and blocks[end].owner is not None:  # a body goes with what it belongs to
        end += 1
    column.remove(0, end)
    viewport.removed(0, end)
    column.insert(0, [instead])
    viewport.inserted(0, 1)
    return True

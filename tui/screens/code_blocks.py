"""The choice of a code block, of those in one answer."""

from collections.abc import Sequence

from textual.content import Content

from tui.answers import CodeBlock
from tui.screens.picker import Line, Picker


class CodeBlocksScreen(Picker):
    """Dismissed with the place of the block, from "0" on."""

    def __init__(self, blocks: Sequence[CodeBlock]) -> None:
        super().__init__("Code blocks", "A part of the code")
        self._blocks = blocks

    def on_mount(self) -> None:
        self.query_one("#box").border_subtitle = Content("Enter copies it · Esc")
        self.fill([_line(place, block) for place, block in enumerate(self._blocks)], "There is none.")


def _line(place: int, block: CodeBlock) -> Line:
    first = next((line.strip() for line in block.text.split("\n") if line.strip()), "(empty)")
    count = block.text.count("\n") + 1
    return str(place), first, f"{block.language} {count:,} {'line' if count == 1 else 'lines'}".strip()

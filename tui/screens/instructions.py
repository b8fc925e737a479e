"""The instruction files of the session, what became of each, and what is wrong with them. `r` asks for them to be read anew;
whoever opened the screen does it.
"""

from typing import Literal

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from agent.instructions.report import InstructionsReport
from tui.exact import Row
from tui.screens.dialog import Dialog
from tui.subcommands.instruction_tree import finding_rows, tree_rows
from tui.widgets.pager import Pager

InstructionsWish = Literal["reload"]
SINCE = "since this session began"


def instruction_rows(report: InstructionsReport) -> list[Row]:
    """The tree, then the findings, then what can be done."""
    rows = tree_rows(report, SINCE)
    if report.findings:
        rows += [Row(""), Row("Findings", "title"), *finding_rows(report.findings)]
    rows.append(Row(""))
    if report.changed:
        count = len(report.changed)
        files = "1 file is" if count == 1 else f"{count:,} files are"
        rows.append(Row(f"{files} different on disk; the model is told with your next message.", "warning"))
    rows.append(
        Row("r reads them anew and puts them in force. Behind the first message that loses the prompt cache.", "dim")
    )
    return rows


class InstructionsScreen(Dialog[InstructionsWish]):
    """Dismissed with "reload" by `r`, with None by Esc, q or Enter."""

    def __init__(self, report: InstructionsReport) -> None:
        super().__init__()
        self._rows = instruction_rows(report)

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Pager(self._rows, id="text")

    def on_mount(self) -> None:
        self.query_one("#box").border_title = Content("Instructions")

    def on_pager_moved(self) -> None:
        below = self.query_one(Pager).rows_below
        self.query_one("#box").border_subtitle = f"{below:,} more rows · r Esc" if below else "r reloads · Esc"

    def on_key(self, event: events.Key) -> None:
        pager = self.query_one(Pager)
        page = max(1, pager.scrollable_content_region.height - 1)
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -page, "pagedown": page, "space": page}
        if event.key == "r":
            if event.time < self.opens_at_s:
                return  # typed before the screen was there: it is not meant for it
            self.finish("reload")
        elif event.key in ("q", "enter"):
            self.finish(None)
        elif event.key in steps:
            pager.scroll_to(y=pager.scroll_offset.y + steps[event.key], animate=False)
        elif event.key in ("home", "ctrl+home", "g"):
            pager.scroll_home(animate=False, x_axis=False)
        elif event.key in ("end", "ctrl+end", "G"):
            pager.scroll_end(animate=False, x_axis=False)
        else:
            return
        event.stop()

"""A tool call on the screen: one line while folded, its diff or output when unfolded, its last lines while it runs."""

from typing import Literal

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from agent.redaction import count_text
from agent.tools.details import CommandDetails, DiffDetails, JobDetails, RefusedDetails, ResultDetails, TextDetails
from tui.sanitize import clean, clean_output, one_line, plain_output, shorten
from tui.themes import Palette
from tui.widgets.blocks import Block, Foldable, Output, output_panel
from tui.widgets.diff import diff_blocks, parse_diff
from tui.widgets.kept_text import KeptText
from tui.widgets.lines import Line
from tui.widgets.page import Page
from tui.widgets.splitter import split_plain

CardState = Literal["running", "done", "failed", "refused"]

_GLYPHS: dict[CardState, str] = {"running": "◌", "done": "●", "failed": "✗", "refused": "⊘"}
_LIVE_LINES = 8
_LIVE_CHARS = 4000
_KEPT_LIVE_CHARS = 16_000
_SMALL_DIFF_ROWS = 24
"""A diff of up to this many rows is shown without being asked for."""


class Card(Foldable):
    """Of a finished call there are thousands in a long session, so its output is kept once, and packed where it is long;
    what is made of it is made when it is asked for."""

    __slots__ = ("_diff_rows", "_live", "_output", "call_id", "problem", "state", "summary", "title", "tool")

    compact = True

    def __init__(self, call_id: str, tool: str, title: str) -> None:
        self.call_id = call_id
        self.tool = one_line(tool, 40)
        self.title = clean(title)
        super().__init__(self.title)
        self.state: CardState = "running"
        self.summary = ""
        self.problem = ""
        """One line of what went wrong, shown while folded."""
        self._output = KeptText("")
        self._diff_rows = 0
        """Rows of the diff that its output is; 0: it is none."""
        self._live = ""

    @property
    def output(self) -> str:
        """Clean, colour sequences kept."""
        return self._output.text

    @property
    def text(self) -> str:
        return "\n".join(part for part in (self.title, self.problem, plain_output(self.output)) if part)

    @text.setter
    def text(self, text: str) -> None:
        """Nothing: it follows from what the card holds."""

    # ---- what happens to it
    def progress(self, text: str) -> None:
        """A further piece of raw live output."""
        self._live += text
        if len(self._live) > 2 * _KEPT_LIVE_CHARS:
            self._live = self._live[-_KEPT_LIVE_CHARS:]

    def finish(self, is_error: bool, details: ResultDetails | None, text: str, redacted: int = 0) -> None:
        """The result, raw, and how many secrets were taken out of it. A small diff unfolds by itself: see `wants_open`."""
        self._live = ""
        self.state = "failed" if is_error else "done"
        output = ""
        match details:
            case DiffDetails():
                output = self._take_diff(details)
            case CommandDetails():
                output = self._take_command(details)
            case JobDetails():
                self.summary = one_line(f"job {details.job} · {details.note}", 200)
                output = clean_output(details.output)
            case RefusedDetails():
                self.state, self.problem = "refused", one_line(details.reason, 500)
            case TextDetails():
                self.summary = one_line(details.summary, 200)
                output = clean(details.text or text)
            case _:
                output = clean(text)
                self.summary = _lines_of(output)
        if is_error and not self.problem:
            self.problem = one_line(_first_line(text), 500)
        self.summary = " · ".join(part for part in (self.summary, count_text(redacted)) if part)
        self._output = KeptText(output.strip("\n"))

    def _take_diff(self, details: DiffDetails) -> str:
        note = one_line(details.note, 120)
        self.summary = f"+{details.added} −{details.removed}" + (f" · {note}" if note else "")
        output = clean(details.diff)
        self._diff_rows = len(parse_diff(output.strip("\n"))) if output.strip("\n") else 0
        return output

    def _take_command(self, details: CommandDetails) -> str:
        if details.status == "exited":
            ended = "" if details.exit_code == 0 else f"exit {details.exit_code}"
        else:
            ended = {"timeout": "timed out", "signal": "killed", "cancelled": "interrupted"}[details.status]
        # The note opens with how it ended, which the summary says already, or, if it did not end by itself, says better.
        note = one_line(details.note, 120)
        if note.startswith("exit code"):
            note = note.partition("; ")[2]
        elif note and details.status != "exited":
            ended = ""
        output = clean_output(details.output)
        self.summary = " · ".join(part for part in (ended, _duration(details.duration_ms), note) if part)
        failed = details.exit_code != 0
        if failed:
            self.state = "failed"
            self.problem = one_line(_last_line(plain_output(details.output)), 500)
        if "\n" in clean(details.command).strip():
            output = f"$ {clean(details.command).strip()}\n\n{output}"
        return output

    @property
    def wants_open(self) -> bool:
        """Whether it should be unfolded without being asked."""
        own = self.tool in ("!", "!!") and bool(self._output)  # a command that the user typed
        return own or 0 < self._diff_rows <= _SMALL_DIFF_ROWS

    # ---- how it looks
    @property
    def can_open(self) -> bool:
        return self.state != "running" and bool(self._output)

    def body(self) -> list[Block]:
        if self._diff_rows:
            return self.own(diff_blocks(parse_diff(self.output)))
        return self.own([Output(part) for part in split_plain(self.output)])

    def lines(self, page: Page) -> list[Line]:
        palette = page.palette
        lines = page.marked(_GLYPHS[self.state], _state_style(self.state, palette), [self._head(page)])
        if self.state == "running" and self._live:
            lines += self._live_lines(page)
        elif self.problem and not self.is_open:
            style = palette.error if self.state == "failed" else palette.warning
            shown = shorten(self.problem, max(1, page.measure - 2))
            lines += page.body([Line([Segment("└ ", palette.faint), Segment(shown, style)])])
        return lines

    def _head(self, page: Page) -> Line:
        palette = page.palette
        tool = shorten(self.tool, page.measure)
        summary = f" · {self.summary}" if self.summary else ""
        tail = shorten(f"{summary} {self.fold_mark}".rstrip(), max(0, page.measure - cell_len(tool) - 2))
        title = one_line(self.title, page.measure - cell_len(tool) - cell_len(tail) - 1)
        segments = [Segment(tool, palette.strong), Segment(f" {title}", palette.text), Segment(tail, palette.dim)]
        return Line([segment for segment in segments if segment.text.strip()])

    def _live_lines(self, page: Page) -> list[Line]:
        shown = clean_output(self._live[-_LIVE_CHARS:]).strip("\n").split("\n")
        panel = output_panel("\n".join(shown[-_LIVE_LINES:]), page, page.palette.panel_dim)
        return page.body(panel[-_LIVE_LINES:])


def _state_style(state: CardState, palette: Palette) -> Style:
    return {
        "running": palette.running,
        "done": palette.success,
        "failed": palette.error,
        "refused": palette.warning,
    }[state]


def _duration(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def _lines_of(text: str) -> str:
    count = text.strip("\n").count("\n") + 1 if text.strip() else 0
    return f"{count:,} line{'s' * (count != 1)}" if count else ""


def _first_line(text: str) -> str:
    return next((line for line in text.split("\n") if line.strip()), "")


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.split("\n")) if line.strip()), "")

"""The commands in the background: what runs, since when, and its last line, live. Enter shows the output of one as it comes,
`k` ends one after a question. What a job is and how it ends is not known here.
"""

import time
from collections.abc import Awaitable, Callable, Sequence

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from agent.job import JobView
from tui.current import said
from tui.exact import Row, spell_out
from tui.sanitize import clean, clean_output, one_line, plain_output, shorten
from tui.screens.dialog import Dialog
from tui.screens.message import MessageScreen
from tui.widgets.pager import Pager
from tui.widgets.working import short_duration

LOOK_S = 0.5
_MOST_CELLS = 98
_ROOMY_CELLS = 66
"""From this width on a question names the command."""
_TITLE_CELLS = 90
_STATE_CELLS = 60
_KEYS = "Enter shows the output · k ends it · Esc"
_NOTHING = "Nothing runs in the background. The model starts such commands with `background`."


def state_text(job: JobView) -> str:
    """How it stands, in a few clean words."""
    lasted = short_duration(job.seconds)
    began = time.strftime("%H:%M", time.localtime(job.started_ms / 1000))
    if job.state == "running":
        return f"running for {lasted}, since {began}"
    return f"{one_line(job.ending, _STATE_CELLS)}, after {lasted}"


def job_line(job: JobView, width: int = _MOST_CELLS) -> Content:
    """Two rows of at most `width` cells: what it is; how it stands and the last thing it said."""
    style = {"running": "bold $success", "exited": "$claw-dim", "cancelled": "$claw-dim"}.get(job.state, "$error")
    if job.state == "exited" and not job.ending.startswith("exit code 0"):
        style = "$error"
    room = max(1, width - 4)
    state = shorten(state_text(job), room)
    last = shorten(one_line(output_lines(job.recent)[-1], _TITLE_CELLS), max(0, room - cell_len(state) - 2))
    return Content.assemble(
        (f"{job.number:>3} ", "bold"),
        one_line(job.command, room),
        "\n    ",
        (state, style),
        (f"  {last}" if last else "", "$claw-dim"),
    )


def output_lines(recent: str) -> list[str]:
    """The newest output, clean; at least one line."""
    return plain_output(clean_output(recent.expandtabs(4))).rstrip("\n").split("\n")


def output_rows(job: JobView) -> list[Row]:
    """What one job is, and below it what it says."""
    rows = [Row(line, "command", exact=True) for line in spell_out(job.command.strip()).split("\n")]
    rows.append(Row(state_text(job), "dim"))
    if job.path:
        rows.append(Row(f"All of it: {spell_out(job.path)}", "dim"))
    return [*rows, Row(""), *map(Row, output_lines(job.recent))]


class JobOutputScreen(MessageScreen):
    """The output of one job. It follows the end until the reader moves away from it."""

    def __init__(self, number: int, look: Callable[[], JobView | None]) -> None:
        self._look = look
        self._shown = look()
        self._follows = True
        self._left_at = 0
        """The row that was put at the top; above it, the reader has moved away."""
        super().__init__(f"Job {number}", [] if self._shown is None else output_rows(self._shown))

    def on_mount(self) -> None:
        self.call_after_refresh(self._follow)
        self.set_interval(LOOK_S, self.look_again)

    def look_again(self) -> None:
        """Show what is new."""
        self._note_place()
        job = self._look()
        if job is not None and job != self._shown:
            self._shown = job
            self.query_one(Pager).show(output_rows(job))
        self.call_after_refresh(self._follow)

    def _note_place(self) -> None:
        pager = self.query_one(Pager)
        self._follows = pager.rows_below == 0 or (self._follows and pager.scroll_offset.y >= self._left_at)

    def _follow(self) -> None:
        self._note_place()
        if self._follows:
            pager = self.query_one(Pager)
            pager.scroll_end(animate=False, immediate=True, x_axis=False)
            self._left_at = pager.scroll_offset.y


class JobsScreen(Dialog[None]):
    """Closed by Esc or q."""

    DEFAULT_CSS = """
    JobsScreen OptionList { height: auto; border: none; padding: 0; background: $surface; }
    JobsScreen #note { height: auto; max-height: 2; color: $claw-dim; }
    JobsScreen #note.-asks { color: $warning; text-style: bold; }
    """

    def __init__(self, list_jobs: Callable[[], Sequence[JobView]], end: Callable[[int], Awaitable[None]]) -> None:
        """`list_jobs` gives them newest first; `end` returns when that job is over."""
        super().__init__()
        self._list = list_jobs
        self._end = end
        self._jobs: tuple[JobView, ...] = ()
        self._asks: int | None = None
        """The job whose end is asked about."""
        self._drawn: tuple[object, ...] = ()
        """What the list was made of."""

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield OptionList(id="lines", markup=False, compact=True)
            yield Static(id="note", markup=False)

    def on_mount(self) -> None:
        box = self.query_one("#box")
        box.border_title, box.border_subtitle = Content("Jobs"), Content(_KEYS)
        self.query_one(OptionList).can_focus = False
        self._tell("")
        self.look()
        self.set_interval(LOOK_S, self.look)

    # ------------------------------------------------------------------ what is shown

    def look(self) -> None:
        """Show the jobs as they are now; the marked one stays marked."""
        jobs, width = tuple(self._list()), self._width
        if (jobs, width) == self._drawn:
            return
        marked = self.marked
        self._jobs, self._drawn = jobs, (jobs, width)
        lines = self.query_one(OptionList)
        lines.set_options([Option(job_line(job, width)) for job in jobs])
        places = [place for place, job in enumerate(jobs) if marked is not None and job.number == marked.number]
        lines.highlighted = (places or [0])[0] if jobs else None
        if not jobs:
            self._tell(_NOTHING)

    @property
    def _width(self) -> int:
        """Cells of a row, beside frame and scrollbar."""
        return max(8, min(_MOST_CELLS, self.app.size.width - (1 if self.is_small else 7)))

    def on_resize(self, event: events.Resize) -> None:
        note_rows = 1 if self.is_small else 2
        self.query_one(OptionList).styles.max_height = max(
            1, self.app.size.height - (0 if self.is_small else 2) - note_rows
        )
        self.look()

    @property
    def marked(self) -> JobView | None:
        """The job that the keys are meant for."""
        place = self.query_one(OptionList).highlighted
        return self._jobs[place] if place is not None and place < len(self._jobs) else None

    def _tell(self, text: str, *, asks: bool = False) -> None:
        note = self.query_one("#note", Static)
        note.set_class(asks, "-asks")
        note.display = bool(text)
        note.update(Content(clean(text)))

    # ------------------------------------------------------------------ keys

    def on_key(self, event: events.Key) -> None:
        lines = self.query_one(OptionList)
        if self._asks is not None and event.key != "escape":
            self._answer(yes=event.key == "y")
        elif event.key in ("up", "down", "pageup", "pagedown"):
            moves = {"up": lines.action_cursor_up, "down": lines.action_cursor_down}
            moves |= {"pageup": lines.action_page_up, "pagedown": lines.action_page_down}
            moves[event.key]()
        elif event.key == "enter":
            self._open()
        elif event.key == "k":
            self._ask()
        elif event.key == "q":
            self.finish(None)
        else:
            return
        event.stop()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._open()

    def action_close(self) -> None:
        if self._asks is not None:
            self._answer(yes=False)
        else:
            super().action_close()

    def _open(self) -> None:
        if (job := self.marked) is not None:
            number = job.number
            self.app.push_screen(JobOutputScreen(number, lambda: self._job(number)))

    def _job(self, number: int) -> JobView | None:
        return next((job for job in self._list() if job.number == number), None)

    def _ask(self) -> None:
        job = self.marked
        if job is not None and job.state == "running":
            self._asks = job.number
            if self._width >= _ROOMY_CELLS:
                what = f"job {job.number} ({one_line(job.command, self._width - 54 - len(str(job.number)))})"
                self._tell(f"End {what} and all it started? y ends it, n keeps it.", asks=True)
            else:
                self._tell(f"End job {job.number}? y / n", asks=True)
        elif job is not None:
            self._tell(f"Job {job.number} has ended already.")

    def _answer(self, *, yes: bool) -> None:
        number, self._asks = self._asks, None
        if yes and number is not None:
            self._tell(f"Job {number} is being ended…")
            self.run_worker(self._end_job(number))
        else:
            self._tell("")

    async def _end_job(self, number: int) -> None:
        try:
            await self._end(number)
        except Exception as error:
            return self._tell(f"Job {number} was not ended: {one_line(said(error), 200)}")
        self.look()
        return self._tell("")

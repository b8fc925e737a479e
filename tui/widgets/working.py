"""The row above the composer: a spinner with what the agent does while a turn runs, otherwise a short hint or nothing.

It owns the only timers of the screen, and only while a turn runs or a hint stands: idle, nothing wakes up and nothing is
written.
"""

import os
import time
from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget

from tui.sanitize import one_line, shorten
from tui.widgets.status import Piece

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
TICK_S = 0.125


class WorkFacts(Struct, frozen=True):
    """What the row shows. Times are those of the widget's clock, in seconds."""

    activity: str = ""
    """Empty: nothing runs."""
    started_s: float = 0.0
    retry_reason: str = ""
    retry_at_s: float = 0.0
    retry_attempt: int = 0
    retry_max: int = 0
    hint: str = ""
    """Stands instead of all else."""


def work_pieces(facts: WorkFacts, now_s: float, width: int, frame: int = 0) -> list[Piece]:
    """At most one row, as (text, style)."""
    if facts.hint:
        return [(shorten(" " + one_line(facts.hint, width), width), "$warning")]
    if not facts.activity:
        return []
    spinner = f" {FRAMES[frame % len(FRAMES)]} "
    elapsed = f" {short_duration(now_s - facts.started_s)}"
    if facts.retry_reason:
        wait = max(0, round(facts.retry_at_s - now_s))
        count = f" ({facts.retry_attempt}/{facts.retry_max})"
        said, then, style = one_line(facts.retry_reason, 60), f", next try in {wait} s{count}", "$warning"
    else:
        said, then, style = one_line(facts.activity, 200), "", "$foreground"
    tail = "  Esc interrupts"
    room = width - cell_len(spinner) - cell_len(then) - cell_len(elapsed)
    if cell_len(said) + cell_len(tail) > room:
        said = shorten(said, max(8, room - cell_len(tail)))
    said += then
    pieces = [(spinner, "$accent"), (said, style), (elapsed, "$claw-dim"), (tail, "$claw-dim")]
    return _cut(pieces, width)


def short_duration(seconds: float) -> str:
    """ "7 s", "2 m 05 s", "1 h 02 m"."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} m {whole % 60:02d} s"
    return f"{whole // 3_600} h {whole % 3_600 // 60:02d} m"


def _cut(pieces: list[Piece], width: int) -> list[Piece]:
    """The pieces that fit whole; the first that does not is cut, the rest goes."""
    kept: list[Piece] = []
    for text, style in pieces:
        cells = cell_len(text)
        if cells > width:
            return [*kept, (shorten(text, width), style)] if width > 3 else kept
        kept.append((text, style))
        width -= cells
    return kept


def animated(env: Mapping[str, str]) -> bool:
    """Whether the spinner may turn: not where animations are switched off, and not in CI."""
    return env.get("TEXTUAL_ANIMATIONS", "") != "none" and not env.get("CI")


class WorkingLine(Widget):
    """What goes on. Its methods are the only way to change it."""

    def __init__(self, *, id: str | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(id=id)
        self._clock = clock
        self._facts = WorkFacts()
        self._frame = 0
        self._turned_s = 0.0
        self._timer: Timer | None = None
        self._hint_timer: Timer | None = None
        self._tick_s = TICK_S if animated(os.environ) else 1.0

    @property
    def facts(self) -> WorkFacts:
        return self._facts

    def begin(self, activity: str) -> None:
        """A turn, or a compaction, starts now."""
        self._set(WorkFacts(activity, started_s=self._clock(), hint=self._facts.hint))
        if self._timer is None and self.is_attached:
            self._timer = self.set_interval(self._tick_s, self._tick)

    def say(self, activity: str) -> None:
        """Something else goes on in the same turn; a wait for a retry is over."""
        if self._facts.activity and (self._facts.retry_reason or activity != self._facts.activity):
            self._set(replace(self._facts, activity=activity, retry_reason=""))

    def retry(self, reason: str, delay_s: float, attempt: int, max_attempts: int) -> None:
        at = self._clock() + delay_s
        self._set(
            replace(
                self._facts,
                activity=self._facts.activity or "waiting",
                retry_reason=reason or "failed",
                retry_at_s=at,
                retry_attempt=attempt,
                retry_max=max_attempts,
            )
        )

    def end(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._set(WorkFacts(hint=self._facts.hint))

    def hint(self, text: str, for_s: float) -> None:
        """Show a hint instead, for some seconds."""
        if self._hint_timer is not None:
            self._hint_timer.stop()
        self._set(replace(self._facts, hint=text))
        self._hint_timer = self.set_timer(for_s, lambda: self._set(replace(self._facts, hint="")))

    def render(self) -> Content:
        return Content.assemble(*work_pieces(self._facts, self._clock(), self.size.width, self._frame))

    def _set(self, facts: WorkFacts) -> None:
        if facts != self._facts:
            self._facts = facts
            self.set_class(bool(facts.activity or facts.hint), "-busy")  # a row to spare is rare on a small screen
            self.refresh()

    def in_step(self) -> None:
        """Something else is painted just now: if the spinner is about to turn, it turns along, which spares a painting."""
        if self._timer is not None and self._clock() - self._turned_s > self._tick_s * 0.75:
            self._turn()

    def _tick(self) -> None:
        if self._clock() - self._turned_s > self._tick_s * 0.75:
            self._turn()

    def _turn(self) -> None:
        self._turned_s = self._clock()
        self._frame += 1
        self.refresh()

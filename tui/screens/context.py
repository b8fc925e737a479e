"""The window, explained and edited: a map, a list of all its parts and a chart of the gauge.

It sees plain values and callables; what an edit means is the source's business. While work goes on the gauge is looked at
once a second, and what is shown follows it.
"""

import time
from collections.abc import Callable

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from agent.context.pieces import Action
from tui.current import said
from tui.sanitize import one_line
from tui.screens.context_edits import ContextSource as ContextSource
from tui.screens.context_edits import Edits, Told
from tui.screens.context_texts import heading
from tui.screens.dialog import Dialog
from tui.screens.message import MessageScreen
from tui.widgets.action_bar import ActionBar, Key
from tui.widgets.gauge_chart import GaugeChart
from tui.widgets.kinds import kind_of
from tui.widgets.piece_list import PieceList
from tui.widgets.piece_row import ListHead
from tui.widgets.text_field import TextField
from tui.widgets.window_map import WindowMap
from tui.widgets.window_shape import window_shape

LOOK_S = 1.0
_LOOK_FACTOR = 20
"""Taking a long window anew costs at most one part in so many of the time."""
CHART_ROWS = 30
"""From this height of the screen on the chart stands beside the list; below, `c` shows it in the list's place."""
_ACTION_KEYS: dict[str, Action] = {"p": "pin", "d": "drop", "x": "shorten", "r": "restore"}


class ContextScreen(Dialog[None]):
    DEFAULT_CSS = """
    ContextScreen #page { width: 100%; height: 100%; background: $background; padding: 0 1; }
    ContextScreen #gauge { height: 1; }
    ContextScreen #filter { display: none; height: 1; border: none; padding: 0; background: $panel; }
    ContextScreen #filter.-open { display: block; }
    ContextScreen #said { display: none; height: auto; max-height: 4; }
    ContextScreen #said.-open { display: block; }
    ContextScreen #said.-asks { color: $warning; text-style: bold; }
    ContextScreen.-roomy #map, ContextScreen.-roomy #chart { margin-bottom: 1; }
    ContextScreen.-small #page { padding: 0; }
    ContextScreen.-small #bar, ContextScreen.-small #head { display: none; }
    """

    def __init__(self, source: ContextSource) -> None:
        super().__init__()
        self._source = source
        self._gauge = source.gauge()
        self._edits = Edits(source)
        self._can_undo = False
        self._look_from_s = 0.0
        self._chart_instead = False

    def compose(self) -> ComposeResult:
        with Vertical(id="page"):
            yield Static(id="gauge", markup=False)
            yield WindowMap(id="map")
            yield GaugeChart(id="chart")
            yield ListHead(id="head")
            yield PieceList(id="pieces")
            yield TextField(placeholder="words to look for; Enter keeps them, Esc clears", id="filter")
            yield Static(id="said", markup=False)
            yield ActionBar(id="bar")

    def on_mount(self) -> None:
        self._lay_out()
        self._load()
        self.set_interval(LOOK_S, self._look)

    # ------------------------------------------------------------------ content

    def _load(self, *, follow: bool = True) -> None:
        """Take everything anew from the source; `follow` the selected part if it now stands elsewhere."""
        began = time.monotonic()
        try:
            self._gauge = gauge = self._source.gauge()
            self._can_undo = bool(self._source.newest())
            pieces, points = list(self._source.pieces()), list(self._source.chart())
        except Exception as error:
            return self._tell(Told(f"The window cannot be looked at: {said(error)}"))
        self.query_one("#gauge", Static).update(heading(gauge, self._width))
        self.query_one(WindowMap).show(pieces, gauge)
        self.query_one(GaugeChart).show(points, gauge)
        self.query_one(PieceList).show(pieces, window_shape(pieces, gauge).total_tokens, follow=follow)
        now = time.monotonic()
        self._look_from_s = now + (now - began) * _LOOK_FACTOR
        return None

    def _look(self) -> None:
        if not self.is_current or self._edits.waits or time.monotonic() < self._look_from_s:
            return
        if self._source.gauge() != self._gauge:
            self._load()

    def on_piece_list_selected(self) -> None:
        self.query_one(WindowMap).select(self.query_one(PieceList).selected_place)
        self._refresh_bar()

    def on_piece_list_opened(self) -> None:
        self._open()

    # ------------------------------------------------------------------ layout

    @property
    def _width(self) -> int:
        return max(1, self.app.size.width - (0 if self.is_small else 2))

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()
        self.query_one("#gauge", Static).update(heading(self._gauge, self._width))

    def _lay_out(self) -> None:
        height = self.app.size.height
        self.set_class(height >= 24, "-roomy")
        bar, marks, legend = (
            (0, 0, 0)
            if height < 8
            else (1, 0, 0)
            if height < 12
            else (1, 1, 2)
            if height < 20
            else (2, 1, 4)
            if height < 36
            else (3, 1, 6)
        )
        self.query_one(WindowMap).allow(bar, marks, legend)
        chart, instead = self.query_one(GaugeChart), self._chart_instead
        chart.display = instead or height >= CHART_ROWS
        chart.styles.height = "1fr" if instead else min(16, max(7, height // 4))
        self.query_one(PieceList).display = not instead
        self.query_one(ListHead).display = not instead and not self.is_small
        self._refresh_bar()

    def _refresh_bar(self) -> None:
        pieces = self.query_one(PieceList)
        piece = pieces.selected
        possible = piece.actions if piece is not None else ()
        pin: Action = "unpin" if piece is not None and piece.is_pinned else "pin"
        asks = self._edits.waits
        self.query_one(ActionBar).actions = (
            Key("enter", "Enter", "do it" if asks else "show", 10 if asks else 4, piece is not None),
            Key("p", "p", pin, 9, pin in possible),
            Key("d", "d", "drop", 9, "drop" in possible),
            Key("x", "x", "shorten", 9, "shorten" in possible),
            Key("r", "r", "restore", 9, "restore" in possible),
            Key("u", "u", "undo", 8, self._can_undo),
            Key("s", "s", "sort", 5),
            Key("slash", "/", "find", 3),
            Key("c", "c", "chart", 5),
            Key("escape", "Esc", "not" if asks else "close", 10 if asks else 2),
        )

    # ------------------------------------------------------------------ keys

    def on_key(self, event: events.Key) -> None:
        if self._move(event.key) or (not self.query_one(Input).has_focus and self._do(event.key)):
            event.stop()
            event.prevent_default()

    def _move(self, key: str) -> bool:
        pieces = self.query_one(PieceList)
        steps = {"up": -1, "down": 1, "pageup": -pieces.page, "pagedown": pieces.page}
        if not self.query_one(Input).has_focus:
            steps |= {"k": -1, "j": 1, "space": pieces.page}
        if key in steps:
            self._forget()
            pieces.move(steps[key])
        elif key in ("home", "g", "end", "G", "upper_g") and not self.query_one(Input).has_focus:
            self._forget()
            pieces.move_to(0 if key in ("home", "g") else pieces.count[0] - 1)
        else:
            return False
        return True

    def _do(self, key: str) -> bool:
        acts: dict[str, Callable[[], None]] = {
            "enter": self._confirm if self._edits.waits else self._open,
            "u": lambda: self._tell(self._edits.ask_undo()),
            "s": self._sort,
            "slash": self._find,
            "c": self._toggle_chart,
            "escape": self.action_close,
        }
        if key in _ACTION_KEYS:
            self._ask(_ACTION_KEYS[key])
        elif key in acts:
            acts[key]()
        else:
            return False
        return True

    def on_action_bar_pressed(self, message: ActionBar.Pressed) -> None:
        self._do(message.key)

    def action_close(self) -> None:
        """Esc: take back what was begun last, and close when nothing was."""
        field = self.query_one(Input)
        if self._edits.waits:
            self._forget()
        elif field.has_class("-open"):
            field.value = ""
            field.remove_class("-open")
            self.set_focus(None)
        elif self._chart_instead:
            self._toggle_chart()
        else:
            self.finish(None)

    def _sort(self) -> None:
        pieces = self.query_one(PieceList)
        pieces.sort("position" if pieces.order == "size" else "size")
        head = self.query_one(ListHead)
        head.order = pieces.order
        head.refresh()

    def _toggle_chart(self) -> None:
        self._chart_instead = not self._chart_instead
        self._lay_out()

    def _open(self) -> None:
        piece = self.query_one(PieceList).selected
        if piece is None:
            return None
        self._forget()
        try:
            text = self._source.show(piece)
        except Exception as error:
            return self._tell(Told(said(error)))
        title = f"{kind_of(piece.kind).label}  {piece.name or piece.detail}"
        self.app.push_screen(MessageScreen.from_text(title, text or "It has no text."))
        return None

    # ------------------------------------------------------------------ filter

    def _find(self) -> None:
        self._forget()
        field = self.query_one(Input)
        field.add_class("-open")
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        pieces = self.query_one(PieceList)
        pieces.filter(event.value)
        shown, there = pieces.count
        self._tell(Told(f"{shown:,} of {there:,} parts" if event.value.strip() else ""))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.set_focus(None)
        if not event.value.strip():
            self.query_one(Input).remove_class("-open")

    # ------------------------------------------------------------------ edits

    def _ask(self, action: Action) -> None:
        if (piece := self.query_one(PieceList).selected) is not None:
            self._tell(self._edits.ask(action, piece))

    def _confirm(self) -> None:
        told = self._edits.confirm()
        if told.is_done:
            # Whoever goes from the largest part down wants the next one, not what has become the smallest.
            self._load(follow=self.query_one(PieceList).order == "position")
        self._tell(told)

    def _forget(self) -> None:
        """Nothing is asked or told any more."""
        self._edits.forget()
        self._tell(Told(""))

    def _tell(self, told: Told) -> None:
        line = self.query_one("#said", Static)
        line.set_class(bool(told.text), "-open")
        line.set_class(told.asks, "-asks")
        line.update(Content(one_line(told.text, 1_000) + (" – Enter does it, Esc not" if told.asks else "")))
        self.query_one(PieceList).mark(told.keys)
        self._refresh_bar()

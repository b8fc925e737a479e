"""The steps of the set-up as they stand on the screen: which is shown, what it shows, and the way back. What a key or an
answer does is the business of `setup.py`.
"""

from collections.abc import Sequence
from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static
from textual.worker import Worker

from tui.bridge import NoKey
from tui.launch.listed_models import ModelChoice
from tui.sanitize import clean, one_line
from tui.screens.dialog import Dialog
from tui.screens.model_lines import filtered, model_line, name_cells
from tui.screens.setup_texts import Line, Phase, api_lines, keys_of, lead, server_lines, start_lines
from tui.setup_seam import Candidate, FoundServer, SetUp
from tui.widgets.choice_list import ChoiceList
from tui.widgets.keys_row import KeysRow
from tui.widgets.secret_field import SecretField
from tui.widgets.text_field import TextField

LISTS: tuple[Phase, ...] = ("start", "servers", "api")
"""Steps that are a choice between lines."""
_LABEL_CELLS = 26
_BELOW_ROWS = 4
"""An empty composer and the status line."""


class SetupSteps(Dialog[str]):
    """Shows one step after the other, and what was chosen so far."""

    def __init__(self, set_up: SetUp | None, missing: NoKey, *, is_first: bool) -> None:
        super().__init__()
        self._set_up = set_up
        self._missing = missing
        self._is_first = is_first
        self._phase: Phase = "start"
        self._before: list[Phase] = []
        """The steps that Esc goes back to, the last one last."""
        self._lines: list[Line] = []
        self._address = ""
        self._candidate: Candidate | None = None
        self._found: Sequence[FoundServer] = ()
        self._models: Sequence[ModelChoice] = ()
        self._shown: list[ModelChoice] = []
        self._work: Worker[Any] | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Static(id="lead", markup=False)
            yield TextField(id="field", select_on_focus=False)
            yield SecretField(id="secret")
            yield ChoiceList(id="lines")
            yield Static(id="fault", markup=False)
            yield KeysRow(id="keys")

    def on_mount(self) -> None:
        box = self.query_one("#box")
        box.border_title = Content("Set up claw")
        self.watch(box, "virtual_size", self._keep_clear, init=False)  # what it holds has another height
        self._show("start")

    # ------------------------------------------------------------------ steps

    def _go(self, phase: Phase, fault: str = "") -> None:
        """To a further step; Esc comes back to this one."""
        if self._phase in (*LISTS, "address", "key"):
            self._before.append(self._phase)
        self._show(phase, fault)

    def _back(self, fault: str = "") -> None:
        if self._work is not None:
            self._work.cancel()
            self._work = None
        if self._before:
            self._show(self._before.pop(), fault)
        elif not self._is_first:
            self.finish(None)

    def _show(self, phase: Phase, fault: str = "") -> None:
        self._phase = phase
        why = lead(phase, self._set_up, self._candidate, self._missing.detail, is_first=self._is_first)
        self.query_one("#lead", Static).update(Content(clean(why)))
        self._tell(fault)
        self.query_one(KeysRow).keys = keys_of(phase, is_first=self._is_first)
        field, secret = self.query_one("#field", Input), self.query_one(SecretField)
        field.display, secret.display = phase in ("address", "models"), phase == "key"
        field.value = self._address if phase == "address" else ""
        field.placeholder = "a part of a name, or any name" if phase == "models" else "http://127.0.0.1:8080"
        secret.value = ""
        self.set_focus(field if field.display else secret if secret.display else None)
        self._show_lines()
        if phase in LISTS:
            self.guard()

    def _show_lines(self) -> None:
        lines = self.query_one(ChoiceList)
        self._lines = {
            "start": lambda: start_lines(self._set_up, is_first=self._is_first),
            "servers": lambda: server_lines(self._found),
            "api": api_lines,
        }.get(self._phase, list)()
        lines.display = self._phase in (*LISTS, "models")
        if self._phase == "models":
            self._filter("")
        else:
            lines.show([_drawn(line) for line in self._lines])

    def _tell(self, fault: str) -> None:
        said_so = self.query_one("#fault", Static)
        said_so.display = bool(fault)
        said_so.update(Content(clean(fault)))

    def _keep_clear(self) -> None:
        """Lie above the composer where all of the step has room there, instead of over its edge."""

        box = self.query_one("#box")
        rows = box.virtual_size.height + box.gutter.height
        self.set_class(rows + _BELOW_ROWS <= self.app.size.height, "-clear")

    def _filter(self, wanted: str) -> None:
        self._shown = filtered(self._models, wanted)
        width = max(20, (self.query_one("#lead").size.width or self.app.size.width - 6) - 1)
        cells = name_cells(self._models, width, in_provider=True)
        self.query_one(ChoiceList).show([model_line(model, width, cells, in_provider=True) for model in self._shown])

    def on_resize(self, event: events.Resize) -> None:
        self._keep_clear()
        others = 4 if self.is_small else 9
        self.query_one(ChoiceList).styles.max_height = max(1, self.app.size.height - others)


def _drawn(line: Line) -> Content:
    key = f"{line.key or ' '}  "
    label = f"{one_line(line.label, 60):<{_LABEL_CELLS}}"
    return Content.assemble((key, "bold $primary"), label, (one_line(line.detail, 200), "$claw-dim"))

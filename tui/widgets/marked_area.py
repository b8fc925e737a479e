"""A text field in which the marker of a long paste is one character: moved over, deleted and replaced as a whole."""

from typing import Any

from textual.document._document import EditResult, Location, Selection
from textual.widgets import TextArea

from tui.widgets.pastes import Pastes


class MarkedArea(TextArea):
    """Which markers there are its `_pastes` say."""

    def __init__(self, **settings: Any) -> None:
        """`settings` are the text area's own."""
        self._pastes = Pastes()  # the base class looks at its selection already
        super().__init__(**settings)

    def validate_selection(self, selection: Selection) -> Selection:
        """Keep both ends out of the middle of a marker."""
        old = self.selection.end
        return Selection(self._outside(selection.start, old), self._outside(selection.end, old))

    def _outside(self, place: Location, old: Location) -> Location:
        row, column = place
        if row >= self.document.line_count:
            return place
        before = old[1] if old[0] == row else None
        return row, self._pastes.snapped(self.document.get_line(row), column, before)

    def _delete_via_keyboard(self, start: Location, end: Location) -> EditResult | None:
        return super()._delete_via_keyboard(*self._with_markers(start, end))

    def _replace_via_keyboard(self, insert: str, start: Location, end: Location) -> EditResult | None:
        return super()._replace_via_keyboard(insert, *self._with_markers(start, end))

    def _with_markers(self, start: Location, end: Location) -> tuple[Location, Location]:
        (top, left), (bottom, right) = min(start, end), max(start, end)
        if top == bottom:
            left, right = self._pastes.widened(self.document.get_line(top), left, right)
        else:
            left, _ = self._pastes.widened(self.document.get_line(top), left, left + 1)
            _, right = self._pastes.widened(self.document.get_line(bottom), max(0, right - 1), right)
        return (top, left), (bottom, right)

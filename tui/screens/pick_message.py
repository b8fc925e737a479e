"""Short lists to choose one line from: a message of the user that stands in the window, or what is to be undone."""

from collections.abc import Sequence

from textual.content import Content

from agent.context.pieces import Piece
from tui.screens.picker import Line, Picker


class LinePicker(Picker):
    """Dismissed with the result of the chosen line. The lines are there at once."""

    def __init__(self, title: str, placeholder: str, lines: Sequence[Line], nothing: str) -> None:
        super().__init__(title, placeholder)
        self._all = lines
        self._nothing = nothing

    def on_mount(self) -> None:
        self.query_one("#box").border_subtitle = Content("Enter chooses · Esc")
        self.fill(self._all, self._nothing)


def message_lines(pieces: Sequence[Piece]) -> list[Line]:
    """The user's messages, newest first; the result is the key of the entry."""
    from tui.subcommands.reports import ago

    lines = []
    for piece in reversed(pieces):
        if piece.kind == "user" and piece.keys and piece.state != "dropped":
            when = f"{ago(piece.time_ms)} · " if piece.time_ms is not None else ""
            lines.append((str(piece.keys[0]), piece.detail or "(no text)", f"{when}{piece.keys[0]}"))
    return lines


def message_picker(pieces: Sequence[Piece], where: str) -> LinePicker:
    """For `/compact from` and `/compact up to`."""
    title = "Compact this message and all behind it" if where == "from" else "Compact all before this message"
    return LinePicker(title, "Words of the message", message_lines(pieces), "No message of yours stands in the window.")


def undo_picker(newest_edit: str) -> LinePicker:
    """`newest_edit`: what it was, in a word; empty where there is none."""
    lines = [("compact", "the last compaction", "what it replaced stands in the window again")]
    if newest_edit:
        lines.append(("edit", f"the last edit, a {newest_edit}", ""))
    return LinePicker("Undo", "compact or edit", lines, "")

"""What a person is asked to allow, as rows that hide nothing: controls, odd blanks and long runs of blanks are spelled
out, and a wrapped line cannot be taken for two. Pure functions; the pager draws the rows.
"""

import re
from collections.abc import Iterable

from msgspec import Struct
from rich.cells import cell_len, chop_cells

from agent.permissions.approval import ApprovalRequest
from tui.sanitize import clean

BLANK_RUN = 24
"""From this length on a run of blanks inside a line is counted instead of drawn."""

_LONG_BLANKS = re.compile(f"[ \t]{{{BLANK_RUN},}}")
_END_BLANKS = re.compile("[ \t]+(?=\n|$)")
_EMPTY_LINES = re.compile("\n{5,}")
_ODD_BLANKS = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u2800]")


class Row(Struct, frozen=True):
    """One line of text before wrapping. `kind` names its style: text, title, dim, warning, added, removed, hunk."""

    text: str
    kind: str = "text"
    exact: bool = False
    """Wrapped anywhere and with a mark, since every character counts; otherwise at blanks."""


def spell_out(text: str) -> str:
    """A command or path with everything visible that could mislead an eye."""
    text = clean(text.replace("\t", "    ") if "\t" in text else text)
    text = _ODD_BLANKS.sub(lambda m: f"⟨U+{ord(m[0]):04X}⟩", text)
    text = _EMPTY_LINES.sub(lambda m: f"\n⟨{len(m[0]) - 1:,} empty lines⟩\n", text)
    text = _LONG_BLANKS.sub(lambda m: f" ⟨{len(m[0]):,} blanks⟩ ", text)
    return _END_BLANKS.sub(lambda m: "␠" * len(m[0]) if len(m[0]) < 4 else f"⟨{len(m[0]):,} blanks⟩", text)


def request_rows(request: ApprovalRequest) -> list[Row]:
    """Everything that the dialog has to say before its choices."""
    rows = [Row(_question(request), "title")]
    if request.reason:
        rows.append(Row(spell_out(request.reason), "dim"))
    shown = [spell_out(path) for path in request.paths if path != request.title]
    rows += [Row(path, "path", exact=True) for path in shown]
    rows.append(Row(""))
    if request.command is not None:
        rows += [Row(line, "command", exact=True) for line in spell_out(request.command).split("\n")]
    elif request.diff is not None:
        rows += diff_rows(request.diff)
    elif not shown:
        rows.append(Row(spell_out(request.title), "command", exact=True))
    return rows


def _question(request: ApprovalRequest) -> str:
    tool = spell_out(request.tool)
    if request.command is not None:
        return f"{tool} wants to run this command"
    title = spell_out(request.title)
    if request.diff is not None:
        return f"{tool} wants to change {title}"
    return f"{tool} wants to use {title}"


def diff_rows(diff: str) -> Iterable[Row]:
    """The lines of a unified diff; controls are spelled out, indentation stays."""
    for line in clean(diff.expandtabs(4) if "\t" in diff else diff).rstrip("\n").split("\n"):
        kind = {"+": "added", "-": "removed", "@": "hunk"}.get(line[:1], "text")
        long = len(line) > 200
        yield Row(_LONG_BLANKS.sub(lambda m: f" ⟨{len(m[0]):,} blanks⟩ ", line) if long else line, kind, exact=True)


def wrap_rows(rows: Iterable[Row], width: int) -> list[Row]:
    """The rows as they stand on a screen `width` cells wide, each with a two-cell margin where there is room."""
    margin = 2 if width >= 40 else 0
    room = max(1, width - margin)
    wrapped: list[Row] = []
    for row in rows:
        pieces = _chop(row.text, room) if row.exact else _wrap(row.text, room)
        for index, piece in enumerate(pieces):
            mark = "↳ " if index and row.exact else "  "
            wrapped.append(Row(mark[:margin] + piece, row.kind, row.exact))
    return wrapped


def _chop(text: str, room: int) -> list[str]:
    if text.isascii():
        return [text[at : at + room] for at in range(0, len(text), room)] or [""]
    return [text] if cell_len(text) <= room else list(chop_cells(text, room))


def _wrap(text: str, room: int) -> list[str]:
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            longer = f"{line} {word}" if line else word
            if cell_len(longer) <= room:
                line = longer
                continue
            if line:
                lines.append(line)
            *full, line = _chop(word, room)
            lines.extend(full)
        lines.append(line)
    return lines

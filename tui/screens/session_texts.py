"""What the list of sessions says of one: the rows of its preview, and the text that a title search looks at."""

from tui.bridge import SessionSummary
from tui.exact import Row
from tui.sanitize import clean, one_line
from tui.session_seam import SessionPreview

_MOST_SHOWN_CHARS = 1_500
"""Of one message."""


def preview_rows(preview: SessionPreview, excerpt: str) -> list[Row]:
    """What was found in a session, and how it ended."""
    rows: list[Row] = []
    if preview.fault:
        rows += [Row(clean(line), "warning") for line in preview.fault.split("\n")]
    if excerpt:
        rows += [Row(f"found: {one_line(excerpt, 400)}", "path"), Row("")]
    for who, text in preview.messages:
        mark, kind = ("> ", "title") if who == "user" else ("  ", "text")
        cut = f"{text[:_MOST_SHOWN_CHARS]}…" if len(text) > _MOST_SHOWN_CHARS else text
        lines = clean(cut.expandtabs(4)).split("\n")
        rows += [Row(f"{'  ' if number else mark}{line}", kind) for number, line in enumerate(lines)]
        rows.append(Row(""))
    return rows[:-1] if preview.messages else rows


def searched(session: SessionSummary) -> str:
    """Lower-case foreign text."""
    return f"{session.id} {session.title} {session.project}".lower()

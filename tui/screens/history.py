"""What a search through the session found: one line an entry, and the whole entry on Enter."""

import re
from collections.abc import Callable, Sequence

from rich.cells import cell_len
from textual.content import Content

from agent.recall import Hit
from tui.sanitize import one_line, shorten
from tui.screens.message import MessageScreen
from tui.screens.picker import Line, Picker

EXCERPT_CELLS = 140
_BEFORE_CHARS = 40
"""Shown in front of what was found."""


def hit_lines(hits: Sequence[Hit]) -> list[Line]:
    """In the order of the hits; the result is the key of the entry."""
    from tui.subcommands.reports import ago

    def place(hit: Hit) -> str:
        return f"{hit.key} {hit.kind}{f' {hit.name}' if hit.name else ''} · {ago(hit.time_ms)}"

    return [(str(hit.key), place(hit), hit.excerpt) for hit in hits]


def around(excerpt: str, words: str) -> tuple[str, str, str]:
    """The part of an excerpt with the first word that is in it, clean: what is before it, the word, what is behind it."""
    text = one_line(excerpt, 1_000)
    found = _place(text, words)
    if found is None:
        return one_line(text, EXCERPT_CELLS), "", ""
    start, end = found
    before = text[:start] if start <= _BEFORE_CHARS else "…" + text[start - _BEFORE_CHARS : start]
    room = max(1, EXCERPT_CELLS - cell_len(before) - cell_len(text[start:end]))
    return before, text[start:end], shorten(text[end:], room)


def _place(text: str, words: str) -> tuple[int, int] | None:
    """The whole phrase where it stands, else its earliest word."""
    parts = words.replace('"', " ").split()
    for wanted in ([" ".join(parts)], parts):
        pattern = "|".join(re.escape(word) for word in wanted if word)
        if pattern and (match := re.search(pattern, text, re.IGNORECASE)):
            return match.span()
    return None


class HistoryScreen(Picker):
    """Always dismissed with None: Enter shows an entry over the list."""

    def __init__(self, words: str, hits: Sequence[Hit], show_entry: Callable[[int], str]) -> None:
        super().__init__("History", "Narrow it down")
        self._words = words
        self._hits = hits
        self._show_entry = show_entry

    def on_mount(self) -> None:
        self.query_one("#box").border_subtitle = Content("Enter shows the entry · Esc")
        self.fill(hit_lines(self._hits), f"Nothing in this session holds {one_line(self._words, 60)}.")

    def draw(self, line: Line) -> Content:
        _, place, excerpt = line
        before, found, behind = around(excerpt, self._words)
        return Content.assemble((one_line(place, 70), "$claw-dim"), "\n  ", before, (found, "bold $accent"), behind)

    def finish(self, result: str | None) -> None:
        if result is None:
            return super().finish(None)
        kind = next((hit.kind for hit in self._hits if str(hit.key) == result), "")
        text = self._show_entry(int(result)) or "This entry has no text."
        self.app.push_screen(MessageScreen.from_text(f"Entry {result} ({kind})", text))
        return None

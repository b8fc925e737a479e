"""What was changed: by the agent's own edits in this session, and what git sees against the last commit. `g` goes from one
to the other; git is asked when it is first looked at.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from agent.events import Event, ToolFinished
from agent.tools.details import DiffDetails
from tui.current import said
from tui.exact import Row, diff_rows
from tui.sanitize import one_line
from tui.screens.dialog import Dialog
from tui.widgets.pager import Pager

if TYPE_CHECKING:
    from agent.git_diff import GitDiff

MOST_UNTRACKED = 50


def edit_rows(past: Iterable[Event]) -> list[Row]:
    """The edits that succeeded, by file in the order of their first edit, and in their order in it."""
    edits: dict[str, list[DiffDetails]] = {}
    for event in past:
        if isinstance(event, ToolFinished) and isinstance(event.details, DiffDetails) and not event.is_error:
            edits.setdefault(event.details.path, []).append(event.details)
    if not edits:
        return [
            Row("The agent has edited no file in this session. Commands it ran may have; g shows what git sees.", "dim")
        ]
    rows: list[Row] = []
    for path, made in edits.items():
        added, removed = sum(edit.added for edit in made), sum(edit.removed for edit in made)
        many = f" in {len(made)} edits" if len(made) > 1 else ""
        rows += [Row(f"{one_line(path, 200)}  +{added} -{removed}{many}", "title")]
        for edit in made:
            rows += diff_rows(edit.diff)
        rows.append(Row(""))
    return rows[:-1]


def git_rows(found: "GitDiff") -> list[Row]:
    rows = (
        list(diff_rows(found.diff))
        if found.diff.strip()
        else [Row("No tracked file differs from the last commit.", "dim")]
    )
    if found.is_cut:
        rows.append(Row("The rest is too long to be shown here.", "warning"))
    if found.untracked:
        rows += [Row(""), Row("Not tracked by git", "title")]
        rows += [Row(one_line(name, 200), "path", exact=True) for name in found.untracked[:MOST_UNTRACKED]]
        if (more := len(found.untracked) - MOST_UNTRACKED) > 0:
            rows.append(Row(f"and {more:,} more or less", "dim"))
    return rows


class DiffScreen(Dialog[None]):
    """Closed by Esc, q or Enter."""

    def __init__(self, rows: list[Row], ask_git: "Callable[[], Awaitable[GitDiff]]") -> None:
        super().__init__()
        self._by_agent = rows
        self._ask_git = ask_git
        self._by_git: list[Row] | None = None
        self._shows_git = False

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Pager(self._by_agent, id="text")

    def on_mount(self) -> None:
        self._name_it()

    def _name_it(self) -> None:
        title = "Changes since the last commit" if self._shows_git else "What the agent edited"
        self.query_one("#box").border_title = Content(one_line(title, 60))
        self._count()

    def on_pager_moved(self) -> None:
        self._count()

    def _count(self) -> None:
        below = self.query_one(Pager).rows_below
        other = "g the agent's edits" if self._shows_git else "g git diff"
        more = f"{below:,} more rows · " if below else ""
        self.query_one("#box").border_subtitle = Content(f"{more}{other} · Esc")

    def _turn(self) -> None:
        self._shows_git = not self._shows_git
        pager = self.query_one(Pager)
        if not self._shows_git:
            pager.show(self._by_agent)
        elif self._by_git is not None:
            pager.show(self._by_git)
        else:
            pager.show([Row("Asking git…", "dim")])
            self.run_worker(self._fetch(), exit_on_error=False)
        pager.scroll_home(animate=False)
        self._name_it()

    async def _fetch(self) -> None:
        try:
            found = await self._ask_git()
            self._by_git = await asyncio.to_thread(git_rows, found)
        except Exception as error:
            self._by_git = [Row(one_line(said(error), 300), "warning")]
        if self._shows_git:
            self.query_one(Pager).show(self._by_git)

    def on_key(self, event: events.Key) -> None:
        pager = self.query_one(Pager)
        page = max(1, pager.scrollable_content_region.height - 1)
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -page, "pagedown": page, "space": page}
        if event.key == "g":
            self._turn()
        elif event.key in ("q", "enter"):
            self.finish(None)
        elif event.key in steps:
            pager.scroll_to(y=pager.scroll_offset.y + steps[event.key], animate=False)
        elif event.key in ("home", "ctrl+home"):
            pager.scroll_home(animate=False, x_axis=False)
        elif event.key in ("end", "ctrl+end", "G"):
            pager.scroll_end(animate=False, x_axis=False)
        else:
            return
        event.stop()

"""The list of earlier sessions: search as you type, see how one ended, open it, give it a title, delete it.

The list is there at once, by name and time; titles and what the text of all sessions holds come as they are found.
Decisions: words are looked for in the titles here and in the texts on disk, titles first; what is asked of the disk is
asked in threads, and an answer that comes too late for what is selected or typed by then is dropped.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from tui.bridge import SessionSummary
from tui.exact import Row
from tui.sanitize import clean, one_line
from tui.screens.delete_session import DeleteSessionScreen
from tui.screens.dialog import SMALL_ROWS, Dialog
from tui.screens.rename_session import RenameScreen
from tui.screens.session_texts import preview_rows, searched
from tui.session_seam import SessionPreview, StoredSessions
from tui.widgets.keys_row import Keys, KeysRow
from tui.widgets.pager import Pager
from tui.widgets.session_list import SessionList
from tui.widgets.text_field import TextField

_PREVIEW_FROM_ROWS = 16
_TYPING_PAUSE_S = 0.12
_MOVING_PAUSE_S = 0.06
_LEAST_SEARCHED_CHARS = 2

Rename = Callable[[str, str], Awaitable[None]]
"""Session and title."""


class SessionsScreen(Dialog[str]):
    """Dismissed with the id of the session to open."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "toggle_all", show=False, priority=True),
        Binding("f2,ctrl+r", "rename", show=False, priority=True),
        Binding("ctrl+d", "delete", show=False, priority=True),
    ]

    def __init__(
        self,
        list_sessions: Callable[[], Awaitable[Sequence[SessionSummary]]],
        stored: StoredSessions | None = None,
        current: str = "",
        rename_current: Callable[[str], None] | None = None,
    ) -> None:
        """`current` is the session that is open here; `rename_current` gives it a title."""
        super().__init__()
        self._list_sessions = list_sessions
        self._stored = stored
        self._current = current
        self._rename_current = rename_current
        self._sessions: dict[str, SessionSummary] = {}
        self._hits: dict[str, str] = {}
        """Sessions whose text holds what is typed, and how."""
        self._all = False
        self._state = "Looking…"
        """Said where no session is shown."""

    def compose(self) -> ComposeResult:
        with Vertical(id="box", classes="sessions"):
            yield TextField(placeholder="Words of the title, the project or the text, or an id", id="filter")
            yield SessionList(self._current, id="sessions")
            yield Static(id="about", markup=False)
            yield Pager(id="preview")
            yield KeysRow(id="keys")

    def on_mount(self) -> None:
        self.query_one("#filter", Input).focus()
        self._arrange()
        self._work(self._fetch, "list")

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.query_one("#preview").display = self.app.size.height >= _PREVIEW_FROM_ROWS
        for name in ("#about", "#keys"):
            self.query_one(name).display = self.app.size.height >= SMALL_ROWS

    @property
    def rows_beside_text(self) -> int:
        return max(6, (self.app.size.height * 3) // 5)

    def _work(self, work: Callable[[], Coroutine[None, None, None]], group: str) -> None:
        """Begin it, and drop what the same group was at."""
        begun: Any = work  # as a coroutine it would never be awaited, were it dropped before it began
        self.run_worker(begun, group=group, exclusive=True, exit_on_error=False)

    # ------------------------------------------------------------------ the list

    async def _fetch(self) -> None:
        try:
            self._sessions = {session.id: session for session in await self._list_sessions()}
            self._state = ""
            self._arrange()
            if self._stored is not None:
                await self._drawn()  # reading takes the processor, and the first rows are what is waited for
                batches = self._stored.refresh()
                while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                    self._sessions.update((session.id, session) for session in batch if session.id in self._sessions)
                    self._arrange()
        except Exception as error:
            self._state = f"The sessions could not be listed: {one_line(str(error), 200)}"
            self._arrange()
            return
        self._look_for(self._wanted)  # in what was read meanwhile

    async def _drawn(self) -> None:
        drawn = asyncio.Event()
        self.call_after_refresh(drawn.set)
        await drawn.wait()

    @property
    def _wanted(self) -> str:
        return self.query_one("#filter", Input).value

    def _arrange(self, *, follow: bool = True) -> None:
        """Show what fits: sessions whose title does first, then those whose text does."""
        words = self._wanted.lower().split()
        ours = [s for s in self._sessions.values() if self._all or s.is_own]
        named = [s for s in ours if all(word in searched(s) for word in words)]
        shown = named
        if words:
            ids = {session.id for session in named}
            shown = [*named, *(s for s in ours if s.id in self._hits and s.id not in ids)]
        self.query_one(SessionList).show(shown, self._nothing(words), with_project=self._all, follow=follow)
        box = self.query_one("#box")
        box.border_title = Content("Sessions" if self._all else "Sessions of this project")
        count = f"{len(shown):,} of {len(ours):,}" if words else f"{len(ours):,}"
        box.border_subtitle = Content("" if self._state else count)
        self.query_one(KeysRow).keys = self._keys

    def _nothing(self, words: Sequence[str]) -> str:
        if self._state:
            return self._state
        others = "" if self._all or len(self._sessions) == 0 else " Tab looks at all projects."
        if words:
            return f"Nothing holds that.{others}"
        return f"No earlier session{'' if self._all else ' in this project'}.{others}"

    @property
    def _keys(self) -> Keys:
        keys = [("Enter", "open"), ("Tab", "this project" if self._all else "all projects")]
        if self._stored is not None:
            keys += [("F2", "title"), ("Ctrl+D", "delete")]
        return [*keys, ("Esc", "back")]

    # ------------------------------------------------------------------ keys

    def on_key(self, event: events.Key) -> None:
        sessions, preview = self.query_one(SessionList), self.query_one(Pager)
        moves = {"up": -1, "down": 1, "ctrl+p": -1, "ctrl+n": 1, "pageup": -sessions.page, "pagedown": sessions.page}
        scrolls = {"ctrl+up": -1, "ctrl+down": 1, "shift+up": -1, "shift+down": 1}
        if (rows := moves.get(event.key)) is not None:
            sessions.move(rows)
        elif (lines := scrolls.get(event.key)) is not None:
            preview.scroll_to(y=preview.scroll_offset.y + lines, animate=False)
        else:
            return
        event.stop()
        event.prevent_default()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._hits = {}
        self._arrange(follow=False)
        self._look_for(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.on_session_list_opened()

    def on_session_list_opened(self) -> None:
        if (selected := self.query_one(SessionList).selected) is not None:
            self.finish(selected.id)

    def action_toggle_all(self) -> None:
        self._all = not self._all
        self._arrange()

    # ------------------------------------------------------------------ what the text holds

    def _look_for(self, wanted: str) -> None:
        if self._stored is not None and len(wanted.strip()) >= _LEAST_SEARCHED_CHARS:
            self._work(partial(self._search, self._stored, wanted), "search")

    async def _search(self, stored: StoredSessions, wanted: str) -> None:
        await asyncio.sleep(_TYPING_PAUSE_S)
        hits = await asyncio.to_thread(stored.search, wanted)
        if wanted == self._wanted:
            self._hits = {hit.id: hit.excerpt for hit in hits}
            self._arrange()
            self.on_session_list_selected()

    # ------------------------------------------------------------------ the preview

    def on_session_list_selected(self) -> None:
        selected = self.query_one(SessionList).selected
        if selected is None:
            self.workers.cancel_group(self, "preview")
            self.query_one("#about", Static).update("")
            self.query_one(Pager).show(())
        elif self._stored is not None:
            self._work(partial(self._preview, self._stored, selected.id), "preview")

    async def _preview(self, stored: StoredSessions, session_id: str) -> None:
        await asyncio.sleep(_MOVING_PAUSE_S)
        try:
            preview = await asyncio.to_thread(stored.preview, session_id)
        except Exception as error:
            preview = SessionPreview(fault=str(error))
        selected = self.query_one(SessionList).selected
        if selected is not None and selected.id == session_id:
            self._show(selected, preview)

    def _show(self, session: SessionSummary, preview: SessionPreview) -> None:
        state = "open here" if session.id == self._current else "open in another claw" if preview.is_open else ""
        about = one_line(f"{session.id} · {session.project}".removesuffix(" · "), 240)
        self.query_one("#about", Static).update(Content.assemble((f"{state} · " if state else "", "$warning"), about))
        excerpt, pager = self._hits.get(session.id, ""), self.query_one(Pager)
        pager.show(preview_rows(preview, excerpt))
        # What was found stands at the beginning, and how it went on at the end.
        self.call_after_refresh(pager.scroll_home if excerpt else pager.scroll_end, animate=False)

    # ------------------------------------------------------------------ title and deletion

    def action_rename(self) -> None:
        selected = self.query_one(SessionList).selected
        if selected is None or self._stored is None:
            return

        def named(title: str | None) -> None:
            if title is not None:
                self._work(partial(self._rename, selected, title), "change")

        self.app.push_screen(RenameScreen(selected.title), named)

    async def _rename(self, session: SessionSummary, title: str) -> None:
        try:
            if session.id == self._current and self._rename_current is not None:
                self._rename_current(title)
            elif self._stored is not None:
                await asyncio.to_thread(self._stored.rename, session.id, title)
        except Exception as error:
            return self._complain(error)
        await self._fetch()
        return None

    def action_delete(self) -> None:
        selected = self.query_one(SessionList).selected
        if selected is None or self._stored is None:
            return None
        if selected.id == self._current:
            return self._complain(ValueError("The session that is open here cannot be deleted."))
        stored = self._stored

        def answered(agreed: bool | None) -> None:
            if agreed:
                self._work(partial(self._delete, stored, selected), "change")

        self.app.push_screen(DeleteSessionScreen(selected), answered)
        return None

    async def _delete(self, stored: StoredSessions, session: SessionSummary) -> None:
        try:
            await asyncio.to_thread(stored.delete, session.id)
        except Exception as error:
            self._complain(error)
        else:
            self._sessions.pop(session.id, None)
            self._arrange()

    def _complain(self, error: Exception) -> None:
        rows = [Row(clean(line), "warning") for line in str(error).split("\n")]
        self.query_one(Pager).show(rows)

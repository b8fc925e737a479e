"""The sessions on disk, as the screen lists, searches, previews, renames and deletes them."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent.config.paths import path_text
from agent.events import Notice
from agent.permissions.grants import StateError
from agent.store import sessions
from agent.store.index import Listing, SessionIndex
from agent.store.lock import SessionBusyError, is_locked
from agent.store.preview import ending
from agent.store.removal import Removal
from agent.store.retention import clock_is_steady
from agent.store.scan import scan
from agent.store.schema import SchemaError
from agent.store.session_info import SessionInfo
from agent.store.titles import rename
from tui.bridge import SessionSummary
from tui.launch.startup import Startup
from tui.session_seam import SessionHit, SessionPreview
from tui.subcommands.reports import ago

_MOST_HITS = 200
_PATIENCE_S = 2.0
"""Of a search while somebody types."""


class SessionsOnDisk:
    """Satisfies `StoredSessions`. Every method blocks and may be called in any thread."""

    def __init__(self, startup: Startup) -> None:
        self._paths = startup.paths
        self._project = path_text(startup.project)
        self.index = SessionIndex(startup.paths.sessions, startup.paths.index_file)
        self._listing = Listing()

    def list_now(self) -> Sequence[SessionSummary]:
        """All sessions at once; what is not known yet, `refresh` finds out."""
        self._listing = self.index.listing()
        return [self._summary(info) for info in self._listing.sessions]

    def refresh(self) -> Iterator[Sequence[SessionSummary]]:
        for batch in self.index.refresh(self._listing):
            yield [self._summary(info) for info in batch.sessions]

    def search(self, words: str) -> Sequence[SessionHit]:
        found = self.index.search(words, _MOST_HITS, each=1, within_s=_PATIENCE_S)
        return [SessionHit(hit.session, hit.excerpt) for hit in found]

    def preview(self, session_id: str) -> SessionPreview:
        path = self._file(session_id)
        is_open = is_locked(path.with_suffix(".lock"))
        try:
            said, fault = ending(path)
        except SchemaError as error:
            return SessionPreview(is_open=is_open, fault=str(error))
        return SessionPreview(tuple((message.kind, message.text) for message in said), is_open, fault)

    def rename(self, session_id: str, title: str) -> None:
        path = self._file(session_id)
        try:
            rename(path, title)
        except SessionBusyError as error:
            raise ValueError(f"{error} Rename it there, with /title.") from None
        except sqlite3.Error as error:
            raise ValueError(f"{path} cannot be written: {error}.") from None
        self.index.note(path)

    def delete(self, session_id: str) -> None:
        self._removal().remove([self._file(session_id)])

    def delete_older(self, days: int) -> Notice | None:
        """Delete the sessions of all projects that were last written more than `days` days ago; what to tell of it."""
        removal, now_s = self._removal(), time.time()
        newest = max((file.changed_s for file in scan(self._paths.sessions).files), default=now_s)
        try:
            is_steady = clock_is_steady(self._paths.state_file, now_s, newest)
        except StateError:
            return None
        if not is_steady:
            old = removal.are_old(days, now_s)
            what = "1 session is" if old == 1 else f"{old:,} sessions are"
            text = f"{what} older than {days:,} days, but claw did not run for long, or the clock jumped."
            return Notice("info", text, "Nothing is deleted before tomorrow.") if old else None
        removed = removal.remove_older(days, now_s)
        if not removed.sessions:
            return None
        what = "1 session was" if removed.sessions == 1 else f"{removed.sessions:,} sessions were"
        text = f"{what} deleted: nothing was written to {'it' if removed.sessions == 1 else 'them'} for {days:,} days."
        return Notice("info", text, "`[limits] retention_days` in config.toml asks for it.")

    def _removal(self) -> Removal:
        return Removal(self._paths.sessions, self._paths.spills, self.index)

    def _file(self, session_id: str) -> Path:
        return sessions.find(self._paths.sessions, session_id)

    def _summary(self, info: SessionInfo) -> SessionSummary:
        return SessionSummary(
            info.id,
            info.title,
            ago(info.updated_ms),
            info.entries,
            info.cost_usd,
            info.project,
            not info.is_known or info.project == self._project,
            info.is_known,
        )

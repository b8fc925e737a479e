"""The file behind a session that is opened: a new one, a copy, one that goes on, or one that is only read; and how what
happens to it is told. It knows nothing of what is done in the session.
"""

import asyncio
import contextlib
from pathlib import Path
from typing import NamedTuple

from agent.events import Emit, Notice, RecordingChanged
from agent.store import sessions
from agent.store.base import NoStore, SessionStore
from agent.store.index import SessionIndex
from agent.store.lock import SessionBusyError
from agent.store.schema import NewerLayoutError, SchemaError
from agent.transcript import Transcript
from tui.launch.startup import SetupError, Startup
from tui.session_seam import READ_ONLY_REMEDY, SessionTakenError

Opened = tuple[SessionStore, Transcript, sessions.LoadedSession | None, str]
"""With the session's id."""


class SessionNews(NamedTuple):
    """Tells what happens to a session's file, in the event loop of the session."""

    emit: Emit
    loop: asyncio.AbstractEventLoop

    def failed(self, text: str) -> None:
        what, _, remedy = text.partition("\n")
        self._tell(RecordingChanged(what, remedy))

    def recovered(self) -> None:
        self._tell(RecordingChanged(""))

    def loaded(self, session: sessions.LoadedSession) -> None:
        if session.damage:
            self.emit(Notice("warning", session.damage))

    def _tell(self, event: RecordingChanged) -> None:
        with contextlib.suppress(RuntimeError):  # the writer's thread may outlive the loop
            self.loop.call_soon_threadsafe(self.emit, event)


class SessionFiles:
    """Opens them in the folder of `startup`."""

    def __init__(self, startup: Startup, index: SessionIndex, news: SessionNews) -> None:
        self._startup = startup
        self._index = index
        self._news = news

    def begun(self, source: Path | None) -> Opened:
        """A new session, or a copy of the one in `source`.

        Raises:
            SetupError: there is no copy to be had.
        """
        startup, told = self._startup, self._news
        if source is None:
            if startup.arguments.no_session:
                return NoStore(), Transcript(), None, sessions.new_id()
            store = sessions.new_session(
                startup.paths.sessions, startup.project, told.failed, self._index.note, told.recovered
            )
            return store, Transcript(), None, store.meta.id
        try:
            copy, loaded = sessions.fork(source, told.failed, self._index.note, told.recovered)
        except SchemaError as error:
            raise SetupError(str(error)) from None
        told.loaded(loaded)
        return copy, Transcript(loaded.entries), loaded, loaded.meta.id

    def resumed(self, path: Path, read_only: str, *, can_ask: bool) -> Opened:
        """The session in `path`; `read_only`: why it is only to be read, empty: it is to be written.

        Raises:
            SessionTakenError: it cannot be written here, and somebody can be asked what to do then.
            SetupError: it cannot be opened.
        """
        told = self._news
        store: SessionStore
        try:
            if read_only:
                store, loaded = sessions.view(path, read_only)
            else:
                store, loaded = sessions.open_session(path, told.failed, self._index.note, told.recovered)
        except SessionBusyError as error:
            if can_ask:
                raise SessionTakenError(path.stem, str(error)) from None
            raise SetupError(f"{error}\nAdd --fork to go on in a copy of it.") from None
        except NewerLayoutError as error:
            what, _, remedy = str(error).partition("\n")
            if read_only or not can_ask:
                raise SetupError(f"{what}\n{remedy[:-1]}, or add --fork to go on in a copy.") from None
            return self.resumed(path, f"{what} {remedy}", can_ask=True)
        except SchemaError as error:
            raise SetupError(str(error)) from None
        told.loaded(loaded)
        if store.read_only:
            told.emit(RecordingChanged(f"Only for reading. {store.read_only}", READ_ONLY_REMEDY))
        return store, Transcript(loaded.entries), loaded, loaded.meta.id

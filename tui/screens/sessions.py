"""The choice of an earlier session of this project."""

from collections.abc import Awaitable, Callable, Sequence

from tui.bridge import SessionSummary
from tui.screens.picker import Picker


class SessionsScreen(Picker):
    """Dismissed with the id of the session."""

    def __init__(self, list_sessions: Callable[[], Awaitable[Sequence[SessionSummary]]]) -> None:
        super().__init__("Sessions", "Words of the title, or an id")
        self._list_sessions = list_sessions

    def on_mount(self) -> None:
        self.run_worker(self._fetch(), exit_on_error=False)

    async def _fetch(self) -> None:
        try:
            sessions = await self._list_sessions()
        except Exception as error:
            self.fill((), f"The sessions could not be listed: {error}")
            return
        self.fill([_line(session) for session in sessions], "No earlier session in this project.")


def _line(session: SessionSummary) -> tuple[str, str, str]:
    count = f"{session.entries:,} entries · " if session.entries else ""
    return session.id, session.title or "(no title)", f"{session.when} · {count}{session.id}"

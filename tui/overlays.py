"""The screens that lie over the main one: what opens them, and what becomes of their results. They are imported when they
are first needed, which keeps them out of the first frame.
"""

from collections.abc import Callable
from typing import Any

from textual.app import App

from agent.permissions.approval import Answer, Deny
from tui.bridge import ApprovalWanted, Launch, NoKey, Target
from tui.current import CurrentSession


class Overlays:
    """Opens screens on the application it is made for."""

    def __init__(self, app: App[Any], launch: Launch, current: CurrentSession) -> None:
        self._app = app
        self._launch = launch
        self._current = current

    def help(self) -> None:
        from tui.screens.help import HelpScreen

        self._app.push_screen(HelpScreen())

    def context(self) -> None:
        from tui.screens.context import ContextScreen

        if (session := self._current.needed()) is not None:
            self._app.push_screen(ContextScreen(session.gauge(), session.breakdown()))

    def pick_model(self) -> None:
        from tui.screens.model import ModelScreen

        def picked(name: str | None) -> None:
            if name:
                self._current.set_model(name)

        if (session := self._current.needed()) is not None:
            now = f"{session.provider_name}/{session.model}"
            self._app.push_screen(ModelScreen(now, self._launch.list_models), picked)

    def pick_session(self) -> None:
        from tui.screens.sessions import SessionsScreen

        def picked(session_id: str | None) -> None:
            if session_id:
                self._current.open(Target("resume", session_id))

        self._app.push_screen(SessionsScreen(self._launch.list_sessions), picked)

    def no_key(self, missing: NoKey, leave: Callable[[], None]) -> None:
        from tui.screens.no_key import NoKeyScreen

        def chosen(choice: str | None) -> None:
            if choice == "demo":
                self._current.open(Target("demo"))
            else:
                leave()

        self._app.push_screen(NoKeyScreen(missing), chosen)

    def ask(self, question: ApprovalWanted) -> None:
        """Open the dialog; a question that is taken back closes it."""
        from tui.screens.approval import ApprovalScreen

        future = question.future
        if future.done():
            return
        screen = ApprovalScreen(question.request)

        def answered(answer: Answer | None) -> None:
            if not future.done():
                future.set_result(answer if answer is not None else Deny())

        future.add_done_callback(lambda done: screen.withdraw() if done.cancelled() else None)
        self._app.push_screen(screen, answered)

    def close_top(self) -> bool:
        """Ctrl+C: close the topmost screen without a result. A question goes with its turn, if one runs.

        Returns:
            False if no screen was open.
        """
        from tui.screens.approval import ApprovalScreen
        from tui.screens.dialog import Dialog

        top = self._app.screen
        if not isinstance(top, Dialog):
            return False
        if not (isinstance(top, ApprovalScreen) and self._current.interrupt()):
            top.finish(None)
        return True

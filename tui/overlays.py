"""The screens that lie over the main one: what opens them, and what becomes of their results. They are imported when they
are first needed, which keeps them out of the first frame.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from agent.permissions.approval import ApprovalRequest
from tui.bridge import IncludeQuestion, Launch, SessionControls, Target
from tui.current import CurrentSession, said
from tui.more_overlays import MoreOverlays
from tui.questions import QuestionAsked, SecretsSeen
from tui.session_seam import SessionTakenError
from tui.theming import ThemedApp

if TYPE_CHECKING:
    from agent.context.compaction_values import Span
    from tui.screens.compact_preview import Accepted, CompactPreviewScreen
    from tui.screens.question import Question


class Overlays(MoreOverlays):
    """Opens screens on the application it is made for."""

    def __init__(self, app: ThemedApp, launch: Launch, current: CurrentSession) -> None:
        super().__init__(app, launch, current)
        self._preview: CompactPreviewScreen | None = None

    def help(self) -> None:
        from tui.screens.help import HelpScreen

        self._app.push_screen(HelpScreen())

    def context(self) -> None:
        from tui.context_source import SessionWindow
        from tui.screens.context import ContextScreen

        if (session := self._current.needed()) is not None:
            self._app.push_screen(ContextScreen(SessionWindow(session)))

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

        stored, session = self._launch.stored_sessions, self._current.session
        screen = SessionsScreen(
            self._launch.list_sessions,
            stored() if stored is not None else None,
            session.id if session is not None else "",
            session.set_title if session is not None else None,
        )
        self._app.push_screen(screen, picked)

    # ------------------------------------------------------------------ the window

    def pick_message(self, where: Literal["from", "up to"], picked: Callable[[int], None]) -> None:
        from tui.screens.pick_message import message_picker

        if (session := self._current.needed()) is not None:
            screen = message_picker(session.editor.pieces(), where)
            self._app.push_screen(screen, lambda key: picked(int(key)) if key else None)

    def pick_undo(self, picked: Callable[[str], None]) -> None:
        from tui.screens.pick_message import undo_picker

        if (session := self._current.needed()) is not None:
            screen = undo_picker(session.editor.newest())
            self._app.push_screen(screen, lambda word: picked(word) if word else None)

    def preview_compaction(self, focus: str, span: "Span | None", *, editing: bool) -> None:
        """Show what a compaction would do, let the summary be written, and do what is accepted."""
        from agent.context.compaction_values import NotCompacted
        from tui.screens.compact_preview import CompactPreviewScreen

        session = self._current.idle()
        if session is None:
            return None
        try:
            preview = session.preview_compaction(focus, span)
        except Exception as error:
            return self._current.notice("error", f"Nothing can be previewed: {said(error)}")
        if isinstance(preview, NotCompacted):
            return self._current.notice("info", f"Not compacted: {preview.reason}.", preview.remedy)
        screen = self._preview = CompactPreviewScreen(
            preview,
            lambda: self._current.attend(lambda: session.draft_compaction(focus, span)),
            editing=editing,
        )
        self._app.push_screen(screen, lambda accepted: self._compact(session, accepted))
        return None

    def _compact(self, session: SessionControls, accepted: "Accepted | None") -> None:
        self._preview = None
        if accepted is None:
            return
        try:
            session.accept_compaction(accepted.draft, accepted.summary, accepted.keep)
        except Exception as error:
            self._current.notice("error", f"The compaction failed and changed nothing: {said(error)}")

    def summary_news(self, news: str) -> None:
        """How a summary gets on that a dialog waits for; foreign text."""
        if self._preview is not None:
            self._preview.tell(news)

    def history(self, words: str) -> None:
        from tui.screens.history import HistoryScreen

        if (session := self._current.needed()) is not None:
            self._app.push_screen(HistoryScreen(words, session.search(words), session.entry))

    def cost(self) -> None:
        from tui.screens.cost import CostScreen

        if (session := self._current.needed()) is not None:
            self._app.push_screen(CostScreen(session.costs(), session.cache_breaks()))

    def jobs(self) -> None:
        from tui.screens.jobs import JobsScreen

        if (session := self._current.needed()) is not None:
            self._app.push_screen(JobsScreen(session.jobs, session.kill_job))

    def instructions(self, reload: Callable[[], None]) -> None:
        """`reload` is what `r` does."""
        from tui.screens.instructions import InstructionsScreen

        def wished(wish: str | None) -> None:
            if wish == "reload":
                reload()

        if (session := self._current.needed()) is not None:
            self._app.push_screen(InstructionsScreen(session.instructions()), wished)

    # ------------------------------------------------------------------ questions

    def ask(self, question: QuestionAsked) -> None:
        """Open the dialog; a question that is taken back closes it."""
        future = question.future
        if future.done():
            return
        screen = self._dialog(question)

        def answered(answer: object) -> None:
            if not future.done():
                future.set_result(answer)
            if answer == "another":
                self.pick_session()

        future.add_done_callback(lambda done: screen.withdraw() if done.cancelled() else None)
        self._app.push_screen(screen, answered)

    def _dialog(self, question: QuestionAsked) -> "Question[Any]":
        request = question.request
        if isinstance(request, ApprovalRequest):
            from tui.screens.approval import ApprovalScreen

            return ApprovalScreen(request)
        if isinstance(request, SecretsSeen):
            from tui.screens.typed_secret import TypedSecretScreen

            return TypedSecretScreen(request)
        if isinstance(request, SessionTakenError):
            from tui.screens.busy_session import BusySessionScreen

            return BusySessionScreen(request)
        if isinstance(request, IncludeQuestion):
            from tui.screens.include_consent import IncludeConsentScreen

            return IncludeConsentScreen(request)
        from tui.screens.confirm import ConfirmScreen

        return ConfirmScreen(request)

    def close_top(self) -> bool:
        """Ctrl+C: close the topmost screen without a result. A question goes with its turn, if one runs.

        Returns:
            False if no screen was open.
        """
        from tui.screens.dialog import Dialog
        from tui.screens.question import Question

        top = self._app.screen
        if not isinstance(top, Dialog):
            return False
        if not (isinstance(top, Question) and self._current.interrupt()):
            top.finish(None)
        return True

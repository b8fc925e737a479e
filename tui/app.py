"""The application: puts the widgets on the screen and binds keys and messages. Nothing else: what an event looks like
is the presenter's, what a command does is the table's, and what becomes of a message the current session's.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Sequence
from typing import ClassVar

from msgspec.structs import replace
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from agent.events import Event
from agent.mentions import find_mentions
from agent.user_command import user_command
from tui import tuning
from tui.branch import branch_of
from tui.bridge import Launch, StrayKeys
from tui.commands import is_command, run_command
from tui.composing.writing import Writing
from tui.current import CurrentSession
from tui.feed import EventsArrived, SessionOpened
from tui.init_command import typed_for
from tui.overlays import Overlays
from tui.painting import NarrowPainting
from tui.presenter import Presenter
from tui.questions import QuestionAsked
from tui.signals import Waker
from tui.terminal_input import TerminalDriver
from tui.theming import ThemedApp
from tui.welcome import welcome_text
from tui.widgets.banner import Banner
from tui.widgets.completion import CompletionList
from tui.widgets.queue import QueueView
from tui.widgets.status import StatusFacts, StatusLine, short_folder
from tui.widgets.transcript import TranscriptPane
from tui.widgets.working import WorkingLine

KEYS_FIRST_S = 0.010
"""After a key, events wait this long, so that typing stays ahead of streaming."""
LONG_PAST = 400  # events of a resumed session that can be drawn at once
END_S = 1.4  # for an orderly end on a signal


class ClawApp(tuning.SureTimers, NarrowPainting, ThemedApp):
    """The screen of claw. Its return code is the exit code."""

    CSS_PATH = "claw.tcss"
    TITLE = "claw"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = "Composer"
    again_s = 1.5
    """Within this time a second Ctrl+C leaves."""
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (5, "-tiny"), (10, "-low"), (18, "-high")]  # noqa: RUF012 - as Textual declares it
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "press_ctrl_c", show=False, priority=True),
        Binding("ctrl+q", "ignore", show=False, priority=True),
        Binding("ctrl+o", "toggle_cards", show=False),
        Binding("ctrl+l", "redraw", show=False),
        Binding("f1", "help", show=False),
    ]

    def __init__(self, launch: Launch) -> None:
        tuning.before_first_frame()
        super().__init__(launch.theme, driver_class=TerminalDriver)
        self.launch = launch
        self.current = CurrentSession(launch, self.post_message)
        self.overlays = Overlays(self, launch, self.current)
        self._pane = TranscriptPane(id="transcript")
        self._queue = QueueView(id="queue")
        self._working = WorkingLine(id="working")
        self._writing = Writing(self, launch, self.current, self.send, self._working.hint)
        self._composer = self._writing.composer
        self._status = StatusLine(id="status")
        self._banner = Banner(id="banner")
        widgets = (self._pane.view, self._status, self._working, self._queue, self._banner)
        self._presenter = Presenter(*widgets, self._refresh_branch, self.overlays.summary_news)
        self.waker: Waker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened = threading.Event()
        self._shown_feed, self._folder = self.current.feed, launch.cwd
        self._key_at = 0.0
        self._ctrl_c_at = float("-inf")
        self._leaving: asyncio.Task[None] | None = None

    def compose(self) -> ComposeResult:
        yield from (self._pane, self._banner, self._queue, self._working)
        yield from (self._composer, self._status, self._writing.popup)

    # ------------------------------------------------------------------ start and end

    def on_mount(self) -> None:
        self._loop = asyncio.get_running_loop()
        if not self.is_headless:
            self.waker = Waker(self._loop)
        self._status.facts = StatusFacts(self.launch.model, self.launch.mode, cwd=short_folder(self.launch.cwd))
        self._pane.view.add_notice("info", welcome_text(self.launch.version, self.launch.cwd, self.launch.model))
        self._presenter.show_all(self.launch.notices)
        # Coming back from Ctrl+Z, Textual enters the screen again and draws nothing by itself.
        self.app_resume_signal.subscribe(self, lambda _: self.action_redraw())
        self.call_after_refresh(self._after_first_frame)

    def _after_first_frame(self) -> None:
        tuning.after_first_frame(self.launch.warm_up, self._opened)
        if self.launch.initial_prompt:
            self.send(self.launch.initial_prompt, find_mentions(self.launch.initial_prompt))
        if self.launch.missing_key is None:
            self.current.open(self.launch.target)
        else:
            self._opened.set()
            self.overlays.set_up(self.leave)
        self._refresh_branch()
        self._writing.start()

    def leave(self, code: int = 0, within_s: float = 2.0) -> None:
        """End in order: stop the turn, close the session, give the terminal back."""
        if self._leaving is None and (code or self.current.may_be_left()):
            self._leaving = asyncio.get_running_loop().create_task(self._leave(code, within_s))

    async def _leave(self, code: int, within_s: float) -> None:
        self._writing.save_now()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self.current.aclose(), within_s)
        self.exit(return_code=code)

    def end_from_outside(self, code: int) -> None:
        """For signals and threads."""
        if self._loop is None:
            raise SystemExit(code)
        self._loop.call_soon_threadsafe(self.leave, code, END_S)

    # ------------------------------------------------------------------ down: what the user does

    def send(self, text: str, mentions: Sequence[str] = (), after_turn: bool = False) -> None:
        """A message with the files it names, or a command, as if it had been typed."""
        self._writing.remember(text)
        if is_command(text):
            run_command(self, text)
        elif (command := user_command(text)) is not None:
            self.current.run_shell(command)
        elif self.current.send(text, mentions, after_turn=after_turn):
            self._pane.view.begin_user(text)
        self._pane.view.end()  # where the answer appears, in the same paint as the emptied composer

    def on_composer_escape_pressed(self) -> None:
        if self.current.interrupt():
            self._working.say("interrupting")

    def on_composer_end_pressed(self) -> None:
        self.leave()

    def on_completion_list_clicked(self, message: CompletionList.Clicked) -> None:
        self._composer.take(message.choice)

    def on_stray_keys(self, message: StrayKeys) -> None:
        self._composer.insert_text(typed_for(message.text))

    def action_press_ctrl_c(self) -> None:
        if self.overlays.close_top() or self._copy_selection():
            return None
        now = time.monotonic()
        if now - self._ctrl_c_at <= self.again_s:
            return self.leave()
        self._ctrl_c_at = now
        if not self._composer.is_blank:
            self._composer.discard()
            said = "Cleared; Up brings it back. "
        else:
            said = "Interrupted. " if self.current.interrupt() else ""
        return self._working.hint(f"{said}Ctrl+C again leaves.", self.again_s)

    def _copy_selection(self) -> bool:
        if text := self._composer.selected_text:
            self.copy_to_clipboard(text)
            return True
        return self._pane.view.copy_selection()

    def action_cycle_mode(self) -> None:
        self.current.cycle_mode()

    def action_toggle_cards(self) -> None:
        self._pane.view.toggle_all_cards()

    def action_scroll(self, where: str) -> None:
        view = self._pane.view
        {"up": view.page_up, "down": view.page_down, "home": view.home, "end": view.end}[where]()

    def action_redraw(self) -> None:
        self.screen.refresh(layout=True)

    def action_help(self) -> None:
        self.overlays.help()

    def action_ignore(self) -> None:
        return

    # ------------------------------------------------------------------ up: what the session says

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key):
            self._key_at = event.time
        await super().on_event(event)

    def on_events_arrived(self, message: EventsArrived) -> None:
        if message.feed is not self._shown_feed:
            return
        if self._loop is not None and time.monotonic() - self._key_at < KEYS_FIRST_S:
            self._loop.call_later(KEYS_FIRST_S, self.post_message, EventsArrived(message.feed))
            return
        self._presenter.show_all(message.feed.take())

    def on_session_opened(self, message: SessionOpened) -> None:
        past = message.past
        if len(past) <= LONG_PAST:
            return self._show_session(message, past)
        # The end first: it is what is seen, and the rest takes a moment.
        self._presenter.show_all(past[-LONG_PAST:])
        self._pane.view.frame()
        self.call_after_refresh(self._show_session, message, past)
        return None

    def _show_session(self, message: SessionOpened, past: list[Event]) -> None:
        session = message.session
        if session is not self.current.session:
            return
        self._shown_feed, self._folder = self.current.feed, session.cwd
        self._writing.write_to(session, self.launch.history_file)
        if past or message.target.kind != "start":
            self._presenter.reset()
            name = f"{session.provider_name}/{session.model}"
            self._pane.view.add_notice("info", welcome_text(self.launch.version, session.cwd, name))
        self._status.facts = replace(self._status.facts, cwd=short_folder(session.cwd))
        self._refresh_branch()
        self._presenter.show_all([*past, *self.current.facts()])
        self._presenter.show_all(self._shown_feed.take())
        self.call_after_refresh(self._opened.set)

    def on_question_asked(self, message: QuestionAsked) -> None:
        self.overlays.ask(message)

    def _refresh_branch(self) -> None:
        self._status.facts = replace(self._status.facts, branch=branch_of(self._folder))

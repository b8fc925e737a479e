"""The way down: what the user sends and decides becomes calls of the open session, in order, whatever its state.

It owns which session is open, the messages that wait until one is, and the task of the running turn. It draws nothing:
what happens comes back as events, and its own troubles as notices.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from textual.message import Message

from agent.events import Event, Notice, QueueChanged, SettingChanged, TurnEnded
from providers.types import Effort
from tui.bridge import MODES, Launch, Mode, SessionControls, StrayKeys, Target
from tui.composing.outgoing import Outgoing, joined
from tui.feed import EventFeed, SessionOpened
from tui.init_command import typed_for
from tui.questions import ask_include, ask_secrets, make_approver, make_confirm
from tui.session_seam import SessionTakenError, lost_text
from tui.succession import go_on_as, told_of_copy
from tui.unwritable import Leaving, another_way, give_back, tell_none_open

if TYPE_CHECKING:
    from agent.user_command import UserCommand
    from agent.user_input import UserInput

T = TypeVar("T")

CLOSE_TIMEOUT_S = 0.5
"""How long a turn may take to stop, and then a session to close, when claw ends."""


class CurrentSession:
    """The session that is open, or the wait for it. All methods are called in the event loop of the screen."""

    def __init__(self, launch: Launch, post: Callable[[Message], object]) -> None:
        self._launch = launch
        self._post = post
        self._feed = EventFeed(post)
        self._session: SessionControls | None = None
        self._target = launch.target
        """What was last asked for; another try opens the same."""
        self._next_target: Target | None = None
        self._waiting: list[Outgoing] = []
        """Sent before a session was open, or while it could take no message."""
        self._asking: asyncio.Task[None] | None = None
        """The newest message that a person has to decide on."""
        self._reading: asyncio.Task[None] | None = None
        """The newest message whose files are being read."""
        self._commands: list[UserCommand] = []
        """The user's own that wait for a session, or for the end of the one that runs."""
        self._shell: asyncio.Task[None] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._settling = False
        """Whether a person still decides what the session's instructions may include."""
        self._work: asyncio.Task[Any] | None = None
        self._leaving = Leaving()
        self._work_kind: Literal["turn", "attended", ""] = ""
        self._interrupted = False
        """The running turn is being stopped: what is sent now begins the next one."""

    @property
    def session(self) -> SessionControls | None:
        return self._session

    @property
    def feed(self) -> EventFeed:
        """The feed whose events count; others belong to sessions that were left."""
        return self._feed

    @property
    def busy(self) -> bool:
        return self._work is not None and not self._work.done()

    # ------------------------------------------------------------------ opening and closing

    def open(self, target: Target) -> None:
        """Open a session beside whatever runs; the one before it is closed only when the new one stands."""
        if self._opening is None or self._opening.done():
            self._target = target
            self._opening = asyncio.create_task(self._open(target), name="open session")
            self._opening.add_done_callback(self._open_next)
        elif target != self._target and target.kind != "start":
            self._next_target = target

    def _open_next(self, opened: asyncio.Task[None]) -> None:
        """What was asked for meanwhile."""
        target, self._next_target = self._next_target, None
        if target is not None and not opened.cancelled():
            self.open(target)

    async def _open(self, target: Target) -> None:
        open_now = self._session
        if open_now is not None and target == Target("resume", open_now.id) and not open_now.read_only:
            return self.notice("info", "That session is open already.")
        feed = EventFeed(self._post)
        try:
            session = await self._launch.open(target, feed.emit, make_approver(self._post))
        except SessionTakenError as taken:
            if (instead := await another_way(self._post, taken)) is not None:
                return await self._open(instead)
            if self._session is None:
                tell_none_open(self._waiting, self._commands, self._post, self.notice)
                self._show_waiting()
            return None
        except Exception as error:
            retry = "" if self._session is not None else "A message tries again."
            return self.notice("error", f"The session could not be opened: {said(error)}", retry)
        session.confirm_with(make_confirm(self._post))
        old, self._session = self._session, None
        self._feed.close()
        if old is not None:
            await self._stop_work(old)
            if target.kind == "new":
                go_on_as(old, session)
        self._feed, self._session, self._settling = feed, session, True
        if old is not None:
            await self._close(old)
        # Taken now: a message that waited becomes part of the transcript before the screen hears of the session.
        self._post(SessionOpened(session, target, [*session.replay(), *told_of_copy(target, session)]))
        try:
            await self._settle_includes(session)
        finally:
            self._settling = False
        self._next_command()
        if self._waiting:
            self._send_waiting()
        return None

    async def _settle_includes(self, session: SessionControls) -> None:
        """Ask about every include that leaves the workspace."""
        if session.read_only:
            return
        allowed = False
        try:
            for question in await self._launch.open_includes(session):
                if (decision := await ask_include(self._post, question)) is not None:
                    await asyncio.to_thread(self._launch.decide_include, question.target, decision)
                    allowed = allowed or decision
            if allowed:
                self.notice("info", session.reload_instructions())
        except Exception as error:
            self.notice("warning", f"The instructions stay as they are: {said(error)}", "/instructions shows them.")

    async def _close(self, session: SessionControls) -> None:
        try:
            await asyncio.wait_for(session.close(), CLOSE_TIMEOUT_S)
        except Exception as error:
            self.notice("warning", f"The last session did not close cleanly: {said(error)}")
        if session.unwritten:
            self.notice("error", lost_text(session.id, session.unwritten))

    async def _stop_work(self, session: SessionControls) -> None:
        if session.running:
            session.interrupt()
        work = self._work
        if work is None or work.done():
            return
        if self._work_kind == "turn":
            await asyncio.wait({work}, timeout=CLOSE_TIMEOUT_S)
        if not work.done():
            work.cancel()
            await asyncio.wait({work}, timeout=CLOSE_TIMEOUT_S)

    def may_be_left(self) -> bool:
        """Whether nothing is lost if claw ends now, or the user was told so and leaves all the same."""
        return self._leaving.is_free(self._session, self.notice)

    async def aclose(self) -> None:
        """Stop everything and close the session. Takes two seconds at worst."""
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait({self._opening}, timeout=CLOSE_TIMEOUT_S)
        session, self._session = self._session, None
        self._feed.close()
        if session is not None:
            await self._stop_work(session)
            await self._close(session)

    # ------------------------------------------------------------------ messages

    def send(self, text: str, mentions: Sequence[str] = (), *, after_turn: bool = False) -> bool:
        """Send a message with its files: as a turn, into the running turn, or later. True if a turn begins with it now."""
        if give_back(self._session, text, self._post, self.notice):
            return False
        message = Outgoing(text, tuple(mentions), after_turn)
        session = self._session
        if session is None or self._settling:
            self._wait_with(message)
            if self._launch.missing_key is None or self._opening is not None:
                self.open(self._target)
            return False
        if seen := session.secrets_in(text):
            self._asking = asyncio.create_task(self._ask_first(session, message, seen), name="ask about secrets")
            return False
        if message.mentions or (self._reading is not None and not self._reading.done()):
            self._reading = asyncio.create_task(self._read(self._reading, session, message), name="read mentions")
            return False
        return self._deliver(session, message, text)

    async def _ask_first(self, session: SessionControls, message: Outgoing, seen: tuple[str, ...]) -> None:
        """Send a message with secrets in it if the user says so, once for each secret; else give it back."""
        if await ask_secrets(self._post, seen):
            session.accept_secrets(message.text)
            self.send(message.text, message.mentions, after_turn=message.after_turn)
        else:
            self._post(StrayKeys(message.text))
            self.notice("info", "The message was not sent; it is in the composer again.")

    async def _read(self, before: "asyncio.Task[None] | None", session: SessionControls, message: Outgoing) -> None:
        """Take in what a message names, then send it, behind those that were sent before it."""
        given: str | UserInput = message.text
        try:
            if message.mentions:
                given = await session.prepare(message.text, message.mentions)
        except Exception as error:
            self.notice("warning", f"The message goes without its files: {said(error)}")
        if before is not None and not before.done():
            await asyncio.wait({before})
        if session is self._session:
            self._deliver(session, message, given)
        else:
            self.send(message.text, message.mentions, after_turn=message.after_turn)

    def _deliver(self, session: SessionControls, message: Outgoing, given: "str | UserInput") -> bool:
        if session.running and self._work_kind != "attended" and not self._interrupted:
            self._attempt(lambda: session.steer(given, after_turn=message.after_turn))
            return False
        if self.busy:
            self._wait_with(message)
            return False
        self._start("turn", lambda: self._run_turn(session, given))
        return True

    def _wait_with(self, message: Outgoing) -> None:
        self._waiting.append(message)
        self._show_waiting()

    def _show_waiting(self) -> None:
        self._feed.emit(QueueChanged(tuple(message.text for message in self._waiting)))

    def _send_waiting(self) -> None:
        message = joined(self._waiting)
        self._waiting.clear()
        self._feed.emit(QueueChanged(()))
        if message.text:
            self.send(message.text, message.mentions)

    def send_waiting(self) -> None:
        """Begin a turn with what a stopped one left waiting, or try again to open the session that messages wait for.
        Nothing while something is under way: what waits is delivered then."""
        session = self._session
        if session is None:
            if self._waiting and self._opening is not None:
                self.open(self._target)
        elif session.queued and not (session.read_only or self._settling or self.busy or session.running):
            self._start("turn", lambda: self._run_turn(session))

    def take_back(self) -> str | None:
        """The newest message that waits for delivery, which then waits no longer; None if none does."""
        if self._waiting:
            message = self._waiting.pop()
            self._show_waiting()
            return typed_for(message.text)
        text = self._session.take_back() if self._session is not None else None
        return typed_for(text) if text is not None else None

    async def _run_turn(self, session: SessionControls, given: "str | UserInput | None" = None) -> None:
        """A turn (None: with what waits), and one more for each message that waits for the end of one, as long as nothing
        goes wrong."""
        try:
            ended: TurnEnded | None
            ended = await (session.prompt_next() if given is None else session.prompt(given))
            while ended is not None and ended.reason == "done":
                ended = await session.prompt_next()
        except Exception as error:
            self.notice("error", f"The turn failed: {said(error)}", "Nothing that was recorded is lost.")

    def run_shell(self, command: "UserCommand") -> None:
        """Run a command in the user's name, also while a turn runs; several one after the other."""
        if give_back(self._session, command.typed, self._post, self.notice):
            return
        self._commands.append(command)
        if self._session is None and self._opening is not None:
            self.open(self._target)
        self._next_command()

    def _next_command(self) -> None:
        session = self._session
        if session is None or not self._commands or (self._shell is not None and not self._shell.done()):
            return
        command = self._commands.pop(0)

        async def run() -> None:
            await session.run_shell(command.command, in_window=command.in_window)

        # Between turns what is sent meanwhile waits, since it may speak of the output.
        self._shell = asyncio.create_task(run(), name="shell") if session.running else self.attend(run)
        self._shell.add_done_callback(lambda _: self._next_command())

    def interrupt(self) -> bool:
        """Stop what runs, a command of the user's own first. False if nothing does."""
        if self._shell is not None and not self._shell.done():
            self._shell.cancel()
            return True
        if self._session is not None and self._session.running:
            self._session.interrupt()
            self._interrupted = True
            return True
        return self._work is not None and self._work.cancel()

    # ------------------------------------------------------------------ settings

    def cycle_mode(self) -> None:
        if self._session is not None:
            current = self._session.mode
            place = MODES.index(current) if current in MODES else 0
            self.set_mode(MODES[(place + 1) % len(MODES)])

    def set_mode(self, mode: Mode) -> None:
        if session := self.needed():
            self._attempt(lambda: session.set_mode(mode))

    def set_title(self, title: str) -> None:
        session = self.needed()
        if session is not None and self._attempt(lambda: session.set_title(title)):
            self.notice("info", f"The title is: {session.title}" if session.title else "It has no title yet.")

    def set_model(self, name: str) -> None:
        """Use PROVIDER/MODEL from the next request on."""
        if session := self.needed():
            self._attempt(lambda: session.set_model(name))

    def set_effort(self, effort: Effort) -> None:
        if session := self.needed():
            self._attempt(lambda: session.set_effort(effort))

    def use_set_up(self, name: str) -> None:
        """Use the model that was just set up: in the open session, or in the one that is opened for it."""
        session = self._session
        if session is None:
            return self.open(Target())
        if session.provider_name == "scripted":  # the demo knows no other model, and is no place to work in
            return self.open(Target("new"))
        return self.set_model(name)

    # ------------------------------------------------------------------ between turns

    def idle(self) -> SessionControls | None:
        """The session, if it is open and at rest; otherwise it is said why not."""
        session = self.needed()
        if session is not None and session.running:
            self.notice("info", "Not while it works. Esc interrupts.")
            return None
        return session

    def attend(self, work: Callable[[], Awaitable[T]]) -> "asyncio.Task[T]":
        """Do something between turns: messages wait for its end, and `interrupt` cancels it. An error becomes a notice."""
        return self._start("attended", work)

    # ------------------------------------------------------------------ facts

    def notice(self, level: Literal["info", "warning", "error"], text: str, remedy: str = "") -> None:
        """Say something in the transcript, in order with what the session emits."""
        self._feed.emit(Notice(level, text, remedy))

    def facts(self) -> list[Event]:
        """What the session stands at, as the events that a change would be."""
        if (session := self._session) is None:
            return []
        setting = SettingChanged(session.provider_name, session.model, session.mode, session.effort, 0)
        return [setting, session.gauge()]

    # ------------------------------------------------------------------ inside

    def needed(self) -> SessionControls | None:
        if self._session is None:
            self.notice("info", "The session is not open yet.")
        return self._session

    def _attempt(self, call: Callable[[], None]) -> bool:
        try:
            call()
            return True
        except Exception as error:
            self.notice("error", said(error))
            return False

    def _start(self, kind: Literal["turn", "attended"], work: Callable[[], Awaitable[T]]) -> "asyncio.Task[T]":
        before = self._work

        async def run() -> T:
            if before is not None:  # it has told its end, and may still be writing it down
                await asyncio.wait({before})
            return await work()

        self._work_kind, self._interrupted = kind, False
        task = self._work = asyncio.create_task(run(), name=kind)
        task.add_done_callback(self._work_done)
        return task

    def _work_done(self, work: asyncio.Task[Any]) -> None:
        if not work.cancelled() and (error := work.exception()) is not None:
            self.notice("error", said(error))
        if self._waiting and self._session is not None:
            self._send_waiting()


def said(error: BaseException) -> str:
    """An error in its own words, with its remedy where it has one."""
    text = str(error) or type(error).__name__
    remedy = getattr(error, "remedy", "")
    return f"{text}\n{remedy}" if isinstance(remedy, str) and remedy and remedy not in text else text

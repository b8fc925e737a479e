"""The TUI's start: everything the application is given, from the plain facts of the first frame to how sessions open.

What is heavy is imported inside the functions that run after the first frame.
"""

import asyncio
import contextlib
import sys
import threading
from collections.abc import Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agent.events import Emit
from agent.instructions.item import all_includes
from agent.permissions.approval import Approver
from tui.bridge import IncludeQuestion, Launch, NoKey, SessionControls, SessionSummary, Target
from tui.launch.arguments import parse
from tui.launch.listed_models import Listing
from tui.launch.run import run_app
from tui.launch.startup import NoKeyError, SetupError, Startup, starting
from tui.session_seam import lost_text
from tui.theme_choice import kept_theme
from tui.themes import AUTO

if TYPE_CHECKING:
    from agent.session import Session
    from agent.store.sessions import LoadedSession
    from tui.launch.sessions_on_disk import SessionsOnDisk
    from tui.launch.setting_up import SettingUp
    from tui.launch.wiring import Opener

_LISTING_PATIENCE_S = 5.0
_RETRY_S = 0.2


def run_screen(startup: Startup) -> int:
    """Run the application to its end; the exit code.

    Raises:
        SetupError: the command line asks for something that is not there.
    """
    arguments = startup.arguments
    screen = Screens(startup)
    screen.resumed()
    model, missing = "", None
    files = (str(startup.paths.auth_file), str(startup.paths.config_file))
    try:
        model = startup.default_name()
    except NoKeyError as error:
        missing = NoKey(*files, detail=error.detail)
    with screen.scratch:
        code = run_app(
            Launch(
                open=screen.open,
                cwd=startup.cwd,
                model=model,
                mode=startup.mode,
                version=startup.version,
                target=Target("demo") if arguments.command == "demo" else Target(),
                missing_key=missing,
                own_files=files,
                make_set_up=screen.make_set_up,
                initial_prompt=arguments.prompt or ("/resume" if arguments.resume == "" else ""),
                list_sessions=screen.list_sessions,
                stored_sessions=screen.stored_sessions,
                list_models=screen.list_models,
                open_includes=screen.open_includes,
                decide_include=screen.decide_include,
                warm_up=screen.warm_up,
                history_file=startup.paths.history_file,
                theme=startup.loaded.config.tui.theme or kept_theme(startup.paths.state_file) or AUTO,
                keep_theme=screen.keep_theme,
                show_config=screen.show_config,
                export=screen.export,
                notices=startup.notices,
            )
        )
    screen.tell_losses()
    return code


class Screens:
    """The callables of a `Launch`. Owns the openers: the user's own, and the demo's once it is wanted."""

    def __init__(self, startup: Startup) -> None:
        self._startup = startup
        self._openers: dict[bool, Opener] = {}
        self._making = threading.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stored: SessionsOnDisk | None = None
        self._session: Session | None = None
        """The one that was opened last."""
        self._retention_days = startup.loaded.config.limits.retention_days
        self.scratch = contextlib.ExitStack()
        """Holds the demo's folder until claw ends."""

    def warm_up(self) -> None:
        """Import what the first session and its first request need. Runs in a thread after the first frame."""
        opener = self._opener(demo=False)
        with contextlib.suppress(SetupError):
            opener.models.client(self._startup.default_name().partition("/")[0]).warm_up()

    def resumed(self) -> Path | None:
        """The session that the command line wants to go on with.

        Raises:
            SetupError: there is none.
        """
        if not self._startup.arguments.continue_last and not self._startup.arguments.resume:
            return None
        from tui.launch.resuming import resumed_file

        return resumed_file(self._startup)

    def tell_losses(self) -> None:
        """At the end, when the terminal is the shell's again."""
        session = self._session
        if session is not None and session.unwritten:
            sys.stderr.write(f"claw: {lost_text(session.id, session.unwritten)}\n")

    async def open(self, target: Target, emit: Emit, approver: Approver) -> SessionControls:
        demo = target.kind == "demo"
        opener = await asyncio.to_thread(self._opener, demo)
        path, asked = None, False
        if target.kind in ("resume", "fork", "read"):
            from agent.store import sessions

            path = sessions.find(self._startup.paths.sessions, target.session_id)
        elif target.kind == "start":
            path = self.resumed()
            if path is None and self._startup.arguments.prompt and not self._startup.has_listing():
                # The prompt leaves as soon as the session is open, so the model must be right by then.
                await opener.models.corrected_default(_LISTING_PATIENCE_S)
                asked = True
        fork = target.kind == "fork" or (self._startup.arguments.fork and target.kind == "start")
        work = partial(opener.open, emit, approver, path, fork, asyncio.get_running_loop(), target.reason)
        opening = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            session = await asyncio.shield(opening)
        except asyncio.CancelledError:
            await (await opening).close()
            raise
        self._session = session
        session.announce()
        if not demo and not asked and path is None and self._startup.named_model is None:
            self._spawn(self._correct_default(opener, session), "correct the default model")
        if not demo:
            self._spawn(self._delete_old(session), "delete old sessions")
        return session

    def _spawn(self, work: Coroutine[object, object, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _delete_old(self, session: "Session") -> None:
        """Once a start: what `[limits] retention_days` asks for."""
        days, self._retention_days = self._retention_days, None
        if days is not None:
            notice = await asyncio.to_thread(self.stored_sessions().delete_older, days)
            if notice is not None:
                session.notify(notice)

    async def open_includes(self, session: SessionControls) -> Sequence[IncludeQuestion]:
        items = session.instruction_items()
        if not any(include.status == "asks" for item in items for _, include in all_includes(item)):
            return ()
        from tui.screens.include_consent import include_questions

        return include_questions(items)

    def decide_include(self, target: str, allowed: bool) -> None:
        """Blocks."""
        from agent.permissions.consents import Consents

        Consents(self._startup.paths.state_file, self._startup.project).decide(Path(target), allowed)

    def stored_sessions(self) -> "SessionsOnDisk":
        if self._stored is None:
            from tui.launch.sessions_on_disk import SessionsOnDisk

            self._stored = SessionsOnDisk(self._startup)
        return self._stored

    async def list_sessions(self) -> Sequence[SessionSummary]:
        return await asyncio.to_thread(self.stored_sessions().list_now)

    async def list_models(self) -> Listing:
        opener = await asyncio.to_thread(self._opener, False)
        await asyncio.to_thread(opener.models.load_prices)
        return await opener.models.choices(_LISTING_PATIENCE_S)

    def keep_theme(self, name: str) -> str:
        """Blocks."""
        from tui.theme_choice import keep_theme

        keep_theme(self._startup.paths.state_file, name)
        if self._startup.loaded.config.tui.theme in (None, name):
            return ""
        return (
            "It holds until claw ends: tui.theme is set in the configuration, and that goes first. /config says where."
        )

    def show_config(self) -> str:
        """Blocks."""
        from agent.config.show import show_config

        startup = self._startup
        profile = startup.arguments.profile
        shown = show_config(startup.loaded, startup.env, startup.paths)
        return f"# profile {profile}\n\n{shown}" if profile else shown

    def export(self, session_id: str, file: str) -> str:
        """Blocks."""
        from tui.session_export import export_session

        return export_session(self._startup, session_id, file, self._held(session_id))

    def _held(self, session_id: str) -> "LoadedSession | None":
        """The open session as it stands in memory, if that is more than is on the disk."""
        session = self._session
        if session is None or session.id != session_id or not session.unwritten:
            return None
        from agent.config.paths import path_text
        from agent.store.base import SessionMeta
        from agent.store.sessions import LoadedSession

        entries = tuple(session.branch)
        meta = SessionMeta(session_id, path_text(session.project), entries[0].time_ms if entries else 0)
        return LoadedSession(meta, entries, (), {}, 0)

    def make_set_up(self) -> "SettingUp":
        from tui.launch.setting_up import SettingUp

        return SettingUp(self._startup, self._adopt)

    def _adopt(self, startup: Startup) -> None:
        """What was set up holds from now on, for the open session too."""
        self._startup = startup
        if (opener := self._openers.get(False)) is not None:
            opener.renew(startup)

    def _opener(self, demo: bool) -> "Opener":
        """Blocks; warming up and opening ask for it at the same time, each in a thread."""
        with self._making:
            if demo not in self._openers:
                from tui.launch.wiring import Opener

                startup = self._startup
                if demo and startup.arguments.command != "demo":
                    arguments = replace(parse(["demo"]), mode=startup.arguments.mode)
                    startup = self.scratch.enter_context(starting(arguments, startup.env, startup.version))
                self._openers[demo] = opener = Opener(startup)
                opener.prepare()
            return self._openers[demo]

    async def _correct_default(self, opener: "Opener", session: "Session") -> None:
        """Where no model was named: if the server does not offer ours, take the best of what it lists, unless the user
        has chosen one meanwhile."""
        with contextlib.suppress(Exception):
            default = (session.provider_name, session.model)
            name = await opener.models.corrected_default(_LISTING_PATIENCE_S)
            # Somebody was quicker than the listing; a session does not tell when its turn is over.
            while name is not None and session.running:  # noqa: ASYNC110
                await asyncio.sleep(_RETRY_S)
            if name is not None and session is self._session and (session.provider_name, session.model) == default:
                session.set_model(name)

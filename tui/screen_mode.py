"""The TUI's start: everything the application is given, from the plain facts of the first frame to how sessions open.

What is heavy is imported inside the functions that run after the first frame.
"""

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agent.config.paths import path_text
from agent.events import Emit
from agent.permissions.approval import Approver
from tui.arguments import parse
from tui.bridge import IncludeQuestion, Launch, ModelChoice, NoKey, SessionControls, SessionSummary, Target
from tui.run import run_app
from tui.startup import NoKeyError, SetupError, Startup, starting

if TYPE_CHECKING:
    from agent.session import Session
    from tui.wiring import Opener

_LISTING_PATIENCE_S = 5.0


def run_screen(startup: Startup) -> int:
    """Run the application to its end; the exit code.

    Raises:
        SetupError: the command line asks for something that is not there.
    """
    arguments = startup.arguments
    screen = Screens(startup)
    screen.resumed()
    model, missing = "", None
    try:
        model = startup.default_name()
    except NoKeyError as error:
        missing = NoKey(str(startup.paths.auth_file), str(startup.paths.config_file), detail=error.detail)
    with screen.scratch:
        return run_app(
            Launch(
                open=screen.open,
                cwd=startup.cwd,
                model=model,
                mode=startup.mode,
                version=startup.version,
                target=Target("demo") if arguments.command == "demo" else Target(),
                missing_key=missing,
                initial_prompt=arguments.prompt or ("/resume" if arguments.resume == "" else ""),
                list_sessions=screen.list_sessions,
                list_models=screen.list_models,
                open_includes=screen.open_includes,
                decide_include=screen.decide_include,
                warm_up=screen.warm_up,
                # Without a key only the demo can be played, and that leaves nothing behind.
                history_file=startup.paths.history_file if missing is None else None,
                theme=startup.loaded.config.tui.theme or "claw-dark",
                notices=startup.notices,
            )
        )


class Screens:
    """The callables of a `Launch`. Owns the openers: the user's own, and the demo's once it is wanted."""

    def __init__(self, startup: Startup) -> None:
        self._startup = startup
        self._openers: dict[bool, Opener] = {}
        self._making = threading.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
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
        from tui.resuming import resumed_file

        return resumed_file(self._startup)

    async def open(self, target: Target, emit: Emit, approver: Approver) -> SessionControls:
        demo = target.kind == "demo"
        opener = await asyncio.to_thread(self._opener, demo)
        path = None
        if target.kind == "resume":
            from agent.store import sessions

            path = sessions.find(self._startup.paths.sessions, target.session_id)
        elif target.kind == "start":
            path = self.resumed()
        fork = self._startup.arguments.fork and target.kind == "start"
        loop = asyncio.get_running_loop()
        opening = asyncio.ensure_future(asyncio.to_thread(opener.open, emit, approver, path, fork, loop))
        try:
            session = await asyncio.shield(opening)
        except asyncio.CancelledError:
            await (await opening).close()
            raise
        session.announce()
        if not demo and path is None and self._startup.named_model is None:
            task = asyncio.create_task(self._correct_default(opener, session))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return session

    async def open_includes(self, session: SessionControls) -> Sequence[IncludeQuestion]:
        from tui.screens.include_consent import include_questions

        return include_questions(session.instruction_items())

    def decide_include(self, target: str, allowed: bool) -> None:
        """Blocks."""
        from agent.permissions.consents import Consents

        Consents(self._startup.paths.state_file, self._startup.project).decide(Path(target), allowed)

    async def list_sessions(self) -> Sequence[SessionSummary]:
        from agent.store import sessions
        from tui.reports import ago

        infos, _ = await asyncio.to_thread(sessions.listing, self._startup.paths.sessions)
        own = [info for info in infos if info.project == path_text(self._startup.project)]
        return [SessionSummary(info.id, info.title, ago(info.updated_ms), info.entries) for info in own]

    async def list_models(self) -> Sequence[ModelChoice]:
        opener = await asyncio.to_thread(self._opener, False)
        return [ModelChoice(*choice) for choice in await opener.models.choices(_LISTING_PATIENCE_S)]

    def _opener(self, demo: bool) -> "Opener":
        """Blocks; warming up and opening ask for it at the same time, each in a thread."""
        with self._making:
            if demo not in self._openers:
                from tui.wiring import Opener

                startup = self._startup
                if demo and startup.arguments.command != "demo":
                    arguments = replace(parse(["demo"]), mode=startup.arguments.mode)
                    startup = self.scratch.enter_context(starting(arguments, startup.env, startup.version))
                self._openers[demo] = opener = Opener(startup)
                opener.prepare()
            return self._openers[demo]

    async def _correct_default(self, opener: "Opener", session: "Session") -> None:
        """Where no model was named: if the server does not offer ours, take the best of what it lists."""
        with contextlib.suppress(Exception):
            name = await opener.models.corrected_default(_LISTING_PATIENCE_S)
            if name is not None and not session.running:
                session.set_model(name)

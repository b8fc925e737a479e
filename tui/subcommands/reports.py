"""The subcommands that only look: config, context, instructions; and the way to those of sessions."""

import sys
import time
from pathlib import Path

from agent.config.show import show_check, show_config, show_paths
from agent.store import sessions
from agent.store.schema import SchemaError
from tui.launch.startup import SetupError, Startup


def report(startup: Startup) -> int:
    """Run the subcommand of the command line; the exit code.

    Raises:
        SetupError: there is no such session.
    """
    arguments = startup.arguments
    match arguments.command, arguments.action:
        case "sessions", _:
            from tui.subcommands.session_reports import report_sessions

            return report_sessions(startup)
        case "config", "path":
            print(show_paths(startup.loaded, startup.paths), end="")
        case "config", "check":
            print(show_check(startup.loaded), end="")
            return 2 if startup.loaded.has_errors else 0
        case "config", _:
            print(show_config(startup.loaded, startup.env, startup.paths), end="")
        case "context", _:
            from tui.subcommands.context_report import context_report

            print(context_report(startup, load_session(startup, startup.arguments.session), ago))
        case _:
            from tui.subcommands.instructions_report import show_instructions

            return show_instructions(startup)
    return 0


def ago(time_ms: int, now_ms: int | None = None) -> str:
    """How long ago in a few characters: "now", "5 min ago", "3 h ago", "2 d ago", else the date."""
    seconds = max(0, ((now_ms or int(time.time() * 1000)) - time_ms) // 1000)
    if seconds < 60:
        return "now"
    if seconds < 3600:
        return f"{seconds // 60} min ago"
    if seconds < 86_400:
        return f"{seconds // 3600} h ago"
    if seconds < 14 * 86_400:
        return f"{seconds // 86_400} d ago"
    return time.strftime("%Y-%m-%d", time.localtime(time_ms / 1000))


def load_session(startup: Startup, session: str) -> sessions.LoadedSession:
    """The session with this id, or the last one of the project if none is named; what is damaged in it is told.

    Raises:
        SetupError: no such session, or it cannot be read.
    """
    path: Path | None
    try:
        if session:
            path = sessions.find(startup.paths.sessions, session)
        else:
            path = sessions.newest(startup.paths.sessions, startup.project)
        if path is None:
            raise SetupError(f"There is no session of {startup.project}.\n`claw sessions list --all` shows all.")
        loaded = sessions.load(path)
    except (sessions.SessionNotFoundError, SchemaError) as error:
        raise SetupError(str(error)) from None
    if loaded.damage:
        print(f"claw: {loaded.damage}", file=sys.stderr)
    return loaded

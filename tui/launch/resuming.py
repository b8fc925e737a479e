"""Which session the command line wants to go on with."""

from pathlib import Path

from agent.store import sessions
from agent.store.index import SessionIndex
from tui.launch.startup import SetupError, Startup


def resumed_file(startup: Startup) -> Path | None:
    """The file of the session that -c or -r ID means; None for a new session.

    Raises:
        SetupError: there is none.
    """
    arguments, folder = startup.arguments, startup.paths.sessions
    index = SessionIndex(folder, startup.paths.index_file)
    if arguments.continue_last:
        newest = sessions.newest(folder, startup.project, index)
        if newest is None:
            raise SetupError(
                f"There is no session of {startup.project} to go on with.\n`claw sessions list --all` shows all."
            )
        return newest
    if arguments.resume:
        try:
            return sessions.find(folder, arguments.resume)
        except sessions.SessionNotFoundError as error:
            raise SetupError(str(error)) from None
    if arguments.resume == "" and arguments.print_mode:
        raise SetupError("Say which session: `claw -p PROMPT -r ID`.\n`claw sessions list --all` shows them.")
    return None

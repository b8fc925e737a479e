"""`claw -p`: opens a session beside the SDK's import and runs one prompt through print mode."""

import asyncio
import contextlib
import sys
import threading
from pathlib import Path

from agent.session import Session
from agent.store import sessions
from agent.store.lock import SessionBusyError
from agent.store.schema import SchemaError
from providers.base import Provider
from providers.errors import ProviderError
from tui.print_mode import EXIT_USAGE, Collector, run, with_piped_input
from tui.startup import SetupError, Startup
from tui.wiring import Opener


def one_task(startup: Startup) -> int:
    """Run the prompt of the command line; the exit code.

    Raises:
        SetupError: wrong configuration, no model, no such session.
    """
    if startup.loaded.has_errors:
        for problem in startup.loaded.problems:
            print(f"claw: {problem}", file=sys.stderr)
        print("      `claw config check` lists what is wrong.", file=sys.stderr)
        return EXIT_USAGE
    opener = Opener(startup)
    provider = opener.client(startup.default_name().partition("/")[0])
    # The SDK's import is the longest part of a start: everything else happens beside it.
    threading.Thread(target=_warm_up, args=(provider,), name="warm-up", daemon=True).start()
    try:
        prompt = with_piped_input(startup.arguments.prompt)
    except ValueError as error:
        raise SetupError(str(error)) from None
    if not prompt.strip():
        raise SetupError("There is no prompt.\nWrite it behind -p, or pipe it in.")
    return asyncio.run(_run(startup, opener, prompt))


def _warm_up(provider: Provider) -> None:
    with contextlib.suppress(ProviderError):  # the request tells it
        provider.warm_up()


async def _run(startup: Startup, opener: Opener, prompt: str) -> int:
    collector = Collector(lambda text: print(text, file=sys.stderr))
    session = open_session(startup, opener, collector)
    return await run(session, collector, prompt, startup.arguments.output_format)


def open_session(startup: Startup, opener: Opener, collector: Collector) -> Session:
    """The session that the command line names; nobody can be asked.

    Raises:
        SetupError: it cannot be opened.
    """
    try:
        return opener.open(collector.emit, None, resumed_file(startup), startup.arguments.fork)
    except SessionBusyError as error:
        raise SetupError(f"{error}\nAdd --fork to go on in a copy of it.") from None
    except (SchemaError, ValueError) as error:
        raise SetupError(str(error)) from None


def resumed_file(startup: Startup) -> Path | None:
    """The file of the session that -c or -r ID means; None for a new session.

    Raises:
        SetupError: there is none.
    """
    arguments, folder = startup.arguments, startup.paths.sessions
    if arguments.continue_last:
        newest = sessions.newest(folder, startup.project)
        if newest is None:
            raise SetupError(
                f"There is no session of {startup.project} to go on with.\n`claw sessions list` shows all."
            )
        return newest
    if arguments.resume:
        try:
            return sessions.find(folder, arguments.resume)
        except sessions.SessionNotFoundError as error:
            raise SetupError(str(error)) from None
    if arguments.resume == "" and arguments.print_mode:
        raise SetupError("Say which session: `claw -p PROMPT -r ID`.\n`claw sessions list` shows them.")
    return None

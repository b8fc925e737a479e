"""`claw -p`: opens a session beside the SDK's import and runs one prompt through print mode."""

import asyncio
import contextlib
import gc
import sys
import threading

from providers.base import Provider
from providers.errors import ProviderError
from tui.print_mode import EXIT_USAGE, Collector, run, with_piped_input
from tui.resuming import resumed_file
from tui.startup import SetupError, Startup
from tui.wiring import Opener

_LISTING_PATIENCE_S = 5.0


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
    provider = opener.models.client(startup.default_name().partition("/")[0])
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
    gc.freeze()
    gc.enable()


async def _run(startup: Startup, opener: Opener, prompt: str) -> int:
    collector = Collector(lambda text: print(text, file=sys.stderr))
    resumed = resumed_file(startup)
    if resumed is None and not startup.has_listing():
        await opener.models.corrected_default(_LISTING_PATIENCE_S)
    # Nobody can be asked, so what would ask is refused.
    session = opener.open(collector.emit, None, resumed, startup.arguments.fork)
    return await run(session, collector, prompt, startup.arguments.output_format)

"""`claw -p`: opens a session beside the SDK's import and runs its messages through print mode."""

import asyncio
import contextlib
import gc
import sys
import threading
from pathlib import Path

from agent.events import Event
from agent.mentions import find_mentions
from providers.base import Provider
from providers.errors import ProviderError
from tui.headless.collector import Collector
from tui.headless.output_schema import AnswerSchema, load_schema
from tui.headless.standard_input import MessageLines, OnePrompt, with_piped_input
from tui.headless.stream_json import EventStream, InputError
from tui.launch.known_secrets import known_secrets
from tui.launch.resuming import resumed_file
from tui.launch.startup import SetupError, Startup
from tui.launch.wiring import Opener
from tui.print_mode import EXIT_USAGE, Messages, PrintRun, Stopper

_LISTING_PATIENCE_S = 5.0


def one_task(startup: Startup) -> int:
    """Answer the prompt of the command line, or the messages of standard input; the exit code.

    Raises:
        SetupError: wrong configuration, no model, no such session.
    """
    if startup.loaded.has_errors:
        for problem in startup.loaded.problems:
            print(f"claw: {problem}", file=sys.stderr)
        print("      `claw config check` lists what is wrong.", file=sys.stderr)
        return EXIT_USAGE
    arguments = startup.arguments
    schema = None if arguments.output_schema is None else load_schema(Path(arguments.output_schema))
    opener = Opener(startup)
    provider = opener.models.client(startup.default_name().partition("/")[0])
    # The SDK's import is the longest part of a start: everything else happens beside it.
    threading.Thread(target=_warm_up, args=(provider,), name="warm-up", daemon=True).start()
    prompt = arguments.prompt
    if arguments.input_format == "text":
        try:
            prompt = with_piped_input(prompt)
        except ValueError as error:
            raise SetupError(str(error)) from None
        if not prompt.strip():
            raise SetupError("There is no prompt.\nWrite it behind -p, or pipe it in.")
    return asyncio.run(_run(startup, opener, prompt, schema))


def _warm_up(provider: Provider) -> None:
    with contextlib.suppress(ProviderError):  # the request tells it
        provider.warm_up()
    gc.freeze()
    gc.enable()


async def _run(startup: Startup, opener: Opener, prompt: str, schema: AnswerSchema | None) -> int:
    arguments = startup.arguments
    collector = Collector(
        lambda text: print(text, file=sys.stderr), has_cost_limit=startup.loaded.config.limits.max_cost is not None
    )
    resumed = resumed_file(startup)
    if resumed is None and not startup.has_listing():
        await opener.models.corrected_default(_LISTING_PATIENCE_S)
    stopper, stream = Stopper(), None
    if arguments.output_format == "stream-json":
        stream = EventStream(known_secrets(startup))

    def emit(event: Event) -> None:
        collector.emit(event)
        if stream is not None:
            stream.emit(event)
        stopper.emit(event)

    # Nobody can be asked, so what would ask is refused.
    session = opener.open(emit, None, resumed, arguments.fork)
    stopper.session = session
    messages: Messages = OnePrompt(prompt)
    lines = None
    if arguments.input_format == "stream-json":
        messages = lines = MessageLines(prompt, stopper.ask, lambda number, fault: emit(InputError(number, fault)))
    # Of the user's own words alone: what is piped in may hold anything.
    run = PrintRun(session, collector, stopper, messages, schema, stream, find_mentions(arguments.prompt))
    if stream is not None:
        stream.failed = run.end
        session.announce()
    return await run.run(arguments.output_format, lambda: lines is not None and lines.bad_lines > 0)

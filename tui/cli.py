"""The command line's dispatcher: from arguments to an exit code. Heavy modules are imported by the branch that needs them."""

import gc
import os
import resource
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from claw import __version__
from tui.launch.arguments import UsageError, parse
from tui.standard_streams import clean_streams

if TYPE_CHECKING:
    from tui.launch.startup import Startup

EXIT_FAILED, EXIT_USAGE = 1, 2
FEWEST_FILES = 48
"""Open files that the screen with a session, a command and a search needs, with room to spare; without them nothing could be
said any more when it fails."""


def run(argv: Sequence[str]) -> int:
    """Run claw. Errors go to standard error, one line of what and one of what to do; a closed pipe ends it quietly."""
    with clean_streams():
        return _run_to_an_end(argv)


def _run_to_an_end(argv: Sequence[str]) -> int:
    gc.disable()  # what a start makes stays; to look for garbage in it while it grows costs a seventh of the start
    try:
        code = _run(argv)
        sys.stdout.flush()
        return code
    except UsageError as error:
        return _fail(str(error), error.remedy or "`claw --help` shows what there is.")
    except BrokenPipeError:
        _drop_output()
        return 141
    except OSError as error:
        _drop_output()
        what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        _fail(f"{what}.", "Check the disk, and where the output goes.")
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from tui.crash import crash_text

        sys.stderr.write(crash_text(error))
        return EXIT_FAILED
    finally:
        gc.enable()


def _drop_output() -> None:
    """What is still buffered cannot be delivered; without this the interpreter would complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _run(argv: Sequence[str]) -> int:
    arguments = parse(argv)
    if arguments.command == "completion":
        from tui.subcommands.shell_completion import print_completion

        return print_completion(arguments.action)
    from tui.launch.startup import SetupError, starting

    try:
        if arguments.tools:
            from tui.launch.tool_choice import check_tools

            check_tools(arguments.tools)
        with starting(arguments, dict(os.environ), __version__) as startup:
            if startup.env.get("CLAW_LOG"):
                from tui.launch.log import keep_log

                keep_log(startup)
            match arguments.command:
                case "config" if arguments.action == "set":
                    from tui.subcommands.config_edit import set_config

                    return set_config(startup)
                case "login" | "logout":
                    from tui.subcommands.login import login, logout

                    return login(startup) if arguments.command == "login" else logout(startup)
                case "doctor":
                    from tui.subcommands.doctor import doctor

                    return doctor(startup)
                case "sessions" | "config" | "context" | "instructions":
                    from tui.subcommands.reports import report

                    gc.enable()
                    return report(startup)
                case _ if arguments.print_mode:
                    from tui.headless.one_task import one_task

                    return one_task(startup)
                case _:
                    return _screen(startup)
    except SetupError as error:
        what, _, remedy = str(error).partition("\n")
        return _fail(what, remedy)


def _screen(startup: "Startup") -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return _fail("The screen needs a terminal.", "Use `claw -p PROMPT` for a task without one.")
    if os.environ.get("TERM", "") in ("", "dumb"):
        return _fail(f"TERM={os.environ.get('TERM', '')!r} cannot draw a screen.", "Set TERM, or use `claw -p PROMPT`.")
    if (most := resource.getrlimit(resource.RLIMIT_NOFILE)[0]) < FEWEST_FILES:
        return _fail(f"Only {most} files may be open at once here; claw needs {FEWEST_FILES}.", "Try `ulimit -n 1024`.")
    from tui.launch.screen_mode import run_screen

    return run_screen(startup)


def _fail(what: str, remedy: str = "") -> int:
    sys.stderr.write(f"claw: {what}\n" + (f"      {remedy}\n" if remedy else ""))
    return EXIT_USAGE

"""What claw says of itself when it fails in a way that nobody foresaw: one short text, and a report in the folder of logs, with
the traceback but no values of variables, and without secrets.

Decisions: the report is its owner's alone (0600); only the newest ten are kept; where none can be written, the traceback
itself is shown.
"""

import contextlib
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from agent.config.paths import Paths

_GO_ON = "This is a mistake in claw. What was said is kept: `claw -c` goes on with it."
_KEPT_REPORTS = 10
_PREFIX = "crash-"
_numbers = count(1)


def crash_text(error: BaseException) -> str:
    """Some lines with a line end; writes the report. The text holds foreign words: draw it as such."""
    clean = _without_secrets()
    report = clean(_report(error))
    path = _keep(report)
    first = clean(f"claw: {type(error).__name__}: {error}".rstrip())
    if path is None:
        return f"{report}{first}\n      {_GO_ON}\n"
    return f"{first}\n      {_GO_ON}\n      A report of it, without secrets, is in {path}\n"


@contextlib.contextmanager
def reports_of_threads() -> Iterator[None]:
    """While the block runs, what fails in a thread that nobody waits for is written down, and shown nowhere: the terminal may
    be a screen."""

    def keep(failed: "threading.ExceptHookArgs") -> None:
        if failed.exc_value is not None and not isinstance(failed.exc_value, SystemExit):
            _keep(_without_secrets()(_report(failed.exc_value)))

    def keep_unraisable(failed: "sys.UnraisableHookArgs") -> None:
        if failed.exc_value is not None:
            _keep(_without_secrets()(_report(failed.exc_value)))

    class Reports(logging.Handler):
        """What nobody logs otherwise: the event loop tells so of tasks that failed."""

        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.ERROR:
                _keep(_without_secrets()(f"{record.name}: {logging.Formatter().format(record)}\n"))

    last_before, logging.lastResort = logging.lastResort, Reports()
    before, threading.excepthook = threading.excepthook, keep
    unraisable_before, sys.unraisablehook = sys.unraisablehook, keep_unraisable
    try:
        yield
    finally:
        threading.excepthook = before
        sys.unraisablehook = unraisable_before
        logging.lastResort = last_before


def _report(error: BaseException) -> str:
    import platform

    from claw import __version__

    told = "".join(traceback.format_exception(error))
    when = time.strftime("%Y-%m-%d %H:%M:%S %z")
    return f"claw {__version__}, Python {platform.python_version()}, {platform.platform()}, {when}\n\n{told}\n"


class _Cleaner:
    def __init__(self, values: Iterable[str]) -> None:
        from agent.redaction import Redactor

        self._redactor = Redactor(values)

    def __call__(self, text: str) -> str:
        return self._redactor.text(text)


def _without_secrets() -> _Cleaner:
    """What takes out of a text whatever this process may know as a secret."""
    from agent.config.auth import plain_keys
    from agent.redaction import secret_values

    keys: tuple[str, ...] = ()
    if (paths := _paths()) is not None:
        keys = plain_keys(paths.auth_file)
    return _Cleaner([*secret_values(os.environ), *keys])


def _paths() -> Paths | None:
    with contextlib.suppress(Exception):
        return Paths.from_env(os.environ)
    return None


def _keep(report: str) -> Path | None:
    """Write the report into a new file; None where that cannot be done."""
    from agent.config.paths import ensure_private_dir
    from tui import sanitize

    if (paths := _paths()) is None:
        return None
    name = f"{_PREFIX}{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{next(_numbers):03}.txt"
    with contextlib.suppress(OSError):
        ensure_private_dir(paths.state)
        ensure_private_dir(paths.logs)
        path = paths.logs / name
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(sanitize.clean(report).encode("utf-8", "replace"))  # it is looked at in a terminal
        for old in sorted(paths.logs.glob(f"{_PREFIX}*.txt"))[:-_KEPT_REPORTS]:
            old.unlink()
        return path
    return None

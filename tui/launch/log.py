"""The log that `CLAW_LOG` asks for: `$XDG_STATE_HOME/claw/logs/claw.log`, private, rotated, and without secrets.

`error` keeps what failed, `info` also what happened (events without their texts, and requests), `debug` everything that claw
and the SDKs say, texts included. Every line is redacted as it is written, tracebacks too. Decisions: four files of a megabyte;
two claws write to one log, with their process ids; without the variable nothing is imported and nothing written; how texts
are painted is in no log.
"""

import io
import logging
import os
from logging.handlers import RotatingFileHandler
from typing import Any

import msgspec

from agent.config.paths import ensure_private_dir
from agent.events import (
    Emit,
    Event,
    GaugeChanged,
    Notice,
    TextStreamed,
    ThinkingStreamed,
    ToolCallStreamed,
    ToolProgress,
    TurnEnded,
)
from agent.redaction import Redactor
from tui.launch.known_secrets import known_secrets
from tui.launch.startup import SetupError, Startup
from tui.sanitize import clean

LEVELS = {"error": logging.ERROR, "info": logging.INFO, "debug": logging.DEBUG}
MOST_BYTES = 1 << 20
OLD_FILES = 3
_MOST_LINE_CHARS = 16_000
_LOG = logging.getLogger("claw")
_PIECES = (TextStreamed, ThinkingStreamed, ToolCallStreamed, ToolProgress, GaugeChanged)


def keep_log(startup: Startup) -> None:
    """Log from now on what this process does.

    Raises:
        SetupError: no such level, or the file cannot be written.
    """
    wanted = startup.env.get("CLAW_LOG", "")
    level = LEVELS.get(wanted.strip().lower())
    if level is None:
        raise SetupError(f"CLAW_LOG={wanted!r} is no level.\nSet it to {', '.join(LEVELS)}, or unset it.")
    path = startup.paths.logs / "claw.log"
    try:
        ensure_private_dir(startup.paths.state)
        ensure_private_dir(startup.paths.logs)
        handler = _PrivateFile(
            path, maxBytes=MOST_BYTES, backupCount=OLD_FILES, encoding="utf-8", errors="backslashreplace"
        )
    except OSError as error:
        raise SetupError(f"The log {path} cannot be written: {error.strerror or error}.\nUnset CLAW_LOG.") from None
    handler.setFormatter(_Redacting(known_secrets(startup)))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)
    logging.getLogger("markdown_it").setLevel(logging.WARNING)  # it tells every rule it tries, for every frame
    logging.raiseExceptions = False  # a full disk costs lines, and nothing is said on a terminal that shows a screen
    _LOG.info("claw %s, %s", startup.version, startup.arguments.command)


def logged(emit: Emit) -> Emit:
    """An `emit` that also logs, where a log is kept; pieces of a text are not logged for themselves."""
    if not logging.getLogger().handlers:
        return emit

    def log(event: Event) -> None:
        if not isinstance(event, _PIECES):
            _LOG.log(_level(event), "%s", _Shown(event))
        emit(event)

    return log


def _level(event: Event) -> int:
    match event:
        case Notice(level="error") | TurnEnded(reason="provider_error"):
            return logging.ERROR
        case _:
            return logging.INFO


class _Shown:
    """An event as text, made only where it is written."""

    def __init__(self, event: Event) -> None:
        self._event = event

    def __str__(self) -> str:
        plain: dict[str, Any] = msgspec.to_builtins(self._event)
        if not _LOG.isEnabledFor(logging.DEBUG) and _level(self._event) < logging.ERROR:
            plain = {
                key: value
                for key, value in plain.items()
                if isinstance(value, int | float) or key in ("type", "tool", "reason")
            }
        return repr(plain)


class _Redacting(logging.Formatter):
    def __init__(self, secrets: set[str]) -> None:
        super().__init__("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s")
        self._redactor = Redactor(secrets)

    def format(self, record: logging.LogRecord) -> str:
        """One line; what would begin another one is an escape. Numbers of secrets hold for this process's lines."""
        text = self._redactor.text(super().format(record))[:_MOST_LINE_CHARS]
        # What an SDK logs as it came may hold controls, and a log is looked at in a terminal.
        return clean(text.replace("\\", "\\\\").replace("\n", "\\n") if "\n" in text else text)


class _PrivateFile(RotatingFileHandler):
    def _open(self) -> io.TextIOWrapper:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self.baseFilename, flags, 0o600)
        os.fchmod(fd, 0o600)
        return os.fdopen(fd, "a", encoding=self.encoding, errors=self.errors)

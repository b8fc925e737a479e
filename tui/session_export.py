"""Writes a session into a file, for `/export`: Markdown, or JSON where the file's name says so; secrets are taken out.

A file that is there already is never overwritten, and the new one is its owner's alone.
"""

import os
import re
from pathlib import Path

from tui.launch.startup import Startup


class ExportError(Exception):
    """Nothing was written; the text says why."""


def export_session(startup: Startup, session_id: str, file: str) -> str:
    """Write the session and say where; `file` empty: a name of its own in the current directory. Blocks.

    Raises:
        ExportError: the file is there, or cannot be written.
        SessionNotFoundError: nothing was said yet.
    """
    from agent.export import export
    from agent.redaction import Redactor, secret_values
    from agent.store import sessions

    target = export_target(startup.cwd, session_id, file)
    loaded = sessions.load(sessions.find(startup.paths.sessions, session_id))
    keys = [config.key.reveal() for config in startup.providers.values() if config.key is not None]
    redactor = Redactor([*keys, *secret_values(startup.env)])
    pieces = export(loaded, "json" if target.suffix.lower() == ".json" else "markdown", redactor)
    data = "".join(pieces).encode("utf-8", "replace")
    try:
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as opened:
            opened.write(data)
    except FileExistsError:
        raise ExportError(f"{target} exists already. Name another file: /export FILE") from None
    except OSError as error:
        raise ExportError(f"{target} cannot be written: {error.strerror or error}.") from None
    secrets = (
        "" if not redactor.count else f" {redactor.count} secret{'s were' if redactor.count > 1 else ' was'} taken out."
    )
    return f"Exported to {target} ({len(data):,} bytes).{secrets}"


def export_target(cwd: Path, session_id: str, file: str) -> Path:
    if "\0" in file:
        raise ExportError("That is no name for a file.")
    name = file.strip().strip("\"'") or f"claw-{re.sub('[^A-Za-z0-9_-]', '_', session_id)}.md"
    path = cwd / Path(name).expanduser()
    if path.is_dir():
        raise ExportError(f"{path} is a folder. Name a file in it.")
    return path

"""Writes a session into a file, for `/export`: Markdown, or JSON where the file's name says so; secrets are taken out.

A file that is there already is never overwritten, and the new one is its owner's alone. Decision: a document is looked at
in a terminal sooner or later, so controls stand in it visibly, in Markdown as on the screen and in JSON as escapes of the
same value; `claw sessions export` writes the same bytes.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tui.launch.startup import Startup
from tui.sanitize import clean, spelled_json

if TYPE_CHECKING:
    from agent.export import Format
    from agent.redaction import Redactor
    from agent.store.sessions import LoadedSession


class ExportError(Exception):
    """Nothing was written; the text says why."""


def export_session(startup: Startup, session_id: str, file: str, held: "LoadedSession | None" = None) -> str:
    """Write the session and say where; `file` empty: a name of its own in the current directory. Blocks.

    `held`: the session as it stands in memory, where not all of it is on the disk.

    Raises:
        ExportError: nothing was said yet; the file is there, or cannot be written.
    """
    from agent.redaction import Redactor
    from agent.store import sessions
    from tui.launch.known_secrets import known_secrets

    target = export_target(startup.cwd, session_id, file)
    try:
        loaded = held or sessions.load(sessions.find(startup.paths.sessions, session_id))
    except sessions.SessionNotFoundError:  # its file is made with the first message
        raise ExportError("nothing was said in this session yet.") from None
    redactor = Redactor(known_secrets(startup))
    pieces = document(loaded, "json" if target.suffix.lower() == ".json" else "markdown", redactor)
    data = "".join(pieces).encode("utf-8", "replace")
    try:
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as opened:
                opened.write(data)
        except OSError:
            target.unlink(missing_ok=True)  # no half document
            raise
    except FileExistsError:
        raise ExportError(f"{target} exists already. Name another file: /export FILE") from None
    except OSError as error:
        raise ExportError(f"{target} cannot be written: {error.strerror or error}.") from None
    secrets = (
        "" if not redactor.count else f" {redactor.count} secret{'s were' if redactor.count > 1 else ' was'} taken out."
    )
    return f"Exported to {target} ({len(data):,} bytes).{secrets}"


def document(session: "LoadedSession", form: "Format", redactor: "Redactor") -> Iterator[str]:
    """The session as a document, piece by piece, fit for a terminal."""
    from agent.export import export

    return map(clean if form == "markdown" else spelled_json, export(session, form, redactor))


def export_target(cwd: Path, session_id: str, file: str) -> Path:
    if "\0" in file:
        raise ExportError("That is no name for a file.")
    name = file.strip().strip("\"'") or f"claw-{re.sub('[^A-Za-z0-9_-]', '_', session_id)}.md"
    path = cwd / Path(name).expanduser()
    if path.is_dir():
        raise ExportError(f"{path} is a folder. Name a file in it.")
    return path

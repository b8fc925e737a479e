"""What `claw sessions export` and `rm` do: write one session to a file or to standard output, and delete sessions for good.
They change what they were told to and nothing else.
"""

import contextlib
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from agent.config.private_file import replace_private
from agent.redaction import Redactor
from agent.store import sessions
from agent.store.index import SessionIndex
from agent.store.lock import SessionBusyError, is_locked
from agent.store.removal import Removal
from tui.launch.known_secrets import known_secrets
from tui.launch.startup import SetupError, Startup
from tui.sanitize import clean, one_line
from tui.session_export import document
from tui.subcommands.reports import load_session
from tui.subcommands.session_reports import TITLE_CELLS, open_index, size_text

# --------------------------------------------------------------------------- export


def export_session(startup: Startup) -> int:
    """
    Raises:
        SetupError: no such session, or something is in the way.
    """
    arguments = startup.arguments
    target = _target(arguments.output, force=arguments.force)
    loaded = load_session(startup, arguments.session)
    redactor = Redactor(known_secrets(startup))
    pieces = document(loaded, arguments.export_format, redactor)
    if target is None:
        sys.stdout.writelines(pieces)
        return 0
    try:
        _write(target, pieces, force=arguments.force)
    except OSError as error:
        raise SetupError(f"{target} cannot be written: {error.strerror or error}.\nChoose another --output.") from None
    secrets = "1 secret was" if redactor.count == 1 else f"{redactor.count} secrets were"
    print(f"{clean(str(target))}: {size_text(target.stat().st_size)}; {secrets} taken out.")
    return 0


def _target(output: str | None, *, force: bool) -> Path | None:
    """Where the document goes; None is standard output.

    Raises:
        SetupError: something is there that must not be overwritten.
    """
    if output is None or output == "-":
        return None
    path = Path(output).expanduser()
    if path.is_symlink() or path.exists():
        if not path.is_file():
            raise SetupError(f"{clean(output)} is no regular file.\nName a file, or leave --output out to print it.")
        if not force:
            raise SetupError(f"{clean(output)} exists already.\nAdd --force to overwrite it.")
    return path.resolve()


def _write(target: Path, pieces: Iterable[str], *, force: bool) -> None:
    """Private to its owner, and there as a whole or not at all."""
    data = "".join(pieces).encode()
    if force:
        return replace_private(target, data)
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return None


# --------------------------------------------------------------------------- deleting


def remove_sessions(startup: Startup) -> int:
    """
    Raises:
        SetupError: one of them is not there or open, or nobody can be asked; then nothing was deleted.
    """
    try:
        paths = list(dict.fromkeys(sessions.find(startup.paths.sessions, word) for word in startup.arguments.words))
    except sessions.SessionNotFoundError as error:
        raise SetupError(str(error)) from None
    for path in paths:
        if is_locked(path.with_suffix(".lock")):
            raise SetupError(
                f"Session {path.stem} is open in another claw; nothing was deleted.\nClose it there first."
            )
    with contextlib.closing(open_index(startup)) as index:
        removal = Removal(startup.paths.sessions, startup.paths.spills, index)
        if not startup.arguments.yes and not _agreed(paths, removal, index):
            print("Nothing was deleted.")
            return 0
        try:
            removed = removal.remove(paths)
        except (SessionBusyError, OSError) as error:
            raise SetupError(
                f"Not all could be deleted: {error}\n`claw sessions list --all` shows what is left."
            ) from None
    what = "1 session" if removed.sessions == 1 else f"{removed.sessions:,} sessions"
    print(f"Deleted {what}; {size_text(removed.freed_bytes)} are free.")
    return 0


def _agreed(paths: Sequence[Path], removal: Removal, index: SessionIndex) -> bool:
    """
    Raises:
        SetupError: there is nobody to ask.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise SetupError("Deleting sessions has to be confirmed.\nAdd --yes where nobody can be asked.")
    titles = {info.id: info.title for info in index.complete()[0]}
    for path in paths:
        title = one_line(titles.get(path.stem, ""), TITLE_CELLS)
        print(f"{size_text(removal.size_bytes(path)):>10}  {path.stem}  {title}")
    question = "Delete this session for good?" if len(paths) == 1 else f"Delete these {len(paths):,} sessions for good?"
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False

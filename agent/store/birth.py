"""How a session's file comes to be: it is written beside its place, and gets its name when its first entries stand in it.

So whoever is killed meanwhile leaves nothing that has a session's name and cannot be read; what is left is swept away when
the next session is made in that folder.
"""

import contextlib
import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from agent.config.private_file import create_private
from agent.store.lock import SessionBusyError, SessionLock
from agent.store.schema import connect, create_tables
from agent.store.syncing import sync_folder

NEW_SUFFIX = ".new"
_PARTS = ("-wal", "-shm", "-journal", "")


def make_file(path: Path, fill: Callable[[sqlite3.Connection], object]) -> None:
    """Make a session file with what `fill` writes, in one transaction. The caller holds the session's lock.

    Raises:
        OSError, sqlite3.Error: it could not be made; nothing is left.
    """
    unborn = path.with_suffix(NEW_SUFFIX)
    _remove(unborn)
    create_private(unborn)
    try:
        with contextlib.closing(connect(unborn)) as connection:
            create_tables(connection)
            fill(connection)
            connection.execute("COMMIT")
        if unborn.with_name(f"{unborn.name}-wal").exists():  # closing could not bring it over
            raise OSError(errno.EIO, "it was not written whole")
        if path.exists():
            raise FileExistsError(errno.EEXIST, "there is another session of its name")
        unborn.rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            _remove(unborn)
        raise
    with contextlib.suppress(OSError):  # some file systems cannot sync a folder
        sync_folder(path.parent)


def sweep(folder: Path) -> None:
    """Take away what killed processes have left of files that never came to be."""
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        for name in [item.name for item in found if item.name.endswith(NEW_SUFFIX)]:
            unborn = folder / name
            with contextlib.suppress(OSError, SessionBusyError):
                lock = SessionLock(unborn.with_suffix(".lock"))
                try:
                    _remove(unborn)
                    if not unborn.with_suffix(".db").exists():  # then nobody comes to lock it again
                        lock.path.unlink()
                finally:
                    lock.release()


def _remove(unborn: Path) -> None:
    for part in _PARTS:
        unborn.with_name(unborn.name + part).unlink(missing_ok=True)

"""The backup of a file that is overwritten in place: its name, and what to say where one was left behind.

It stands beside the file only while that is written, or afterwards if claw or the machine stopped in the middle. Decision: it
is neither taken back nor deleted by itself, since nobody knows what became of the file meanwhile.
"""

import hashlib
import os
import stat
from pathlib import Path

from agent.files import MAX_TEXT_BYTES, hash_of
from agent.permissions.opening import open_real

_MAX_NAME_BYTES = 255


def backup_name(name: str) -> str:
    """Where the old content of a file stands while that is overwritten in place, and afterwards if claw was killed."""
    whole = f".{name}.claw-backup"
    if len(os.fsencode(whole)) <= _MAX_NAME_BYTES:
        return whole
    return f".{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}.claw-backup"


def find_leftover(real: Path, sha256: str) -> str:
    """The name of a backup that an earlier write of `real` left behind, if it holds something else than `sha256`; else ""."""
    backup = real.with_name(backup_name(real.name))
    try:
        fd = open_real(backup, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return ""  # as good as always: there is none
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return ""
        return backup.name if status.st_size > MAX_TEXT_BYTES or hash_of(fd) != sha256 else ""
    except OSError:
        return backup.name
    finally:
        os.close(fd)


def cut_off(shown: str, shown_backup: str) -> str:
    """What to say of a file whose backup was left behind."""
    return (
        f"An earlier write of {shown} was cut off (claw or the machine stopped), so it may hold a part of what was to be "
        f"written. What it held before is in {shown_backup}, in the same folder. Compare the two; to go back, copy that over "
        "it with `cat BACKUP > FILE`. Then delete the backup."
    )

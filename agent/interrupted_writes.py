"""What a write that was killed in its middle can have left: its new content under a random name beside the file.

It has such a name between two system calls, and is locked for as long as its writer lives; one that nobody holds is taken
away when the session whose call it was is opened again.
"""

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from agent.permissions.workspace import Workspace
from agent.tools.base import ToolError
from agent.transcript import Assistant, Entry, of_kinds
from providers.types import ToolCall

_NAME = re.compile(r"\.claw-[0-9a-f]{16}\.tmp")
_TOOLS = ("edit", "write")


class _Arguments(msgspec.Struct):
    path: str


def clear_up(branch: Sequence[Entry], unanswered: Collection[str], workspace: Workspace) -> None:
    """Take away what the unanswered calls of the newest reply have left."""
    newest = next(of_kinds(reversed(branch), Assistant), None)
    if newest is None or not isinstance(newest.payload, Assistant):
        return
    for call in newest.payload.blocks:
        if isinstance(call, ToolCall) and call.id in unanswered and call.name in _TOOLS:
            with contextlib.suppress(msgspec.MsgspecError, ToolError, OSError):
                path = msgspec.json.decode(call.arguments, type=_Arguments).path
                _sweep(workspace.resolve(path).parent)


def _sweep(folder: Path) -> None:
    with os.scandir(folder) as found:
        names = [item.name for item in found if _NAME.fullmatch(item.name)]
    for name in names:
        with contextlib.suppress(OSError):
            descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                status = os.fstat(descriptor)
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                    (folder / name).unlink()
            finally:
                os.close(descriptor)

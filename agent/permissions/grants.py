"""What the user allowed "always for this folder": rules by real path in the user's state file, never in the project.

The file is shared with other parts and other processes: it is read, changed and replaced under a lock, and keys that are
not grants stay as they are. A file that is damaged, or that others may write, is copied aside and grants nothing.
"""

import os
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomli_w

from agent.config.paths import ensure_private_dir
from agent.config.private_file import BusyFileError, locked, make_private, replace_private
from agent.permissions.path_text import path_key

_MAX_BYTES = 4 * 1024 * 1024

State = dict[str, Any]


class StateError(Exception):
    """The state file cannot be read or written; the text says why and what to do."""


class DamagedStateError(StateError):
    """Its content cannot be used."""


def read_state(path: Path) -> State:
    """The content of the state file; empty if there is none.

    Raises:
        DamagedStateError: no regular file, not this user's alone to write, too large, or no TOML.
        StateError: it cannot be read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error.strerror}") from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise DamagedStateError(f"{path} is no regular file")
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise DamagedStateError(f"{path} can be written by others; it must belong to you with mode 0600")
        make_private(fd)
        with open(fd, "rb", closefd=False) as file:
            raw = file.read(_MAX_BYTES + 1)
    finally:
        os.close(fd)
    try:
        if len(raw) > _MAX_BYTES:
            raise ValueError(f"it is larger than {_MAX_BYTES:,} bytes")
        return tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise DamagedStateError(f"{path} is damaged: {error}") from None


def edit_state(path: Path, change: Callable[[State], None]) -> None:
    """Read the state, let `change` modify it in place, and replace the file; safe against other processes.

    Blocks while another process does the same. Raises: StateError, the file is then as it was.
    """
    try:
        ensure_private_dir(path.parent)
        with locked(path):
            try:
                state = read_state(path)
            except DamagedStateError:
                _copy_aside(path)
                state = {}
            change(state)
            replace_private(path.resolve(), tomli_w.dumps(state).encode())  # a link stays a link
    except OSError as error:
        raise StateError(f"{path} cannot be written: {error.strerror or error}") from error
    except BusyFileError as error:
        raise StateError(str(error)) from None
    except RecursionError:
        raise StateError(f"{path} cannot be written: it is nested too deeply; move it away") from None


class Grants:
    """The rules that are granted for folders."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rules(self, project: Path) -> tuple[str, ...]:
        """The rules granted for a project's real path, oldest first.

        Raises:
            StateError: the file cannot be used; nothing is granted then.
        """
        return tuple(_rules_of(_folder_table(read_state(self.path), project, self.path), project, self.path))

    def add(self, project: Path, rule: str) -> None:
        """Grant a rule for a project's real path; granting it again changes nothing. Blocks. Raises: StateError."""

        def change(state: State) -> None:
            allow = _rules_of(_folder_table(state, project, self.path), project, self.path)
            if rule not in allow:
                allow.append(rule)

        edit_state(self.path, change)


def _folder_table(state: State, project: Path, path: Path) -> State:
    """The project's table, made if it is missing."""
    table: Any = state
    for name in ("grants", path_key(project)):
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise DamagedStateError(f"{path}: {name!r} must be a table; correct or remove it")
    folder: State = table
    return folder


def _rules_of(table: State, project: Path, path: Path) -> list[str]:
    allow = table.setdefault("allow", [])
    if not isinstance(allow, list) or not all(isinstance(rule, str) for rule in allow):
        name = path_key(project)
        raise DamagedStateError(f'{path}: `allow` of [grants."{name}"] must be a list of rules; correct or remove it')
    return allow


def _copy_aside(path: Path) -> None:
    """Keep a damaged file under a name of its own, so that nothing is lost when it is replaced."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.rename(aside)

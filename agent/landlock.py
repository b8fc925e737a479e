"""Starts a child that can open only what was handed to it, whatever links lead to: Landlock, a part of Linux since 5.13.

The restriction belongs to a thread and its children, so the child is started by a thread of its own that ends with that.
It knows nothing of what the child is for, and is no sandbox: network and processes are not touched.
"""

import ctypes
import errno
import functools
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

# The same numbers on every Linux architecture, from the kernel's uapi headers.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_NO_NEW_PRIVS = 38
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
_CHANGES = sum(1 << bit for bit in (1, 4, 5, 6, 7, 8, 9, 10, 11, 12))
"""Writing, removing and making of the first version."""


class Reach(Struct, frozen=True):
    """What a child can open for reading: everything beneath folders, and single files. Descriptors, `O_PATH` is enough."""

    folders: tuple[int, ...]
    files: tuple[int, ...] = ()
    programs: tuple[int, ...] = ()
    """Files and folders that can be run as well."""


@functools.cache
def has_landlock() -> bool:
    """Whether this kernel has it and lets us use it."""
    if not sys.platform.startswith("linux"):
        return False
    version = _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))
    return bool(version >= 1)


def start_confined(
    argv: Sequence[str], reach: Reach, *, stdin: int, cwd: Path, env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a program that reads only within `reach` and changes nothing, in a session of its own, with piped output.

    `stdin` is a descriptor, which `subprocess.DEVNULL` is not: that would have to be opened within `reach`.

    Raises:
        OSError: it cannot be started, or not confined.
    """
    started: list[subprocess.Popen[bytes]] = []
    failed: list[OSError] = []

    def start() -> None:
        try:
            _confine_this_thread(reach)
            pipe = subprocess.PIPE
            started.append(
                subprocess.Popen(  # the caller waits for it
                    argv, stdin=stdin, stdout=pipe, stderr=pipe, cwd=cwd, env=dict(env), start_new_session=True
                )
            )
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=start, name="confined-start")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return started[0]


def _confine_this_thread(reach: Reach) -> None:
    libc = _libc()
    handled = ctypes.c_uint64(_EXECUTE | _READ_FILE | _READ_DIR | _CHANGES)
    ruleset = libc.syscall(
        _CREATE_RULESET, ctypes.byref(handled), ctypes.c_size_t(ctypes.sizeof(handled)), ctypes.c_uint32(0)
    )
    if ruleset < 0:
        raise _error("landlock_create_ruleset")
    try:
        for descriptor in reach.folders:
            _allow(ruleset, descriptor, _READ_FILE | _READ_DIR)
        for descriptor in reach.files:
            _allow(ruleset, descriptor, _READ_FILE)
        for descriptor in reach.programs:
            _allow(ruleset, descriptor, _READ_FILE | _EXECUTE)
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise _error("prctl")
        if libc.syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)) != 0:
            raise _error("landlock_restrict_self")
    finally:
        os.close(ruleset)


def _allow(ruleset: int, descriptor: int, rights: int) -> None:
    rule = rights.to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder)  # a packed struct
    if _libc().syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0)) != 0:
        raise _error("landlock_add_rule")


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _error(what: str) -> OSError:
    code = ctypes.get_errno() or errno.ENOSYS
    return OSError(code, os.strerror(code), what)

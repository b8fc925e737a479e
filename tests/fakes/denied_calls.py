"""Takes system calls away from this process for good, as an old kernel or a strict container does: seccomp by hand."""

import ctypes
import errno
import os
import platform
import sys
from typing import NamedTuple

_NUMBERS = {
    "x86_64": {"openat": 257, "openat2": 437, "landlock_create_ruleset": 444, "arch": 0xC000003E},
    "aarch64": {"openat": 56, "openat2": 437, "landlock_create_ruleset": 444, "arch": 0xC00000B7},
}
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _FILTER_MODE = 22, 38, 2
_FLAGS_OF_OPENAT = 32  # where its third argument stands
_O_TMPFILE_BIT = 0x400000


class _Step(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("value", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("steps", ctypes.POINTER(_Step)))


class Denied(NamedTuple):
    call: str
    code: int = errno.ENOSYS


def missing() -> str:
    """What this needs and the machine lacks; "" if nothing."""
    fits = sys.platform.startswith("linux") and platform.machine() in _NUMBERS
    return "" if fits else "seccomp of Linux on x86-64 or ARM64"


def deny(*denied: Denied, unnamed_files: bool = False) -> None:
    """From now on these calls fail in this process and its children; with `unnamed_files` also `O_TMPFILE`."""
    numbers = _NUMBERS[platform.machine()]
    steps = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, numbers["arch"]), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, 0)]
    for call, code in denied:
        steps += [(_EQUAL, 0, 1, numbers[call]), (_RETURN, 0, 0, _ERRNO | code)]
    if unnamed_files:
        steps += [(_EQUAL, 0, 3, numbers["openat"]), (_LOAD, 0, 0, _FLAGS_OF_OPENAT), (_ANY_BIT, 0, 1, _O_TMPFILE_BIT)]
        steps += [(_RETURN, 0, 0, _ERRNO | errno.EOPNOTSUPP)]
    steps.append((_RETURN, 0, 0, _ALLOW))
    program = _Program(len(steps), (_Step * len(steps))(*(_Step(*step) for step in steps)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in (
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _FILTER_MODE, ctypes.byref(program), 0, 0),
    ):
        if libc.prctl(*arguments) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

"""Opens resolved paths without ever following a link, so that what was judged is what is opened.

A caller resolves a path first and judges the real one; here that real path is opened with no symbolic or magic link
allowed in any component. If something was swapped for a link in between, opening fails instead of leaving the place.
"""

import contextlib
import errno
import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

_SYS_OPENAT2 = 437  # the same number on every Linux architecture
_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x02, 0x04, 0x08
_RESOLVE = _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH
_NO_LINKS_AT_ALL: int = getattr(os, "O_NOFOLLOW_ANY", 0)  # macOS 11 and later
_PASSAGE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_real(real: Path, flags: int) -> int:
    """A descriptor of `real`, an absolute path without links and `..`; close-on-exec is added to `flags`.

    Raises:
        OSError: ELOOP (or ENOTDIR) where a component is a link by now, else as for `os.open`.
    """
    flags |= os.O_CLOEXEC
    if has_openat2():
        try:
            return open_by_openat2(real, flags)
        except BlockingIOError:  # somewhere in the system things are renamed all the time
            return open_by_walk(real, flags)
    if _NO_LINKS_AT_ALL:
        return os.open(real, flags | _NO_LINKS_AT_ALL)
    return open_by_walk(real, flags)


def open_folder(real: Path) -> int:
    """A descriptor of a folder, good for `dir_fd` arguments."""
    return open_real(real, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK)


def make_folder(real: Path) -> tuple[int, list[Path]]:
    """Open a folder, made with its missing parents. Also gives the folders that were made, outermost first.

    Raises:
        OSError: a folder could not be made; those made before it are removed again.
    """
    missing: list[str] = []
    place = real
    while True:
        try:
            descriptor = open_folder(place)
            break
        except FileNotFoundError:
            missing.append(place.name)
            place = place.parent
    made: list[Path] = []
    try:
        for name in reversed(missing):
            place = place / name
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=descriptor)
                made.append(place)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
    except OSError:
        os.close(descriptor)
        remove_made(made)
        raise
    return descriptor, made


def remove_made(made: list[Path]) -> None:
    """Remove folders that were made for nothing, innermost first; one that is in use by now stays."""
    for folder in reversed(made):
        with contextlib.suppress(OSError):
            folder.rmdir()


@functools.cache
def has_openat2() -> bool:
    """Whether this kernel has openat2 and lets us call it (some containers do not)."""
    if not sys.platform.startswith("linux") or os.uname().machine not in ("x86_64", "aarch64"):
        return False
    try:
        os.close(open_by_openat2(Path("/"), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


@functools.cache
def _libc() -> "ctypes.CDLL":
    """One for all calls: each is several kilobytes of classes that refer to themselves."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def open_by_openat2(real: Path, flags: int) -> int:
    """`open_real` by the one system call that refuses links in every component."""
    import ctypes  # here: it costs start-up time and only this call needs it

    libc = _libc()
    how = (ctypes.c_uint64 * 3)(flags, 0, _RESOLVE)
    relative = os.fsencode(real)[1:] or b"."
    top = os.open("/", _PASSAGE)
    try:
        for _ in range(16):
            descriptor = int(libc.syscall(_SYS_OPENAT2, top, relative, ctypes.byref(how), ctypes.sizeof(how)))
            if descriptor >= 0:
                return descriptor
            # EAGAIN: something was renamed during the walk; the kernel asks to try again.
            if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
                break
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(real))
    finally:
        os.close(top)


def open_by_walk(real: Path, flags: int) -> int:
    """`open_real` for other systems: one component after the other, none of them a link."""
    folder = os.open("/", _PASSAGE)
    try:
        for name in real.parts[1:-1]:
            inner = os.open(name, _PASSAGE, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(real.parts[-1], flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)

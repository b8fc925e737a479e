"""The one writer of the user's files: afterwards a file holds the new bytes or the old ones, never a part of either.

A file is replaced by a sibling that got its mode, owner, ACL and extended attributes. Where that would lose something (a
further hard link, an owner or attribute that cannot be given), it is overwritten in place, with a backup beside it until
that succeeded. Everything happens relative to the folder's descriptor, so that no link planted meanwhile is followed.

A Python file always gets a later second than it had: Python runs old bytecode for a source of the same size and second.
"""

import contextlib
import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from agent.file_metadata import copy_metadata
from agent.files import hash_of
from agent.permissions.opening import make_folder, open_folder, remove_made
from agent.permissions.path_text import os_error, show_name
from agent.tools.base import ToolError

_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_REOPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
_SECOND_NS = 1_000_000_000


def write_file(
    real: Path, shown: str, data: bytes, expected: str | None, cancelled: Callable[[], bool] = lambda: False
) -> None:
    """Give the file at `real` (absolute, no links) the content `data`.

    `expected` is the sha256 of what must stand there until the last moment; None: nothing does, and the file is made with
    its missing folders, with the mode that the umask leaves. If `cancelled` says so before the change, nothing changes.

    Raises:
        ToolError: not done; the file is as it was.
    """
    made: list[Path] = []
    try:
        if expected is None:
            folder, made = make_folder(real.parent)
        else:
            folder = open_folder(real.parent)
    except OSError as error:
        raise os_error(error, shown, "write") from None
    change = _Change(folder, real.name, shown, data, expected, cancelled)
    try:
        change.run()
    except BaseException as error:
        remove_made(made)
        if isinstance(error, OSError):
            raise os_error(error, shown, "write") from None
        raise
    finally:
        os.close(folder)


def check_writable(real: Path, shown: str) -> None:
    """Whether `write_file` has a chance, without trying.

    Raises:
        ToolError: the file, or the folder that would hold it, is read-only.
    """
    place = real
    while not place.exists():
        place = place.parent
    if not os.access(place, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        what = shown if place == real else f"The folder {show_name(place)}"
        raise ToolError(
            f"{what} is not writable for you (mode {stat.S_IMODE(place.stat().st_mode):04o}, or a read-only file system). "
            "Ask the user before you change that, or use another place."
        )


class _Change:
    """One write in one folder."""

    def __init__(
        self, folder: int, name: str, shown: str, data: bytes, expected: str | None, cancelled: Callable[[], bool]
    ) -> None:
        self._folder = folder
        self._name = name
        self._shown = shown
        self._data = data
        self._expected = expected
        self._cancelled = cancelled

    def run(self) -> None:
        if self._expected is None:
            self._create()
            return
        original = self._open_original(os.O_RDONLY)
        try:
            status = os.fstat(original)
            if status.st_nlink > 1 or not self._replace(original, status):
                self._overwrite(status)
        finally:
            os.close(original)

    def _create(self) -> None:
        # 0666: the system takes the umask, and a default ACL of the folder, into account here and nowhere else.
        temporary, fd = self._new_file(0o666)
        try:
            try:
                _write_all(fd, self._data)
            finally:
                os.close(fd)
            self._check_cancelled()
            self._publish(temporary)
        except FileExistsError:
            raise self._changed() from None
        finally:
            self._remove(temporary)
        self._sync_folder()

    def _publish(self, temporary: str) -> None:
        """Give the finished file its name, unless something has that name by now."""
        try:
            os.link(temporary, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            # A file system without hard links: the check and the renaming are two steps there.
            if self._exists():
                raise FileExistsError from None
            os.rename(temporary, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def _replace(self, original: int, status: os.stat_result) -> bool:
        """Put a new file in the place of the old one. False: its owner or attributes could not be kept."""
        temporary, fd = self._new_file(0o600)
        try:
            try:
                _write_all(fd, self._data)
                if not copy_metadata(original, fd, status):
                    return False
                self._move_on(fd, status)
                os.fsync(fd)
            finally:
                os.close(fd)
            self._check_cancelled()
            self._check_unchanged(original)
            os.rename(temporary, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError as error:
            if error.errno == errno.EBUSY:  # a mount point of its own, as containers make them of single files
                return False
            raise
        finally:
            self._remove(temporary)
        self._sync_folder()
        return True

    def _overwrite(self, status: os.stat_result) -> None:
        fd = self._open_original(os.O_RDWR)
        try:
            old = _read_all(fd)
            backup, backup_fd = self._new_file(0o600)
            try:
                try:
                    _write_all(backup_fd, old)
                finally:
                    os.close(backup_fd)
                self._check_cancelled()
                if not hashlib.sha256(old).hexdigest() == self._expected == hash_of(fd):
                    raise self._changed()
            except BaseException:
                self._remove(backup)
                raise
            try:
                _write_all(fd, self._data)
            except BaseException:
                self._restore(fd, old, backup)
                raise
            self._remove(backup)
            self._move_on(fd, status)
            if stat.S_IMODE(status.st_mode) != stat.S_IMODE(os.fstat(fd).st_mode):
                with contextlib.suppress(OSError):
                    os.fchmod(fd, stat.S_IMODE(status.st_mode))
        finally:
            os.close(fd)

    def _restore(self, fd: int, old: bytes, backup: str) -> None:
        try:
            _write_all(fd, old)
        except OSError as error:
            raise ToolError(
                f"Writing {self._shown} failed, and so did putting its old content back ({error.strerror}). The old "
                f"content is beside it in {backup}. Tell the user at once."
            ) from None
        self._remove(backup)

    # ------------------------------------------------------------------ small steps

    def _open_original(self, access: int) -> int:
        try:
            fd = os.open(self._name, access | _REOPEN, dir_fd=self._folder)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise self._changed() from None
            raise
        if not stat.S_ISREG(os.fstat(fd).st_mode) or hash_of(fd) != self._expected:
            os.close(fd)
            raise self._changed()
        return fd

    def _check_unchanged(self, original: int) -> None:
        current = self._open_original(os.O_RDONLY)
        try:
            if not os.path.sameopenfile(current, original):
                raise self._changed()
        finally:
            os.close(current)

    def _check_cancelled(self) -> None:
        if self._cancelled():
            raise ToolError("The call was cancelled; nothing was changed.")

    def _changed(self) -> ToolError:
        return ToolError(f"{self._shown} was changed by someone else just now. Read it again, then redo the change.")

    def _move_on(self, fd: int, before: os.stat_result) -> None:
        """Give a Python file a later second than the one it had, if the clock has not done so."""
        second, now = before.st_mtime_ns // _SECOND_NS + 1, os.fstat(fd)
        if self._name.endswith((".py", ".pyw")) and now.st_mtime_ns < second * _SECOND_NS:
            with contextlib.suppress(OSError):  # another owner's file takes no other time than now
                os.utime(fd, ns=(now.st_atime_ns, second * _SECOND_NS))

    def _exists(self) -> bool:
        try:
            os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def _new_file(self, mode: int) -> tuple[str, int]:
        name = f".claw-{secrets.token_hex(8)}.tmp"
        return name, os.open(name, _CREATE, mode, dir_fd=self._folder)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self._folder)

    def _sync_folder(self) -> None:
        # The change is made by now; some file systems cannot sync a folder.
        with contextlib.suppress(OSError):
            os.fsync(self._folder)


def _write_all(fd: int, data: bytes) -> None:
    """Make `data` the whole content, on disk. Old blocks are written over before the end is cut off."""
    view = memoryview(data)
    place = 0
    while place < len(data):
        place += os.pwrite(fd, view[place:], place)
    os.ftruncate(fd, len(data))
    os.fsync(fd)


def _read_all(fd: int) -> bytes:
    pieces: list[bytes] = []
    place = 0
    while piece := os.pread(fd, 1 << 20, place):
        pieces.append(piece)
        place += len(piece)
    return b"".join(pieces)

"""The one writer of the user's files: afterwards a file holds the new bytes or the old ones, never a part of either.

A file is replaced by a sibling that got its mode, owner, ACL and extended attributes. Where that would lose something (a
further hard link, an owner or attribute that cannot be given), it is overwritten in place, with a backup beside it until
that succeeded. A backup that stayed since claw was killed is found by its name when that file is used again, and neither
taken back nor deleted by itself: nobody knows what became of the file meanwhile. Everything happens relative to the
folder's descriptor, so that no link planted meanwhile is followed.

A Python file always gets a later second than it had: Python runs old bytecode for a source of the same size and second.
"""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from agent.file_metadata import copy_metadata
from agent.files import MAX_TEXT_BYTES, hash_of
from agent.leftover import backup_name, cut_off
from agent.permissions.opening import make_folder, open_folder, remove_made
from agent.permissions.path_text import os_error, show_name
from agent.sibling_file import NotNamableError, SiblingFile
from agent.tools.base import ToolError

_REOPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
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
    for needed in dict.fromkeys((place, place.parent if place == real else place)):
        if os.access(needed, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            continue
        try:
            mode = f"mode {stat.S_IMODE(needed.stat().st_mode):04o}, or a read-only file system"
        except FileNotFoundError:
            raise ToolError(f"{shown} was removed just now. Nothing was changed.") from None
        what, why = shown, ""
        if needed != real:
            what = f"The folder {show_name(needed)}"
            why = ", so nothing in it can be replaced without a risk" if place == real else ""
        raise ToolError(
            f"{what} is not writable for you ({mode}){why}. Ask the user before you change that, or use another place."
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
        try:
            self._run(unnamed=True)
        except NotNamableError:
            self._run(unnamed=False)

    def _run(self, *, unnamed: bool) -> None:
        if self._expected is None:
            self._create(unnamed)
            return
        original = self._open_original(os.O_RDONLY)
        try:
            status = os.fstat(original)
            if status.st_nlink > 1 or not self._replace(original, status, unnamed):
                self._overwrite(status, unnamed)
        finally:
            os.close(original)

    def _create(self, unnamed: bool) -> None:
        # 0666: the system takes the umask, and a default ACL of the folder, into account here and nowhere else.
        with SiblingFile(self._folder, 0o666, unnamed=unnamed) as made:
            _write_all(made.fd, self._data)
            self._check_cancelled()
            try:
                made.publish(self._name)
            except FileExistsError:
                raise self._changed() from None
        self._sync_folder()

    def _replace(self, original: int, status: os.stat_result, unnamed: bool) -> bool:
        """Put a new file in the place of the old one. False: its owner or attributes could not be kept."""
        with SiblingFile(self._folder, 0o600, unnamed=unnamed) as new:
            _put(new.fd, self._data)
            if not copy_metadata(original, new.fd, status):
                return False
            self._move_on(new.fd, status)
            os.fsync(new.fd)
            self._check_cancelled()
            new.get_ready()
            self._check_unchanged(original)
            try:
                new.replace(self._name)
            except OSError as error:
                if error.errno == errno.EBUSY:  # a mount point of its own, as containers make them of single files
                    return False
                raise
        self._sync_folder()
        return True

    def _overwrite(self, status: os.stat_result, unnamed: bool) -> None:
        fd = self._open_original(os.O_RDWR)
        try:
            old = _read_all(fd)
            backup = self._make_backup(old, unnamed)
            try:
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

    def _make_backup(self, old: bytes, unnamed: bool) -> str:
        """A copy of the old content under the name where it will be looked for; it never stands there in part."""
        name = backup_name(self._name)
        with SiblingFile(self._folder, 0o600, unnamed=unnamed) as backup:
            _write_all(backup.fd, old)
            try:
                backup.publish(name)
            except FileExistsError:
                if self._has_leftover():
                    raise ToolError(cut_off(self._shown, show_name(name))) from None
        self._sync_folder()
        return name

    def _has_leftover(self) -> bool:
        """Whether the backup of an earlier write is there that did not end, and holds something else than the file."""
        try:
            fd = os.open(backup_name(self._name), os.O_RDONLY | _REOPEN, dir_fd=self._folder)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        try:
            return not _is_text_file(os.fstat(fd)) or hash_of(fd) != self._expected
        finally:
            os.close(fd)

    def _restore(self, fd: int, old: bytes, backup: str) -> None:
        try:
            _write_all(fd, old)
        except OSError as error:
            raise ToolError(
                f"Writing {self._shown} failed, and so did putting its old content back ({error.strerror}). The old "
                f"content is beside it in {show_name(backup)}. Tell the user at once."
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
        if not _is_text_file(os.fstat(fd)) or hash_of(fd) != self._expected:
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

    def _remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self._folder)

    def _sync_folder(self) -> None:
        # The change is made by now; some file systems cannot sync a folder.
        with contextlib.suppress(OSError):
            os.fsync(self._folder)


def _is_text_file(status: os.stat_result) -> bool:
    """Whether it may be one: a regular file that is soon hashed."""
    return stat.S_ISREG(status.st_mode) and status.st_size <= MAX_TEXT_BYTES


def _write_all(fd: int, data: bytes) -> None:
    """Make `data` the whole content, on disk."""
    _put(fd, data)
    os.fsync(fd)


def _put(fd: int, data: bytes) -> None:
    """Make `data` the whole content. Old blocks are written over before the end is cut off."""
    view = memoryview(data)
    place = 0
    while place < len(data):
        place += os.pwrite(fd, view[place:], place)
    os.ftruncate(fd, len(data))


def _read_all(fd: int) -> bytes:
    pieces: list[bytes] = []
    place = 0
    while piece := os.pread(fd, 1 << 20, place):
        pieces.append(piece)
        place += len(piece)
    return b"".join(pieces)

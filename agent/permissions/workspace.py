"""The folders a session works in: what a path given by the model really is, whether it lies inside, and opening it.

Whether a path outside may be used is the gate's question, asked before anything here opens it; both see the same real
path. Known limits: a file with several hard links is judged by the name it was reached by.
"""

import contextlib
import difflib
import errno
import os
import stat
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from agent.permissions.opening import open_folder, open_real
from agent.permissions.path_text import check_length, from_escaped, kind_of, os_error, show_name
from agent.permissions.sensitive import is_sensitive
from agent.tools.base import ToolError

_MAX_COMPARED = 2_000
_TRIES = 16
_STREAMS = ("kmsg", "trace_pipe")
"""Regular files by their mode."""


class OpenedFile:
    """An open regular file. Act on `fd`, never on the name again. Closes itself as a context manager."""

    def __init__(self, fd: int, real: Path, status: os.stat_result) -> None:
        self.fd = fd
        self.real = real
        self.stat = status

    def __enter__(self) -> "OpenedFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Workspace:
    """`root` and the `extra` folders are the workspace; `readable` folders count as inside for reading alone."""

    def __init__(
        self,
        root: Path,
        cwd: Path,
        extra: tuple[Path, ...] = (),
        readable: tuple[Path, ...] = (),
        *,
        folds_case: bool = sys.platform == "darwin",
    ) -> None:
        self.root = Path(os.path.realpath(root))
        self.cwd = Path(os.path.realpath(cwd))
        """Where relative paths start; lies in `root`."""
        self.extra = tuple(Path(os.path.realpath(folder)) for folder in extra)
        self.readable = tuple(Path(os.path.realpath(folder)) for folder in readable)
        self.is_closed: Callable[[Path], bool] | None = None
        """Set by the gate where rules forbid to read some files: whether a search must leave a real path out."""
        self.is_sensitive: Callable[[Path], bool] = is_sensitive
        """Whether a search must leave a real path out since it may hold secrets; the gate knows the rules that allow it."""
        self._folds_case = folds_case

    def resolve(self, path: str) -> Path:
        """The real absolute path: relative to `cwd`, `~` expanded, links followed, also those of missing targets.

        Of what does not exist yet, the links of the deepest existing parent are followed.

        Raises:
            ToolError: no such path is possible (empty, NUL, too long, a loop of links, not permitted to look).
        """
        shown = show_name(path)
        if not path.strip():
            raise ToolError("The path is empty. Give a path relative to the current folder, or an absolute one.")
        if "\0" in path:
            raise ToolError(f"The path {shown} holds a NUL character, which no file name can.")
        try:
            full = self.cwd / os.path.expanduser(path)  # noqa: PTH111 (Path.expanduser raises for an unknown user)
            check_length(str(full), shown)
        except UnicodeEncodeError:
            raise ToolError(f"The path {path!a} holds a lone surrogate, which no file name can.") from None
        if (given := from_escaped(str(full))) is not None and not os.path.lexists(full) and os.path.lexists(given):
            full = Path(given)
        for _ in range(_TRIES):
            try:
                return Path(os.path.realpath(full, strict=True))
            except FileNotFoundError:
                # Also where a link turns into something else while it is looked at, which fails with EINVAL.
                with contextlib.suppress(OSError):
                    return Path(os.path.realpath(full))
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise os_error(error, shown, "reach") from None
        raise ToolError(f"{shown} is being changed all the time; it cannot be told where it leads. Try again.")

    def contains(self, real: Path, *, reading: bool = False) -> bool:
        """Whether a real path lies in the workspace, or, for `reading`, in a folder that may be read."""
        folders = (self.root, *self.extra, *(self.readable if reading else ()))
        parts = self._comparable(real)
        return any(parts[: len(top)] == top for top in map(self._comparable, folders))

    def display(self, real: Path) -> str:
        """A real path as people and the model see it, and as `resolve` takes it back: relative where it lies inside."""
        return show_name(os.path.relpath(real, self.cwd) if real.is_relative_to(self.root) else real)

    def open_file(self, real: Path) -> OpenedFile:
        """Open a real path for reading.

        Raises:
            ToolError: missing, not permitted, not a regular file (refused without opening it), or a link by now.
        """
        self.check_regular(real)
        try:
            fd = open_real(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError as error:
            raise os_error(error, self.display(real), "read") from None
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            raise ToolError(f"{self.display(real)} is a {kind_of(status.st_mode)} by now, not a file.")
        return OpenedFile(fd, real, status)

    def check_regular(self, real: Path) -> None:
        """
        Raises:
            ToolError: there is no regular file; names near to a missing one are told where it would lie inside.
        """
        shown = self.display(real)
        try:
            mode = real.lstat().st_mode
        except FileNotFoundError:
            raise ToolError(f"{shown} does not exist.{self._hint(real)}") from None
        except OSError as error:
            raise os_error(error, shown, "reach") from None
        if stat.S_ISDIR(mode):
            raise ToolError(f"{shown} is a folder. List it with glob: pattern `./*` and path `{shown}`, or with ls.")
        if not stat.S_ISREG(mode):
            raise ToolError(f"{shown} is a {kind_of(mode)}. Only regular files can be read or changed.")
        if real.name in _STREAMS and real.parts[1:2] in (("proc",), ("sys",)):
            raise ToolError(
                f"{shown} is a stream of the kernel: reading takes from it what others wait for. Use a command."
            )

    @contextlib.contextmanager
    def folder(self, real: Path) -> Iterator[int]:
        """A descriptor of a real folder.

        Raises:
            ToolError: missing, not permitted, or not a folder.
        """
        shown = self.display(real)
        try:
            if not stat.S_ISDIR(real.lstat().st_mode):
                raise ToolError(f"{shown} is not a folder.")
            fd = open_folder(real)
        except FileNotFoundError:
            raise ToolError(f"The folder {shown} does not exist.{self._hint(real)}") from None
        except OSError as error:
            raise os_error(error, shown, "list") from None
        try:
            yield fd
        finally:
            os.close(fd)

    def _comparable(self, path: Path) -> tuple[str, ...]:
        if not self._folds_case:
            return path.parts
        return tuple(unicodedata.normalize("NFC", part).casefold() for part in path.parts)

    def _hint(self, real: Path) -> str:
        """Names that could have been meant. Nothing is told of folders outside, which nobody allowed to list yet."""
        if not self.contains(real, reading=True):
            return ""
        with contextlib.suppress(OSError):
            parent = real.parent
            while not parent.exists():
                parent = parent.parent
            if parent != real.parent:
                return f" The deepest folder that exists is `{self.display(parent)}`."
            from_root = self.root / os.path.relpath(real, self.cwd)
            if from_root != real and self.contains(from_root) and from_root.exists():
                return f" Did you mean {self.display(from_root)}?"
            if near := _near_names(real):
                return " Did you mean " + " or ".join(self.display(parent / name) for name in near) + "?"
        return ""


def _near_names(missing: Path) -> list[str]:
    with os.scandir(missing.parent) as entries:
        names = {entry.name.casefold(): entry.name for entry, _ in zip(entries, range(_MAX_COMPARED), strict=False)}
    return [names[name] for name in difflib.get_close_matches(missing.name.casefold(), names, n=3)]

"""What ripgrep may open while it searches a folder: that folder, itself, and the files that say what git ignores.

A search runs beside commands that may swap a folder for a link at any moment, and ripgrep opens by name. Where the system
can hold it inside (agent/landlock.py) it is used; elsewhere on Linux the search program of claw's own is, which opens by
descriptors. Decision: on other systems ripgrep runs as it is, and follows no link that stands there when it looks.
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from agent.landlock import Reach
from agent.permissions.opening import open_real

_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/opt/homebrew/lib")
_EXCLUDES = re.compile(rb"(?im)^\s*excludesfile\s*=\s*\"?\s*(\S+?)\s*\"?\s*$")
_MOST_CONFIG_BYTES = 1 << 20
_JUST_NAMED = getattr(os, "O_PATH", os.O_RDONLY)


@contextlib.contextmanager
def reach_of_search(rg: Path, folder: Path, folder_fd: int, excludes: Path | None) -> Iterator[Reach]:
    """`excludes`: the user's own list of ignored files."""
    with contextlib.ExitStack() as stack:

        def kept(descriptors: Iterator[int]) -> tuple[int, ...]:
            found = tuple(descriptors)
            for descriptor in found:
                stack.callback(os.close, descriptor)
            return found

        ignoring = [parent / name for parent in folder.parents for name in _IGNORE_FILES]
        files = kept(_opened_files([*ignoring, *([excludes] if excludes else [])]))
        # Opened by name with links followed: the user's installation, where nothing of the project is.
        programs = kept(_opened([str(rg), *_LIBRARIES]))
        yield Reach((folder_fd,), files, programs)


def excludes_file(home: Path, xdg_config: Path) -> Path | None:
    """git's list of files that the user wants ignored everywhere, as ripgrep would find it. None: there is none."""
    for config in (home / ".gitconfig", xdg_config / "git" / "config"):
        with contextlib.suppress(OSError):
            small = config.is_file() and config.stat().st_size <= _MOST_CONFIG_BYTES
            if small and (named := _EXCLUDES.search(config.read_bytes())):
                written = os.fsdecode(named[1])
                return Path(os.path.realpath(home / written[2:] if written.startswith("~/") else written))
    usual = Path(os.path.realpath(xdg_config / "git" / "ignore"))
    return usual if usual.is_file() else None


def _opened(paths: list[str]) -> Iterator[int]:
    for path in paths:
        with contextlib.suppress(OSError):
            yield os.open(path, _JUST_NAMED | os.O_CLOEXEC)


def _opened_files(paths: list[Path]) -> Iterator[int]:
    """Of real paths alone, and regular files alone: whoever can place a link there can write the file as well."""
    for path in paths:
        with contextlib.suppress(OSError):
            descriptor = open_real(path, _JUST_NAMED)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                yield descriptor
            else:
                os.close(descriptor)

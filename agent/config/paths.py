"""Where claw keeps its files, and which folder is the project. With `layers.py`, the only code that knows home and `.claw`.

Git is never run: the project root and the branch are found by looking at files.
"""

import os
import pwd
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from agent.config.reading import UnreadableError, read_small

PROJECT_FOLDER = ".claw"
_XDG = {
    "config": ("XDG_CONFIG_HOME", ".config"),
    "data": ("XDG_DATA_HOME", ".local/share"),
    "state": ("XDG_STATE_HOME", ".local/state"),
    "cache": ("XDG_CACHE_HOME", ".cache"),
}
_MAX_GIT_FILE_BYTES = 4096


class HomeError(Exception):
    """There is no usable home folder; the text says what to set."""


class Paths(Struct, frozen=True):
    """claw's own folders. None of them needs to exist."""

    config: Path
    data: Path
    state: Path
    cache: Path
    home: Path
    managed: Path = Path("/etc/claw")
    """The administrator's folder. No variable moves it: who may set a variable may not set policy."""

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> "Paths":
        """`$CLAW_HOME/{config,data,state,cache}`, else the XDG folders with their defaults on every platform.

        An XDG variable that is empty or relative counts as unset, as its specification asks.

        Raises:
            HomeError: `CLAW_HOME` is relative, or no home folder is known.
        """
        if claw_home := env.get("CLAW_HOME", ""):
            root = Path(claw_home)
            if not root.is_absolute():
                raise HomeError(f"CLAW_HOME must be an absolute path, not {claw_home!r}. Set it to one, or unset it.")
            config, data, state, cache = (root / name for name in _XDG)
            return cls(config, data, state, cache, _home(env) or root)
        home = _home(env)
        folders: list[Path] = []
        for name, (variable, default) in _XDG.items():
            given = env.get(variable, "")
            if given and Path(given).is_absolute():
                folders.append(Path(given) / "claw")
            elif home is not None:
                folders.append(home / default / "claw")
            else:
                raise HomeError(f"No folder for claw's {name} files: set HOME, {variable} or CLAW_HOME.")
        config, data, state, cache = folders
        return cls(config, data, state, cache, home or Path("/"))

    @property
    def config_file(self) -> Path:
        return self.config / "config.toml"

    @property
    def managed_config_file(self) -> Path:
        return self.managed / "config.toml"

    @property
    def sessions(self) -> Path:
        return self.data / "sessions"

    @property
    def index_file(self) -> Path:
        """What is known of all sessions; made from their files."""
        return self.data / "index.db"

    @property
    def auth_file(self) -> Path:
        return self.data / "auth.json"

    @property
    def state_file(self) -> Path:
        return self.state / "state.toml"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def history_file(self) -> Path:
        """What was typed before, for the composer."""
        return self.state / "history"

    @property
    def models(self) -> Path:
        """What providers listed last."""
        return self.cache / "models"

    @property
    def spills(self) -> Path:
        """Outputs that were capped, made anew as files from the sessions that hold them."""
        return self.cache / "spills"


def path_text(path: Path) -> str:
    """The path as text that can be stored and compared: bytes of a name that are no UTF-8 become `\\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _home(env: Mapping[str, str]) -> Path | None:
    given = env.get("HOME", "")
    if given and Path(given).is_absolute():
        return Path(given)
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return None


def ensure_private_dir(path: Path) -> None:
    """Make the folder and its missing parents with mode 0700, whatever the umask; an existing one gets 0700 itself.

    Raises:
        OSError: it cannot be made, or something else has its name.
    """
    missing = [path, *path.parents]
    for folder in reversed(missing[: next((n for n, f in enumerate(missing) if f.exists()), len(missing))]):
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        folder.chmod(0o700)
    status = path.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(20, "not a directory; move it away", str(path))
    if stat.S_IMODE(status.st_mode) != 0o700:
        path.chmod(0o700)


def project_root(cwd: Path) -> Path:
    """The nearest folder at or above `cwd` that holds `.git` (a folder, or a file as in a worktree), else `cwd`; real."""
    real = cwd.resolve()
    for folder in (real, *real.parents):
        if is_git_root(folder):
            return folder
    return real


def is_git_root(folder: Path) -> bool:
    marker = folder / ".git"
    try:
        return marker.is_dir() or marker.is_file()
    except OSError:
        return False


def git_branch(root: Path) -> str | None:
    """The branch that is checked out in `root`; "detached at 1a2b3c4d" where none is; None without a readable git folder."""
    marker = root / ".git"
    try:
        if marker.is_dir():
            git_folder = marker
        else:
            pointer = _first_line(marker)
            if pointer is None or not pointer.startswith("gitdir:"):
                return None
            git_folder = root / pointer.removeprefix("gitdir:").strip()
        head = _first_line(git_folder / "HEAD")
    except OSError:
        return None
    if head is None:
        return None
    if re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", head):
        return f"detached at {head[:8]}"
    name = head.removeprefix("ref:").strip().removeprefix("refs/heads/")
    return name if head.startswith("ref:") and name and name.isprintable() else None


def _first_line(path: Path) -> str | None:
    try:
        file = read_small(path, _MAX_GIT_FILE_BYTES)
    except UnreadableError:
        return None
    if file is None:
        return None
    return file.data.decode("utf-8", "replace").split("\n", 1)[0].strip()

"""The `glob` tool: files by name pattern, newest first."""

import os
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from agent.permissions.path_text import show_name
from agent.permissions.workspace import Workspace
from agent.tools.base import Access, ToolContext, ToolError, ToolOutput, load_description
from agent.tools.blocking import in_thread
from agent.tools.details import TextDetails
from agent.tools.glob_match import PathTest, asks_for_hidden, compile_glob, depth_of, split_base
from agent.tools.search import TIME_LIMIT_S, Query, find_rg, run_query
from agent.tools.search_process import Place

MAX_SHOWN = 200
MAX_MATCHES = 50_000


class GlobParams(Struct, frozen=True):
    pattern: str
    path: str = "."


class Glob:
    name: ClassVar[str] = "glob"
    params: ClassVar[type[Struct]] = GlobParams
    description: ClassVar[str] = load_description(__file__)

    def __init__(self, rg: Path | None = None, *, without_rg: bool = False, time_limit_s: float = TIME_LIMIT_S) -> None:
        self._rg = None if without_rg else rg or find_rg()
        self._time_limit_s = time_limit_s

    def access(self, params: GlobParams, context: ToolContext) -> Access:
        folder, pattern = _place(params, context)
        compile_glob(pattern)
        with context.workspace.folder(folder):
            pass
        return Access("read", show_name(params.pattern) + where(context, folder, params.path), (folder,))

    async def run(self, params: GlobParams, context: ToolContext) -> ToolOutput:
        folder, pattern = _place(params, context)
        visible = Visible(context.workspace, folder, compile_glob(pattern))
        names = NameCollector(visible, MAX_MATCHES)
        with context.workspace.folder(folder) as fd:
            query = Query("names", hidden=asks_for_hidden(pattern), max_depth=depth_of(pattern))
            outcome = await run_query(query, Place(folder, fd), self._rg, names.feed, self._time_limit_s)
            newest = await newest_first(names.found, fd)
        notes = [outcome.problem] if outcome.problem else []
        if outcome.enough:
            notes.append(f"there are more than {MAX_MATCHES:,}")
        if visible.left_out:
            notes.append(left_out_note(visible.left_out))
        return _output(params, context, folder, newest, notes)


class Visible:
    """Tests the paths that a search of a folder finds: those that are wanted, no rule closes and hold no secrets."""

    def __init__(self, workspace: Workspace, folder: Path, wanted: PathTest | None = None) -> None:
        self._is_closed = workspace.is_closed
        self._is_sensitive = workspace.is_sensitive
        self.left_out = 0
        """How many times a wanted file was left out since it may hold secrets."""
        self._folder = folder
        self._wanted = wanted
        self._newest = ("", False)

    def __call__(self, path: str) -> bool:
        if self._newest[0] != path:  # a search gives all lines of a file one after the other
            self._newest = (path, self._look(path))
        return self._newest[1]

    def _look(self, path: str) -> bool:
        if self._wanted is not None and not self._wanted(path):
            return False
        real = self._folder / path
        if self._is_closed is not None and self._is_closed(real):
            return False
        if self._is_sensitive(real):
            self.left_out += 1
            return False
        return True


class NameCollector:
    """Takes paths that end with NUL and begin with `./` apart, and keeps those that are wanted."""

    def __init__(self, wanted: PathTest, most: int = MAX_MATCHES) -> None:
        self.found: list[str] = []
        self._wanted = wanted
        self._most = most
        self._rest = b""

    def feed(self, piece: bytes) -> bool:
        *paths, self._rest = (self._rest + piece).split(b"\0")
        for raw in paths:
            path = os.fsdecode(raw.removeprefix(b"./"))
            if self._wanted(path):
                if len(self.found) == self._most:
                    return False
                self.found.append(path)
        return True


def left_out_note(count: int) -> str:
    what = "1 file that may hold secrets is" if count == 1 else f"{count:,} files that may hold secrets are"
    return f"{what} left out; to read one, name it, and the user is asked"


async def newest_first(paths: list[str], folder_fd: int) -> list[str]:
    """Sorted by time of change; what is gone meanwhile comes last."""

    def age(path: str) -> tuple[float, str]:
        try:
            return -os.stat(path, dir_fd=folder_fd, follow_symlinks=False).st_mtime, path
        except OSError:
            return 0.0, path

    return await in_thread(lambda stop: sorted(paths, key=age))


def where(context: ToolContext, folder: Path, path: str) -> str:
    """For messages: "in FOLDER", if one was named."""
    return "" if path == "." else f" in {context.workspace.display(folder)}"


def _place(params: GlobParams, context: ToolContext) -> tuple[Path, str]:
    """The real folder, and the pattern below it."""
    if params.pattern in (".", "..", "~") or params.pattern.endswith("/"):
        raise ToolError(f"{params.pattern} names a folder. {_below(params.pattern.rstrip('/') or '/')}")
    base, pattern = split_base(params.pattern)
    path = base if base.startswith("~") or not base else os.path.join(params.path, base)  # noqa: PTH118 (a plain string)
    return context.resolve(path or params.path), pattern


def _below(folder: str) -> str:
    top = folder.removesuffix("/")
    return f"For the files in it use {top}/*, for those at any depth {top}/**."


def _output(params: GlobParams, context: ToolContext, folder: Path, found: list[str], notes: list[str]) -> ToolOutput:
    if not found:
        shown = show_name(params.pattern)
        text = f"No file matches {shown}{where(context, folder, params.path)}."
        if (folder / split_base(params.pattern)[1].removeprefix("/")).is_dir():
            text += f" {shown} is a folder. {_below(shown)}"
        elif asks_for_hidden(params.pattern):
            text += " Of files that git ignores only those of a folder given as `path` are listed."
        else:
            text += " Hidden files are listed if the pattern has a leading dot, files that git ignores if `path` is their folder."
    else:
        text = "\n".join(context.workspace.display(folder / path) for path in found[:MAX_SHOWN])
        if len(found) > MAX_SHOWN:
            notes.insert(0, f"the newest {MAX_SHOWN} of {len(found):,} files; narrow the pattern for others")
    if notes:
        text += f"\n[{'; '.join(notes)}]"
    return ToolOutput(text, TextDetails(f"{len(found):,} file{'' if len(found) == 1 else 's'}"))

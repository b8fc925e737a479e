"""The `grep` tool: lines, files or counts by regular expression."""

import asyncio
import os
import re
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from agent.files import describe_binary
from agent.permissions.path_text import os_error, printable, show_name
from agent.permissions.sensitive import NAME_GLOBS
from agent.permissions.workspace import OpenedFile, Workspace
from agent.tools.base import Access, ToolContext, ToolError, ToolOutput, load_description
from agent.tools.details import TextDetails
from agent.tools.glob import NameCollector, Visible, left_out_note, newest_first, where
from agent.tools.glob_match import PathTest, asks_for_hidden, compile_glob, name_globs
from agent.tools.search import (
    MAX_FILE_BYTES,
    MAX_NAMED_FILE_BYTES,
    TIME_LIMIT_S,
    Feed,
    Outcome,
    Query,
    find_rg,
    run_query,
)
from agent.tools.search_process import Place

DEFAULT_LIMIT = 200
MAX_LIMIT = 2_000
MAX_CONTEXT = 20
_MAX_BYTES = 128 * 1024
_SNIFFED_BYTES = 8_192


class GrepParams(Struct, frozen=True):
    pattern: str
    path: str = "."
    glob: str | None = None
    context: Annotated[int, Meta(ge=0)] = 0
    ignore_case: bool = False
    output: Literal["content", "files", "count"] = "content"
    limit: Annotated[int, Meta(ge=1)] = DEFAULT_LIMIT


class Grep:
    name: ClassVar[str] = "grep"
    params: ClassVar[type[Struct]] = GrepParams
    description: ClassVar[str] = load_description(__file__)

    def __init__(self, rg: Path | None = None, *, without_rg: bool = False, time_limit_s: float = TIME_LIMIT_S) -> None:
        self._rg = None if without_rg else rg or find_rg()
        self._time_limit_s = time_limit_s

    def access(self, params: GrepParams, context: ToolContext) -> Access:
        real = context.resolve(params.path)
        _wanted(params)
        if not real.is_dir():
            context.workspace.check_regular(real)
        return Access("read", show_name(params.pattern) + where(context, real, params.path), (real,))

    async def run(self, params: GrepParams, context: ToolContext) -> ToolOutput:
        workspace = context.workspace
        real = context.resolve(params.path)
        if real.is_dir():
            with workspace.folder(real) as fd:
                return await self._search(params, context, real, Place(real, fd), None)
        with workspace.folder(real.parent) as fd, workspace.open_file(real) as opened:
            _check_text(opened, workspace.display(real), MAX_NAMED_FILE_BYTES if self._rg else MAX_FILE_BYTES)
            return await self._search(params, context, real, Place(real.parent, fd, opened.fd), real.name)

    async def _search(
        self, params: GrepParams, context: ToolContext, real: Path, place: Place, name: str | None
    ) -> ToolOutput:
        """`name`: the file to search; None: the folder."""
        wanted, names, hidden = _wanted(params) if name is None else (None, (), False)
        secrets = Secrets(context.workspace, real, wanted)
        if name is None:
            wanted = Visible(context.workspace, real, wanted)
        query = Query(
            params.output,
            params.pattern,
            name is not None,
            hidden,
            min(params.context, MAX_CONTEXT),
            params.ignore_case,
            names,
        )
        search = _Search(params, context, place.folder, real)
        beside = None if name is not None else self._count_left_out(secrets, place, hidden)
        if params.output == "files":
            files = NameCollector(wanted or (lambda path: True))
            outcome, search.left_out = await self._run(query, place, files.feed, beside)
            found = await newest_first(files.found, place.folder_fd) if name is None else [name] * len(files.found)
            return search.files(found, outcome)
        records = _Records(wanted, min(params.limit, MAX_LIMIT), counting=params.output == "count", name=name)
        outcome, search.left_out = await self._run(query, place, records.feed, beside)
        return search.lines(records, outcome)

    async def _run(
        self, query: Query, place: Place, feed: Feed, beside: Coroutine[None, None, int] | None
    ) -> tuple[Outcome, int]:
        """The search, and side by side with it the counting."""
        counting = None if beside is None else asyncio.ensure_future(beside)
        if counting is not None:  # where both fail, one is told
            counting.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            outcome = await run_query(query, place, self._rg, feed, self._time_limit_s)
            return outcome, 0 if counting is None else await counting
        finally:
            if counting is not None and not counting.done():
                counting.cancel()
                await asyncio.wait([counting])

    async def _count_left_out(self, secrets: "Secrets", place: Place, hidden: bool) -> int:
        """How many files were not searched since they may hold secrets. Whether they match must make no difference: by
        that, one expression after the other would spell out what they hold."""
        names = NameCollector(secrets)
        query = Query("names", hidden=hidden, name_globs=NAME_GLOBS)
        await run_query(query, place, self._rg, names.feed, self._time_limit_s)
        return len(names.found)


class Secrets:
    """Tests paths: those that would be searched if they held no secrets."""

    def __init__(self, workspace: Workspace, folder: Path, wanted: PathTest | None) -> None:
        self._workspace = workspace
        self._folder = folder
        self._wanted = wanted

    def __call__(self, path: str) -> bool:
        real = self._folder / path
        closed = self._workspace.is_closed is not None and self._workspace.is_closed(real)
        return self._workspace.is_sensitive(real) and not closed and (self._wanted is None or self._wanted(path))


def _wanted(params: GrepParams) -> tuple[PathTest | None, tuple[str, ...], bool]:
    """The test of paths, a coarser one that the search program knows, and whether hidden files count."""
    if not params.pattern or "\0" in params.pattern:
        raise ToolError("The pattern is empty or holds a NUL character. Give a regular expression.")
    if not params.glob:
        return None, (), False
    if params.glob.startswith("!"):
        excluded = compile_glob(params.glob[1:])
        return (lambda path: not excluded(path)), (), False
    return compile_glob(params.glob), name_globs(params.glob), asks_for_hidden(params.glob)


def _check_text(opened: OpenedFile, shown: str, max_bytes: int) -> None:
    try:
        head = os.pread(opened.fd, _SNIFFED_BYTES, 0)
    except OSError as error:
        raise os_error(error, shown, "read") from None
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ToolError(f"{shown} is {describe_binary(head, opened.stat.st_size)}; only text is searched.")
    if opened.stat.st_size > max_bytes:
        size = f"{opened.stat.st_size:,} bytes, more than {max_bytes:,}"
        raise ToolError(f"{shown} is too large ({size}). Search it with a command (grep, tail).")


class _Records:
    """Takes matching lines or counts apart (format: see `run_query`) and keeps them by file, up to the limit."""

    _NOT_A_RECORD = re.compile(
        rb"--\r?\n|(?:\./|<stdin>)[^\0\n]*: (?:binary file matches|WARNING: stopped searching binary file)[^\n]*\n"
    )

    def __init__(self, wanted: PathTest | None, limit: int, *, counting: bool, name: str | None) -> None:
        self.by_file: dict[str, list[tuple[int, str, str]]] = {}
        """Line number, ":" (match) or "-" (context), and line; of a count the number, ":" and ""."""
        self.matches = 0
        self.full = False
        self._wanted = wanted
        self._limit = limit
        self._counting = counting
        self._name = name
        self._room = _MAX_BYTES
        self._buffer = b""

    def feed(self, piece: bytes) -> bool:
        buffer = self._buffer + piece
        start = 0
        while not self.full:
            if skipped := self._NOT_A_RECORD.match(buffer, start):
                start = skipped.end()
                continue
            name_end = buffer.find(b"\0", start)
            line_end = buffer.find(b"\n", name_end) if name_end >= 0 else -1
            if line_end < 0:
                break
            self._add(os.fsdecode(buffer[start:name_end].removeprefix(b"./")), buffer[name_end + 1 : line_end])
            start = line_end + 1
        self._buffer = buffer[start:]
        return not self.full

    def _add(self, path: str, record: bytes) -> None:
        path = self._name or path
        if self._wanted is not None and not self._wanted(path):
            return
        found = re.match(rb"(\d+)([:-]?)", record)
        if found is None:
            return
        mark = ":" if self._counting else found[2].decode()
        if mark == ":" and (len(self.by_file) if self._counting else self.matches) == self._limit:
            self.full = True
            return
        line = printable(record[found.end() :].decode("utf-8", "surrogateescape")).rstrip("\r").replace("\0", "\\0")
        self._room -= len(line) + (0 if path in self.by_file else len(path))
        if self._room < 0:
            self.full = True
            return
        self.by_file.setdefault(path, []).append((int(found[1]), mark, line))
        self.matches += int(found[1]) if self._counting else mark == ":"


class _Search:
    """Turns what was found into text."""

    def __init__(self, params: GrepParams, context: ToolContext, folder: Path, real: Path) -> None:
        self._params = params
        self._context = context
        self._folder = folder
        self._real = real
        self._limit = min(params.limit, MAX_LIMIT)
        self.left_out = 0
        """Files that were not searched since they may hold secrets."""

    def files(self, paths: list[str], outcome: Outcome) -> ToolOutput:
        if not paths:
            return self._nothing(outcome)
        lines = [self._shown(path) for path in paths[: self._limit]]
        notes = [f"the newest {self._limit} of {len(paths):,} files"] if len(paths) > self._limit else []
        return self._output(lines, notes, outcome, _plural(len(paths), "file"))

    def lines(self, records: _Records, outcome: Outcome) -> ToolOutput:
        if not records.by_file:
            return self._nothing(outcome)
        lines: list[str] = []
        for path, found in records.by_file.items():
            if self._params.output == "count":
                lines.append(f"{self._shown(path)}:{found[0][0]}")
                continue
            if lines:
                lines.append("")
            lines.append(self._shown(path))
            for place, (number, mark, line) in enumerate(found):
                if self._params.context and place and number > found[place - 1][0] + 1:
                    lines.append("--")
                lines.append(f"{number}{mark}{line}")
        summary = f"{_plural(records.matches, 'match', 'matches')} in {_plural(len(records.by_file), 'file')}"
        notes = ["there are more; narrow path, glob or pattern, or raise limit"] if records.full else []
        if self._params.output == "count":
            notes.insert(0, f"{'at least ' if records.full else ''}{records.matches:,} in all")
        return self._output(lines, notes, outcome, summary)

    def _shown(self, path: str) -> str:
        return self._context.workspace.display(self._folder / path)

    def _nothing(self, outcome: Outcome) -> ToolOutput:
        place = where(self._context, self._real, self._params.path)
        if self._params.glob and self._real.is_dir():
            place += f", files {show_name(self._params.glob)}"
        text = f"No match for {show_name(self._params.pattern)}{place}."
        if "\\n" in self._params.pattern:
            text += r" Lines are searched one by one, so `\n` matches nothing."
        if self._real.is_dir():
            text += " Hidden, binary and git-ignored files were not searched: give such a file or folder as `path`."
        return self._output([text], [], outcome, "no match")

    def _output(self, lines: list[str], notes: list[str], outcome: Outcome, summary: str) -> ToolOutput:
        if outcome.problem:
            notes.append(f"{outcome.problem}; there may be more. Narrow path, glob or pattern")
        if self.left_out:
            notes.append(left_out_note(self.left_out))
        if notes:
            lines.append(f"[{'; '.join(notes)}]")
        return ToolOutput("\n".join(lines), TextDetails(summary))


def _plural(count: int, word: str, words: str = "") -> str:
    return f"{count:,} {word if count == 1 else words or word + 's'}"

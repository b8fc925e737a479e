"""Runs a file search as a child process: ripgrep where there is one, else `search_main.py`, with the same output.

Both are bounded in time and output and can be killed at any moment, so no pattern and no tree can hold a turn up. The
child starts in a folder that was opened without following links, leaves it by no link that comes up meanwhile (see
search_reach.py), knows none of our environment, and has no input.
"""

import asyncio
import functools
import json
import os
import re
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct

from agent.tools.base import ToolError
from agent.tools.search_process import CHUNK_BYTES, Output, Place, start

TIME_LIMIT_S = 10.0
MAX_COLUMNS = 500
MAX_FILE_BYTES = 64 * 1024 * 1024
"""Larger files are not searched unless they are named, and then only by ripgrep."""
MAX_NAMED_FILE_BYTES = 512 * 1024 * 1024
"""A search may hold a whole line in memory."""
_SYSTEM_PLACES = ("/usr/bin/rg", "/usr/local/bin/rg", "/opt/homebrew/bin/rg", "/opt/local/bin/rg")
_UNKNOWN_FLAG = re.compile(r"unrecognized flag|unexpected argument|Found argument")
_SPECIAL = re.compile(r"([.^$*+?{}\[\]\\|()])")

Mode = Literal["names", "content", "files", "count"]
Feed = Callable[[bytes], bool]


class Query(Struct, frozen=True):
    """What to search in the folder the child starts in."""

    mode: Mode
    """`names`: all files. The others: matching lines, files with a match, number of matching lines a file."""
    pattern: str = ""
    """A regular expression."""
    of_input: bool = False
    """Search the child's input, an open file, instead of the folder."""
    hidden: bool = False
    context: int = 0
    ignore_case: bool = False
    name_globs: tuple[str, ...] = ()
    """Only files whose name matches one of these, of letters, `-_.*?`; (): all."""
    max_depth: int | None = None
    """1: only files of the folder itself; None: any depth."""


class Outcome(Struct, frozen=True):
    enough: bool = False
    """`feed` stopped it."""
    problem: str = ""
    """Why something may be missing otherwise; "" if nothing is."""


@functools.cache
def find_rg() -> Path | None:
    """ripgrep of claw's own environment, or of a fixed place of the system; never by PATH or the current folder."""
    own = Path(sysconfig.get_path("scripts")) / "rg"
    return next((place for place in (own, *map(Path, _SYSTEM_PLACES)) if os.access(place, os.X_OK)), None)


async def run_query(
    query: Query, place: Place, rg: Path | None, feed: Feed, time_limit_s: float = TIME_LIMIT_S
) -> Outcome:
    """Search and give `feed` the raw output in pieces, until it returns False (enough) or time is up.

    `names` and `files` give paths, each followed by NUL; `count` gives path, NUL, number, newline; `content` gives path,
    NUL, line number, `:` (match) or `-` (context), line, newline, with `--` lines between groups. Paths begin with `./`; the
    input's is `<stdin>`.

    Raises:
        ToolError: the pattern is not valid, or nothing can be run.
    """
    confined = not query.of_input and sys.platform.startswith("linux")
    if rg is not None and (not confined or _can_confine()):
        outcome = await _run(_rg_argv(rg, query), query.pattern, place, feed, time_limit_s, confined)
        if outcome is not None:
            return outcome
    outcome = await _run(_python_argv(query), query.pattern, place, feed, time_limit_s)
    if outcome is None:
        raise ToolError("The search could not be started. Use a command (find, grep) instead.")
    return outcome


def _can_confine() -> bool:
    from agent.landlock import has_landlock

    return has_landlock()


def _rg_argv(rg: Path, query: Query) -> list[str]:
    argv = [str(rg), "--no-config", "--color=never", "--no-messages", "--no-require-git", "--sort=path", "--null"]
    argv += ["--glob=!.git", "--crlf", "--engine=auto"]  # a glob that only excludes does not switch ignore files off
    if query.hidden:
        argv.append("--hidden")
    if query.max_depth is not None:
        argv.append(f"--max-depth={query.max_depth}")
    if not query.of_input:
        argv.append(f"--max-filesize={MAX_FILE_BYTES}")
    if query.name_globs:
        argv += [f"--type-add=wanted:{name}" for name in query.name_globs]
        argv.append("--type=wanted")  # unlike --glob, a type respects ignore files
    if query.ignore_case:
        argv.append("--ignore-case")
    how = {
        "names": ["--files"],
        "files": ["--files-with-matches"],
        "count": ["--count", "--with-filename"],
        "content": ["--no-heading", "--with-filename", "--line-number", f"--context={query.context}"],
    }[query.mode]
    if query.mode == "content":
        how += [f"--max-columns={MAX_COLUMNS}", "--max-columns-preview"]
    if query.mode != "names":
        how.append(f"--regexp={query.pattern}")
    return [*argv, *how, "--", "-" if query.of_input else "./"]


def _python_argv(query: Query) -> list[str]:
    main = Path(__file__).with_name("search_main.py")
    limits = {"max_columns": MAX_COLUMNS, "max_file_bytes": MAX_FILE_BYTES}
    values = {name: getattr(query, name) for name in query.__struct_fields__} | limits
    return [sys.executable, "-I", "-X", "utf8", str(main), json.dumps(values)]


async def _run(
    argv: list[str], pattern: str, place: Place, feed: Feed, time_limit_s: float, confined: bool = False
) -> Outcome | None:
    """None: it cannot be run, or is a ripgrep too old for our flags."""
    try:
        process = start(argv, place, confined)
    except OSError:
        return None
    outcome = Outcome()
    async with Output(process) as output:
        try:
            async with asyncio.timeout(time_limit_s):
                while piece := await output.stdout.read(CHUNK_BYTES):
                    if not feed(piece):
                        outcome = Outcome(enough=True)
                        break
                else:
                    await output.ended()
        except TimeoutError:
            outcome = Outcome(problem=f"the search was stopped after {time_limit_s:.0f} s")
    text = output.errors.decode("utf-8", "replace")
    if outcome != Outcome() or process.returncode in (0, 1):
        return outcome
    if _UNKNOWN_FLAG.search(text):
        return None
    if text.strip():
        raise _pattern_error(pattern, text)
    return Outcome(problem="some files or folders could not be read")


def _pattern_error(pattern: str, text: str) -> ToolError:
    detail = text.split("~~~\n", 1)[1].split("\n~~~", 1)[0] if "~~~\n" in text else text.split("\n\n", 1)[0]
    literal = _SPECIAL.sub(r"\\\1", pattern)
    remedy = f"To search for it literally, use: {literal}" if literal != pattern else "Lines are searched one by one."
    return ToolError(
        f"The search failed; the pattern may not be a valid regular expression.\n{detail[:800].strip()}\n{remedy}"
    )

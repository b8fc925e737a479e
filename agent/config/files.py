"""Reads one config.toml: bytes to a table and the lines of its keys, or a problem that says where it is broken.

A file is never changed here, and never trusted to be a file: devices, FIFOs and links out of the project are refused.
"""

import re
import stat
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from agent.config.key_paths import KeyPath, format_key
from agent.config.paths import PROJECT_FOLDER, Paths
from agent.config.problems import Problem
from agent.config.reading import UnreadableError, read_small
from agent.config.schema import Layer

MAX_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_TWICE = re.compile(r"Cannot declare \((.*)\) twice|Cannot mutate immutable namespace \((.*)\)")


class ConfigFile(Struct, frozen=True):
    """A file that configuration is read from, whether or not it exists."""

    layer: Layer
    path: Path
    within: Path | None = None
    """The project, which its files must really lie in."""


class Parsed(Struct, frozen=True):
    file: ConfigFile
    exists: bool = True
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    lines: dict[KeyPath, int] = msgspec.field(default_factory=dict)
    problem: Problem | None = None
    damaged: bool = False
    """There is something, and it could not be read: what it forbids is unknown."""


def config_files(paths: Paths, project: Path) -> tuple[ConfigFile, ...]:
    """The files of all layers, the highest first. `project` is a real path."""
    folder = project / PROJECT_FOLDER
    return (
        ConfigFile("managed", paths.managed_config_file),
        ConfigFile("local", folder / "config.local.toml", project),
        ConfigFile("project", folder / "config.toml", project),
        ConfigFile("user", paths.config_file),
    )


def read_config(file: ConfigFile) -> Parsed:
    """Read and parse one file. A missing one is empty; every other trouble is in `problem`."""
    try:
        small = read_small(file.path, MAX_BYTES + 1, within=file.within)
    except UnreadableError as error:
        return _damaged(file, f"cannot be read: {error}", remedy="move it away or replace it by an ordinary file")
    if small is None:
        return Parsed(file, exists=False)
    if file.layer in ("managed", "user") and small.mode & stat.S_IWOTH:
        return _damaged(file, "anyone may write to it, so it is not applied", remedy=f"run: chmod o-w {file.path}")
    if len(small.data) > MAX_BYTES:
        return _damaged(file, "is larger than 1 MiB, so it is not read", remedy="make it smaller")
    bom = None
    data = small.data
    if data.startswith(_BOM):
        data = data[len(_BOM) :]
        bom = Problem("error", "begins with a byte order mark", str(file.path), 1, 1, remedy="save it without one")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return _damaged(file, "is not UTF-8 text", line=line, remedy="save it as UTF-8 without a byte order mark")
    return _parse(file, text.replace("\r\n", "\n"), bom)


def _parse(file: ConfigFile, text: str, bom: Problem | None) -> Parsed:
    # A start without any configuration does without these.
    import tomllib

    from agent.config.lines import MAX_PARTS, key_lines, over_dotted_line

    if (line := over_dotted_line(text)) is not None:
        return _damaged(file, f"a key has more than {MAX_PARTS} parts", line=line)
    try:
        data = tomllib.loads(text)
    except RecursionError:
        return _damaged(file, "values are nested too deeply")
    except ValueError as error:
        return _syntax_error(file, text, str(error))
    return Parsed(file, data=data, lines=key_lines(text), problem=bom)


def _syntax_error(file: ConfigFile, text: str, message: str) -> Parsed:
    from agent.config.lines import key_lines

    line, column = text.count("\n") + 1, None
    if (place := _PLACE.search(message)) is not None:
        message = message[: place.start()]
        if place[1]:
            line, column = int(place[1]), int(place[2])
    first = ""
    if (twice := _TWICE.search(message)) is not None:
        path = tuple(re.findall(r"'((?:[^'\\]|\\.)*)'", twice[1] or twice[2]))
        message = f"table [{format_key(path)}] is declared twice"
        if (earlier := key_lines(text).get(path)) is not None:
            first = f"it stands first on line {earlier}; put both into one"
    elif message == "Cannot overwrite a value":
        message = "the key is set twice"
    else:
        message = f"not valid TOML: {message}"
    return _damaged(file, message, line=line, column=column, remedy=first)


def _damaged(
    file: ConfigFile, message: str, *, line: int | None = None, column: int | None = None, remedy: str = ""
) -> Parsed:
    problem = Problem("error", message, str(file.path), line, column, remedy=remedy)
    return Parsed(file, problem=problem, damaged=True)

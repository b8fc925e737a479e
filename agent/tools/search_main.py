"""The search of files where there is no ripgrep: a program of its own, so that it can be killed in any regular expression.

It takes its query as JSON, searches the current folder, and prints what ripgrep would print (see search.py). It knows
`.gitignore` and `.ignore` files here and up to the repository's root, goes down by descriptors, and follows no links.
"""

import fnmatch
import json
import os
import re
import resource
import signal
import stat
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pathspec import GitIgnoreSpec

_IGNORE_FILES = (".gitignore", ".ignore")
_MOST_SPEC_BYTES = 1 << 20
_DEEPEST = 4_096
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_ENTER = _READ | os.O_DIRECTORY
_Specs = list[tuple[str, GitIgnoreSpec]]
"""Outermost first, each with where it stands: "a/" below this folder, or "^a/b/", this folder seen from one above."""


def main() -> int:
    """Exit codes as ripgrep's: 0 found, 1 nothing, 2 error."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    query: dict[str, Any] = json.loads(sys.argv[1])
    try:
        pattern = re.compile(query["pattern"], re.IGNORECASE if query["ignore_case"] else 0)
    except re.error as error:
        sys.stderr.write(f"regex parse error: {error}\n")
        return 2
    if query["of_input"]:
        lines = _lines(sys.stdin.buffer.read())
        output = _search(lines, pattern, query, b"<stdin>\0") if lines is not None else b""
        sys.stdout.buffer.write(output)
        return 0 if output else 1
    return 0 if _search_folder(pattern, query) else 1


def _search_folder(pattern: re.Pattern[str], query: dict[str, Any]) -> bool:
    """Whether something was found."""
    wanted = re.compile("|".join(map(fnmatch.translate, query["name_globs"])))
    found = False
    for file in _walk(query["hidden"], query["max_depth"] or sys.maxsize):
        if not wanted.match(file.name):
            continue
        shown = os.fsencode(f"./{file.path}") + b"\0"
        if query["mode"] == "names":
            output = shown
        else:
            lines = _text_lines(file, query["max_file_bytes"])
            output = _search(lines, pattern, query, shown) if lines is not None else b""
            if output:
                sys.stdout.buffer.write(output)
                sys.stdout.buffer.flush()
                output, found = b"", True
        if output:
            found = True
            sys.stdout.buffer.write(output)
    sys.stdout.buffer.flush()
    return found


class _File(NamedTuple):
    path: str
    folder: int
    """The descriptor of its folder, open until the next file is asked for."""
    name: str


class _Folder:
    """One open folder on the way down. Its name is never looked up again: what is swapped for a link is not entered."""

    def __init__(self, path: str, descriptor: int, specs: _Specs) -> None:
        self.path = path
        """Of what lies in it, with a slash at the end; "" for the top."""
        self.descriptor = descriptor
        self.specs = specs + _specs_in(path, descriptor)
        with os.scandir(descriptor) as listing:
            self.entries = iter(sorted(listing, key=lambda entry: entry.name))

    @classmethod
    def enter(cls, above: "_Folder", name: str) -> "_Folder | None":
        """None: it cannot be listed, or is no folder by now."""
        try:
            descriptor = os.open(name, _ENTER, dir_fd=above.descriptor)
        except OSError:
            return None
        try:
            return cls(f"{above.path}{name}/", descriptor, above.specs)
        except OSError:
            os.close(descriptor)
            return None


def _walk(hidden: bool, most_depth: int) -> Iterator[_File]:
    """The files beneath the current folder that are not ignored, in order of their paths."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit < _DEEPEST < most or most == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_DEEPEST, most))
    stack = [_Folder("", os.open(".", _ENTER), _outer_specs())]
    while stack:
        folder = stack[-1]
        entry = next(folder.entries, None)
        if entry is None:
            os.close(folder.descriptor)
            stack.pop()
            continue
        path = f"{folder.path}{entry.name}"
        if entry.name == ".git" or (entry.name.startswith(".") and not hidden) or entry.is_symlink():
            continue
        if entry.is_dir(follow_symlinks=False):
            inside = len(stack) < most_depth and not _is_ignored(path + "/", folder.specs)
            if inside and (entered := _Folder.enter(folder, entry.name)) is not None:
                stack.append(entered)
        elif entry.is_file(follow_symlinks=False) and not _is_ignored(path, folder.specs):
            yield _File(path, folder.descriptor, entry.name)


def _is_ignored(path: str, specs: _Specs) -> bool:
    """The innermost file that says something decides."""
    for prefix, spec in reversed(specs):
        relative = prefix[1:] + path if prefix.startswith("^") else path[len(prefix) :]
        verdict = spec.check_file(relative).include
        if verdict is not None:
            return bool(verdict)
    return False


def _specs_in(path: str, descriptor: int) -> _Specs:
    specs = (_read_spec(name, descriptor) for name in _IGNORE_FILES)
    return [(path, spec) for spec in specs if spec is not None]


def _outer_specs() -> _Specs:
    """Those of the folders above, outermost first, up to where a repository begins; none if none does."""
    here = Path.cwd()
    found: _Specs = []
    for parent in (here, *here.parents):
        if parent != here:
            inner = f"{here.relative_to(parent).as_posix()}/"
            specs = [spec for name in _IGNORE_FILES if (spec := _read_spec(str(parent / name))) is not None]
            # One that ignores this very folder has nothing to say: the folder was named.
            found[:0] = [(f"^{inner}", spec) for spec in specs if not spec.check_file(inner).include]
        if (parent / ".git").exists():
            return found
    return []


def _read_spec(path: str, folder: int | None = None) -> GitIgnoreSpec | None:
    try:
        data = _read(path, folder, _MOST_SPEC_BYTES)
        return None if data is None else GitIgnoreSpec.from_lines(data.decode("utf-8", "replace").splitlines())
    except (OSError, ValueError):
        return None


def _text_lines(file: _File, max_bytes: int) -> list[str] | None:
    """None: binary, too large, unreadable or not a regular file."""
    try:
        data = _read(file.name, file.folder, max_bytes)
    except OSError:
        return None
    return None if data is None else _lines(data)


def _read(path: str, folder: int | None, max_bytes: int) -> bytes | None:
    """None: not a regular file, or one that is too large. Raises: OSError, also where the last name is a link."""
    with os.fdopen(os.open(path, _READ, dir_fd=folder), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
            return None
        data = file.read(max_bytes + 1)
        return data if len(data) <= max_bytes else None


def _lines(data: bytes) -> list[str] | None:
    """None: binary."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16", "replace")
    elif b"\0" in data:
        return None
    else:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _search(lines: list[str], pattern: re.Pattern[str], query: dict[str, Any], shown: bytes) -> bytes:
    matching = (number for number, line in enumerate(lines) if pattern.search(line))
    if query["mode"] == "files":
        return shown if next(matching, None) is not None else b""
    numbers = list(matching)
    if query["mode"] == "count":
        return shown + b"%d\n" % len(numbers) if numbers else b""
    output: deque[bytes] = deque()
    matched, context, last = set(numbers), query["context"], -1
    for number in numbers:
        first = max(number - context, last + 1)
        if context and first > last + 1 and last >= 0:
            output.append(b"--\n")
        for place in range(first, min(number + context + 1, len(lines))):
            mark = ":" if place in matched else "-"
            line = lines[place]
            if len(line) > query["max_columns"]:
                line = line[: query["max_columns"]] + " [... omitted end of long line]"
            output.append(shown + f"{place + 1}{mark}{line}\n".encode("utf-8", "surrogateescape"))
            last = place
    return b"".join(output)


if __name__ == "__main__":
    sys.exit(main())

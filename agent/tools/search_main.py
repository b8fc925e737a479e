"""The search of files where there is no ripgrep: a program of its own, so that it can be killed in any regular expression.

It takes its query as JSON, searches the current folder, and prints what ripgrep would print (see search.py). It knows
`.gitignore` and `.ignore` files here and up to the repository's root, and follows no links.
"""

import fnmatch
import json
import os
import re
import signal
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pathspec import GitIgnoreSpec

_IGNORE_FILES = (".gitignore", ".ignore")
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
    found = False
    for path in _files(query):
        shown = (os.fsencode(f"./{path}") if path else b"<stdin>") + b"\0"
        if query["mode"] == "names":
            found = True
            sys.stdout.buffer.write(shown)
            continue
        lines = _text_lines(path, query["max_file_bytes"]) if path else _lines(sys.stdin.buffer.read())
        if lines is not None and (output := _search(lines, pattern, query, shown)):
            found = True
            sys.stdout.buffer.write(output)
            sys.stdout.buffer.flush()
    sys.stdout.buffer.flush()
    return 0 if found else 1


def _files(query: dict[str, Any]) -> Iterator[str]:
    """Paths; "" is the input."""
    if query["of_input"]:
        yield ""
        return
    wanted = re.compile("|".join(map(fnmatch.translate, query["name_globs"])))
    for path in _walk("", _outer_specs(), query["hidden"], query["max_depth"] or sys.maxsize):
        if wanted.match(path.rsplit("/", 1)[-1]):
            yield path


def _walk(folder: str, specs: _Specs, hidden: bool, depth: int) -> Iterator[str]:
    specs = specs + _specs_in(folder)
    try:
        with os.scandir(folder or ".") as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = f"{folder}{entry.name}"
        if entry.name == ".git" or (entry.name.startswith(".") and not hidden) or entry.is_symlink():
            continue
        if entry.is_dir(follow_symlinks=False):
            if depth > 1 and not _is_ignored(path + "/", specs):
                yield from _walk(path + "/", specs, hidden, depth - 1)
        elif entry.is_file(follow_symlinks=False) and not _is_ignored(path, specs):
            yield path


def _is_ignored(path: str, specs: _Specs) -> bool:
    """The innermost file that says something decides."""
    for prefix, spec in reversed(specs):
        relative = prefix[1:] + path if prefix.startswith("^") else path[len(prefix) :]
        verdict = spec.check_file(relative).include
        if verdict is not None:
            return bool(verdict)
    return False


def _specs_in(folder: str) -> _Specs:
    specs = (_read_spec(Path(folder) / name) for name in _IGNORE_FILES)
    return [(folder, spec) for spec in specs if spec is not None]


def _outer_specs() -> _Specs:
    """Those of the folders above, outermost first, up to where a repository begins; none if none does."""
    here = Path.cwd()
    found: _Specs = []
    for parent in (here, *here.parents):
        if parent != here:
            inner = f"{here.relative_to(parent).as_posix()}/"
            specs = [spec for name in _IGNORE_FILES if (spec := _read_spec(parent / name)) is not None]
            # One that ignores this very folder has nothing to say: the folder was named.
            found[:0] = [(f"^{inner}", spec) for spec in specs if not spec.check_file(inner).include]
        if (parent / ".git").exists():
            return found
    return []


def _read_spec(path: Path) -> GitIgnoreSpec | None:
    try:
        if not path.is_file() or path.stat().st_size > 1 << 20:
            return None
        return GitIgnoreSpec.from_lines(path.read_text(encoding="utf-8", errors="replace").splitlines())
    except (OSError, ValueError):
        return None


def _text_lines(path: str, max_bytes: int) -> list[str] | None:
    """None: binary, too large, unreadable or not a regular file."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
            if os.fstat(file.fileno()).st_size > max_bytes:
                return None
            return _lines(file.read())
    except OSError:
        return None


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

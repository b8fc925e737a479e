"""What is attached again behind a compaction: recently read files first of all, later plan, skills, subagents.

A source gives `Attachment`s; here they are put in order, cut to their budgets and made reminders. Files are read again
from the disk, bounded and never through a link, and one that changed since the model saw it says so. Decisions: a file
the prefix holds as an instruction file is not attached; one that cannot be read is left out, since the record names it.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from agent.context.fence import fence
from agent.context.shorten import Count
from agent.encodings import decode, split_lines
from agent.permissions.opening import open_real
from agent.permissions.path_text import from_escaped, printable, show_name
from agent.transcript import Entry, FileFact, Reminder, Result, of_kinds
from agent.window import Window
from providers.types import TextBlock, ToolResultMessage

MOST_FILES = 5
MOST_TOKENS = 50_000
"""Of everything that is attached again."""
_CANDIDATES = 8
_MOST_FILE_BYTES = 4 * 1024 * 1024
_MOST_CHARS = 256 * 1024
_MOST_LINE_CHARS = 2_000
_LEAST_TOKENS = 60
_EACH = {"file": 5_000, "skill": 5_000}
_TOGETHER = {"file": 50_000, "skill": 25_000}
_OTHER_EACH = 10_000


class Attachment(Struct, frozen=True):
    """Something that should stand in the window behind a compaction."""

    kind: str
    """As in the reminder: "file", "plan", "skill", …"""
    name: str
    """A file's path, a skill's name."""
    text: str
    """Whole lines; what does not fit is cut off at the end."""
    priority: int = 0
    """The higher, the earlier; of the same priority in the order given."""
    note: str = ""
    """One sentence behind the name, for instance that the file changed."""


class RecentFile(Struct, frozen=True):
    """A file the model has seen, and what it was then."""

    path: str
    sha256: str


def recent_files(
    branch: Sequence[Entry], window: Window, first_kept: int, first_replaced: int = 0
) -> tuple[RecentFile, ...]:
    """The files touched last, newest first, that would not stand whole in what a compaction keeps.

    A few more than are attached, since some of them may not be readable.
    """
    newest: dict[str, FileFact] = {}
    for entry in of_kinds(branch, Result):
        if isinstance(entry.payload, Result):
            for fact in entry.payload.files:
                newest.pop(fact.path, None)
                newest[fact.path] = fact
    left_out = {file.path for file in window.prefix.instruction_files}
    left_out.update(standing_whole(branch, window, first_kept, first_replaced))
    wanted = [fact for path, fact in reversed(newest.items()) if path not in left_out]
    return tuple(RecentFile(fact.path, fact.sha256) for fact in wanted[:_CANDIDATES])


def standing_whole(branch: Sequence[Entry], window: Window, first_kept: int, first_replaced: int = 0) -> set[str]:
    """Paths of the files whose whole text stands in what a compaction keeps: read from end to end, or written."""
    shown = {
        keys[0]: "\n".join(block.text for block in message.blocks if isinstance(block, TextBlock))
        for keys, message in zip(window.keys, window.messages, strict=True)
        if keys and isinstance(message, ToolResultMessage) and (keys[0] >= first_kept or keys[0] < first_replaced)
    }
    return {
        fact.path
        for entry in branch
        if entry.key in shown and isinstance(entry.payload, Result)
        for fact in entry.payload.files
        if fact.change == "written" or _shows_whole(shown[entry.key], fact)
    }


def read_attachments(
    files: Iterable[RecentFile],
    is_closed: Callable[[Path], bool] | None = None,
    without_secrets: Callable[[str], str] = str,
) -> tuple[Attachment, ...]:
    """The files as they are now but for their secrets, five at most. Blocks: call it in a thread.

    Left out is what `is_closed` forbids, what is no regular text file any more, and what is larger than 4 MiB.
    """
    found: list[Attachment] = []
    for file in files:
        if len(found) == MOST_FILES:
            break
        path = Path(from_escaped(file.path) or file.path)
        if is_closed is not None and is_closed(path):
            continue
        if (data := _read(path)) is not None and (decoded := decode(data)) is not None:
            changed = hashlib.sha256(data).hexdigest() != file.sha256
            note = "It changed since you read it, so read it again before you write it." if changed else ""
            found.append(Attachment("file", file.path, _numbered(decoded[0], without_secrets), note=note))
    return tuple(found)


def reattached(
    attachments: Iterable[Attachment], of: int, most_tokens: int, count: Count, without: Iterable[str] = ()
) -> tuple[Reminder, ...]:
    """The reminders of the compaction `of`, within `most_tokens` together; files whose paths are in `without` left out."""
    left = min(MOST_TOKENS, most_tokens)
    by_kind = dict(_TOGETHER)
    standing = set(without)
    files = 0
    reminders: list[Reminder] = []
    for item in sorted(attachments, key=lambda item: -item.priority):
        if item.kind == "file" and (item.name in standing or files == MOST_FILES):
            continue
        budget = min(left, by_kind.get(item.kind, left), _EACH.get(item.kind, _OTHER_EACH))
        text = _fitted(item, budget, count)
        if not text:
            continue
        size = count(text) + _LEAST_TOKENS // 4
        left -= size
        if item.kind in by_kind:
            by_kind[item.kind] -= size
        files += item.kind == "file"
        reminders.append(Reminder(item.kind, text, of))
    return tuple(reminders)


# --------------------------------------------------------------------------- texts


def _fitted(item: Attachment, budget: int, count: Count) -> str:
    """The attachment's text in at most `budget` tokens, or nothing if that is too little to be of use."""
    title = _title(item)
    room = budget - count(title) - _LEAST_TOKENS // 2
    if room < _LEAST_TOKENS:
        return ""
    lines = item.text.split("\n")
    kept = _lines_that_fit(lines, room, count)
    if kept == len(lines):
        return f"{title}\n{fence(item.text)}"
    rest = "go on with `read`" if item.kind == "file" else "the rest is left out"
    shown = fence("\n".join(lines[:kept]))
    return f"{title}\n{shown}\n[Cut here after {kept:,} lines; {rest}.]" if kept else ""


def _title(item: Attachment) -> str:
    if item.kind != "file":
        return " ".join(part for part in (item.name, item.note) if part)
    return " ".join(
        part for part in (f"{show_name(item.name)}, as it stood when this summary was made.", item.note) if part
    )


def _lines_that_fit(lines: Sequence[str], room: int, count: Count) -> int:
    """How many leading lines have at most `room` tokens together."""
    if count("\n".join(lines)) <= room:
        return len(lines)
    low, high = 0, len(lines) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if count("\n".join(lines[:middle])) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _numbered(text: str, without_secrets: Callable[[str], str]) -> str:
    """The first part of a file with line numbers, as `read` shows it."""
    shown = printable(without_secrets(text[:_MOST_CHARS])).replace("\0", "\\0")
    lines, _ = split_lines(shown)
    if lines[-1] == "" or len(text) > _MOST_CHARS:
        lines = lines[:-1]
    short = (line if len(line) <= _MOST_LINE_CHARS else f"{line[:_MOST_LINE_CHARS]} …" for line in lines)
    numbered = "\n".join(f"{number}\t{line}" for number, line in enumerate(short, 1))
    return f"{numbered}\n… (the file goes on)" if len(text) > _MOST_CHARS else numbered or "(empty)"


def _shows_whole(text: str, fact: FileFact) -> bool:
    """Whether a result's text, as `read` writes it, has the file from its first line to its last."""
    if not fact.whole or fact.change != "read":
        return False
    if not fact.ranges:
        return text.endswith("is empty]")
    first, last = fact.ranges[0]
    return text.startswith(f"{first}\t") and (first == last or f"\n{last}\t" in text)


def _read(path: Path) -> bytes | None:
    """The bytes of a regular file of at most 4 MiB; never through a link, never waiting."""
    try:
        descriptor = open_real(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_FILE_BYTES:
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(_MOST_FILE_BYTES + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return data if len(data) <= _MOST_FILE_BYTES else None

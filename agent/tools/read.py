"""The `read` tool: a window of a text file with line numbers, in bounded memory whatever the file is; of a notebook its cells;
or an image.

Of a file only the window is kept. Its hash, and with it the fact that later edits are checked against, is taken up to
64 MiB. A whole file that stands word for word in the model's window is not sent a second time; the answer names the entry
that shows it. A text shorter than that answer is sent.
"""

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta, Struct
from msgspec.structs import replace

from agent.leftover import cut_off, find_leftover
from agent.permissions.path_text import path_key, printable, show_name
from agent.tools.base import Access, ToolContext, ToolError, ToolOutput, load_description
from agent.tools.blocking import in_thread
from agent.tools.details import TextDetails
from agent.tools.file_lines import FileLines, Wanted, read_lines
from agent.tools.read_image import is_image, read_image
from agent.tools.read_notebook import Notebook, is_notebook, pictures_shown, read_notebook
from agent.transcript import FileFact

MAX_LINES = 2_000
MAX_OUTPUT_BYTES = 256 * 1024
MAX_LINE_CHARS = 2_000
_MAX_CUT_NAMED = 10


class ReadParams(Struct, frozen=True):
    path: str
    offset: Annotated[int, Meta(ge=1)] = 1
    limit: Annotated[int, Meta(ge=1)] = MAX_LINES


class Read:
    name: ClassVar[str] = "read"
    params: ClassVar[type[Struct]] = ReadParams
    description: ClassVar[str] = load_description(__file__)

    def access(self, params: ReadParams, context: ToolContext) -> Access:
        real = context.resolve(params.path)
        context.workspace.check_regular(real)
        title = context.workspace.display(real)
        if params.limit < MAX_LINES:
            title += f" (lines {params.offset}-{params.offset + params.limit - 1})"
        elif params.offset > 1:
            title += f" (from line {params.offset})"
        return Access("read", title, (real,))

    async def run(self, params: ReadParams, context: ToolContext) -> ToolOutput:
        output = await in_thread(lambda stop: _read(params, context, stop))
        return _unless_unchanged(params, context, output)


def _read(params: ReadParams, context: ToolContext, stop: threading.Event) -> ToolOutput:
    real = context.resolve(params.path)
    shown = context.workspace.display(real)
    with context.workspace.open_file(real) as opened:
        if is_image(opened):
            return read_image(opened, shown, context.image_limits)
        notebook = read_notebook(opened, shown) if is_notebook(real) and opened.stat.st_size else ""
        if isinstance(notebook, Notebook):
            return _cells(notebook, params, real, shown, context)
        size_bytes = opened.stat.st_size
        wanted = Wanted(params.offset, min(params.limit, MAX_LINES), MAX_LINE_CHARS, MAX_OUTPUT_BYTES)
        lines = read_lines(opened, shown, wanted, stop)
    if lines.total == 0:
        output = f"[{shown} is empty]"
    elif not lines.lines:
        count = f"{lines.total:,} line{'' if lines.total == 1 else 's'}"
        raise ToolError(f"{shown} has {count}; offset {params.offset:,} is behind its end.")
    else:
        lines, output = _listing(lines, size_bytes)
    if notebook:
        output = f"{output}\n[{notebook}]"
    if lines.sha256 and (leftover := find_leftover(real, lines.sha256)):
        output = f"{output}\n[{cut_off(shown, show_name(leftover))}]"
    facts = (_fact(real, lines, context),) if lines.sha256 else ()
    shown_lines = f"{len(lines.lines):,} line{'' if len(lines.lines) == 1 else 's'}"
    return ToolOutput(output, TextDetails(shown_lines), files=facts)


def _cells(notebook: Notebook, params: ReadParams, real: Path, shown: str, context: ToolContext) -> ToolOutput:
    """A window of a notebook's view, and its pictures. The model has not seen the file's own text by that."""
    total = len(notebook.lines)
    window = notebook.lines[params.offset - 1 : params.offset - 1 + min(params.limit, MAX_LINES)]
    if not window:
        raise ToolError(f"The view of {shown} has {total:,} lines; offset {params.offset:,} is behind its end.")
    cut = frozenset(number for number, line in enumerate(window, params.offset) if len(line) > MAX_LINE_CHARS)
    kept = tuple(line[:MAX_LINE_CHARS] for line in window)
    lines, output = _listing(FileLines(params.offset, kept, cut, total, "UTF-8", notebook.sha256), 0)
    last = params.offset + len(lines.lines) - 1
    images, note = pictures_shown(notebook, params.offset, last, shown, context.image_limits)
    text = "\n".join((output, *(image.caption.text for image in images), *([f"[{note}]"] if note else [])))
    fact = FileFact(path_key(real), notebook.sha256)
    before = context.known_files.get(fact.path)
    if before is not None and before.sha256 == fact.sha256:
        fact = replace(fact, ranges=before.ranges, whole=before.whole)
    count = f"{notebook.cells:,} cell{'' if notebook.cells == 1 else 's'}"
    blocks, blobs = tuple(image.block for image in images), tuple(image.blob for image in images)
    return ToolOutput(text, TextDetails(count), blocks, blobs, (fact,))


def _unless_unchanged(params: ReadParams, context: ToolContext, output: ToolOutput) -> ToolOutput:
    """A short answer instead of the text, where the model has the same whole file before it."""
    if params.offset != 1 or params.limit < MAX_LINES or not output.files:
        return output
    (fact,) = output.files
    key = context.shows_whole(fact.path, fact.sha256)
    if key is None:
        return output
    shown = context.workspace.display(context.resolve(params.path))
    answer = (
        f"[Unchanged since you read it (entry {key}): the whole of {shown} stands above. "
        "If it was cleared since, read it again.]"
    )
    if len(answer) >= len(output.text):
        return output
    return replace(output, text=answer, details=TextDetails("unchanged"))


def _listing(lines: FileLines, size_bytes: int) -> tuple[FileLines, str]:
    """What of the window fits, and its text."""
    shown: list[str] = []
    room = MAX_OUTPUT_BYTES
    for number, line in enumerate(lines.lines, lines.first):
        text = f"{number}\t{printable(line).replace(chr(0), chr(92) + '0')}"
        room -= len(text.encode()) + 1
        if room < 0:
            break
        shown.append(text)
    last = lines.first + len(shown) - 1
    notes: list[str] = []
    if lines.total is None:
        notes.append(f"lines {lines.first:,}-{last:,} of a file of {size_bytes:,} bytes; go on with offset {last + 1}")
    elif last < lines.total:
        notes.append(f"lines {lines.first:,}-{last:,} of {lines.total:,}; go on with offset {last + 1}")
    if cut := [number for number in lines.cut if number <= last]:
        named = ", ".join(map(str, cut[:_MAX_CUT_NAMED])) + (", …" if len(cut) > _MAX_CUT_NAMED else "")
        notes.append(f"cut at {MAX_LINE_CHARS:,} characters: line{'' if len(cut) == 1 else 's'} {named}")
    if lines.encoding != "UTF-8":
        notes.append(f"encoding: {lines.encoding}")
    if notes:
        shown.append(f"[{'; '.join(notes)}]")
    kept = FileLines(
        lines.first, lines.lines[: last - lines.first + 1], frozenset(cut), lines.total, lines.encoding, lines.sha256
    )
    return kept, "\n".join(shown)


def _fact(real: Path, lines: FileLines, context: ToolContext) -> FileFact:
    """What the model knows of the file now: what it saw before of the same content counts too."""
    key = path_key(real)
    ranges = _runs(number for number in range(lines.first, lines.first + len(lines.lines)) if number not in lines.cut)
    before = context.known_files.get(key)
    whole = lines.total == 0
    if before is not None and before.sha256 == lines.sha256:
        ranges = _merged([*before.ranges, *ranges])
        whole = whole or before.whole
    whole = whole or ranges == ((1, lines.total),)
    assert lines.sha256 is not None
    return FileFact(key, lines.sha256, ranges, whole, "read")


def _runs(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    return _merged([(number, number) for number in numbers])


def _merged(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Sorted, and joined where they touch."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)

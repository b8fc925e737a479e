"""The `write` tool: the whole content of a file.

Over an existing file the model must know what it replaces, unless that is empty. A file that was known and is gone is
made anew. Encoding, BOM and line ends of an existing file stay; a new file is UTF-8 with the line ends given.
"""

import threading
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from agent.atomic_write import check_writable
from agent.encodings import UTF8, newline_label, with_newlines
from agent.files import TextFile
from agent.permissions.path_text import path_key, show_name
from agent.tools.base import Access, ToolContext, ToolError, ToolOutput, load_description
from agent.tools.blocking import in_thread
from agent.tools.details import TextDetails
from agent.tools.file_change import (
    QUICK_BYTES,
    ChangePlans,
    FileChange,
    checked_size,
    encode_for,
    is_quick,
    load,
    make,
    plan,
)
from agent.tools.line_ends import PlainView, adapt
from agent.tools.unified_diff import diff_texts


class WriteParams(Struct, frozen=True):
    path: str
    content: str


class Write:
    name: ClassVar[str] = "write"
    params: ClassVar[type[Struct]] = WriteParams
    description: ClassVar[str] = load_description(__file__)

    def __init__(self) -> None:
        self._plans = ChangePlans()

    def access(self, params: WriteParams, context: ToolContext) -> Access:
        real, shown = _check(params, context)
        if len(params.content) > QUICK_BYTES or not is_quick(real, 1):
            return Access("edit", shown, (real,), diff=diff_texts("", params.content[:QUICK_BYTES]).diff)
        change = _plan(params, context, real)
        self._plans.keep(context, params, change)
        return change.access

    async def run(self, params: WriteParams, context: ToolContext) -> ToolOutput:
        planned = self._plans.take(context, params)

        def work(stop: threading.Event) -> ToolOutput:
            change = planned or _plan(params, context, _check(params, context)[0])
            if change.before_sha256 == change.fact.sha256:
                text = f"{change.shown} has exactly this content already; nothing was changed."
                return ToolOutput(text, TextDetails("unchanged"), files=(change.fact,))
            return make(change, stop)

        return await in_thread(work)


def _check(params: WriteParams, context: ToolContext) -> tuple[Path, str]:
    """The real path, and how it is shown, of a file that can be written as far as can be told without reading it."""
    if params.path.endswith("/"):
        raise ToolError(f"{show_name(params.path)} names a folder. Give the path of a file; its folders are made.")
    real = context.resolve(params.path)
    shown = context.workspace.display(real)
    if real.exists():
        context.workspace.check_regular(real)
    check_writable(real, shown)
    return real, shown


def _plan(params: WriteParams, context: ToolContext, real: Path) -> FileChange:
    shown = context.workspace.display(real)
    if not real.exists():
        data = checked_size(params.content.encode(UTF8.codec), shown)
        return plan(context, real, None, (params.content, data), "written")
    before = load(context, real)
    if before.size_bytes:
        _check_known(context, real, shown)
    content = params.content.removeprefix("\ufeff") if before.encoding.bom else params.content
    text = _with_line_ends(before, content)
    data = encode_for(before, text, [(content, "the new content")], shown)
    label = newline_label(before.text)
    note = f"The file's line ends were kept ({label})." if label != "LF" else ""
    return plan(context, real, before, (text, data), "written", note)


def _check_known(context: ToolContext, real: Path, shown: str) -> None:
    known = context.known_files.get(path_key(real))
    if known is None:
        raise ToolError(f"{shown} exists and was not read. Read it first, or use edit to change a part of it.")
    if not known.whole:
        raise ToolError(
            f"Not all of {shown} was read (what was redacted counts as not read). Read the rest first, or use edit to change "
            "a part of it."
        )


def _with_line_ends(before: TextFile, content: str) -> str:
    if "\r" not in before.text:
        return content.replace("\r\n", "\n") if before.text else content
    view = PlainView(before.text)
    return adapt(view, 0, len(view.plain), view.plain, with_newlines(content, "\n"))

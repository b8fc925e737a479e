"""The `edit` tool: replacements in one file, all of them or none."""

from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from agent.atomic_write import check_writable
from agent.encodings import newline_label
from agent.files import TextFile
from agent.permissions.path_text import path_key
from agent.tools.base import Access, ToolContext, ToolError, ToolOutput, load_description
from agent.tools.blocking import in_thread
from agent.tools.file_change import ChangePlans, FileChange, encode_for, is_quick, load, make, plan
from agent.tools.redacted_text import marker_hint
from agent.tools.text_match import Applied, MatchError, apply_edit
from agent.tools.unified_diff import diff_texts


class Replacement(Struct, frozen=True):
    old: str
    new: str
    replace_all: bool = False


class EditParams(Struct, frozen=True):
    path: str
    edits: Annotated[tuple[Replacement, ...], Meta(min_length=1)]


class Edit:
    name: ClassVar[str] = "edit"
    params: ClassVar[type[Struct]] = EditParams
    description: ClassVar[str] = load_description(__file__)

    def __init__(self) -> None:
        self._plans = ChangePlans()

    def access(self, params: EditParams, context: ToolContext) -> Access:
        real = _check(params, context)
        shown = context.workspace.display(real)
        if not is_quick(real, len(params.edits)):
            return Access("edit", shown, (real,), diff=_as_given(params))
        try:
            change = _plan(params, context, real)
        except ToolError as error:
            # Its text may quote a file that nobody allowed to read yet: told by `run`.
            self._plans.keep(context, params, error)
            return Access("edit", shown, (real,), fails=True)
        self._plans.keep(context, params, change)
        return change.access

    async def run(self, params: EditParams, context: ToolContext) -> ToolOutput:
        planned = self._plans.take(context, params)
        return await in_thread(lambda stop: make(planned or _plan(params, context, _check(params, context)), stop))


def _check(params: EditParams, context: ToolContext) -> Path:
    """The real path of a file that can be edited as far as can be told without reading it."""
    real = context.resolve(params.path)
    shown = context.workspace.display(real)
    if not real.exists() and path_key(real) in context.known_files:
        raise ToolError(f"{shown} was deleted since it was read. Nothing was changed; to make it anew use write.")
    context.workspace.check_regular(real)
    check_writable(real, shown)
    return real


def _as_given(params: EditParams) -> str:
    """The replacements as a diff whose places in the file are not known."""
    hunks = (diff_texts(edit.old, edit.new).diff.partition("\n")[2] for edit in params.edits)
    return "\n".join(
        f"@@ {'every place' if edit.replace_all else 'one place'} in a large file @@\n{hunk}"
        for edit, hunk in zip(params.edits, hunks, strict=True)
    )


def _plan(params: EditParams, context: ToolContext, real: Path) -> FileChange:
    shown = context.workspace.display(real)
    file = load(context, real)
    text = file.text
    notes: list[str] = []
    for number, edit in enumerate(params.edits, 1):
        applied = _apply(text, edit, number, params, file, shown)
        text = applied.text
        if applied.note:
            notes.append(applied.note)
    if file.encoding.bom and not file.text.startswith("\ufeff"):
        text = text.removeprefix("\ufeff")  # the mark is there already
    if text == file.text:
        raise ToolError(f"The edits of {shown} cancel each other out. Nothing was changed.")
    if (label := newline_label(file.text)) != "LF":
        notes.append(f"The file's line ends were kept ({label}).")
    added = [(edit.new, f"the new text of edit {number}") for number, edit in enumerate(params.edits, 1)]
    data = encode_for(file, text, added, shown)
    return plan(context, real, file, (text, data), "edited", "\n".join(notes))


def _apply(text: str, edit: Replacement, number: int, params: EditParams, file: TextFile, shown: str) -> Applied:
    try:
        return apply_edit(text, edit.old, edit.new, edit.replace_all)
    except MatchError as error:
        which = f"edit {number} of {len(params.edits)}" if len(params.edits) > 1 else "the edit"
        earlier = ""
        if number > 1 and edit.old and edit.old not in text and edit.old in file.text:
            earlier = (
                " An earlier edit of this call changed that text; edits apply in order, each to the result before it."
            )
        raise ToolError(
            f"{shown}: {which} failed, so nothing was changed. {error}{earlier}{marker_hint(edit.old)}"
        ) from None

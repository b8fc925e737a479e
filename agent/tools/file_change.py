"""What `edit` and `write` have in common: a change worked out first, shown, and then made exactly as it was shown."""

import hashlib
import threading
from pathlib import Path
from typing import Literal
from weakref import WeakKeyDictionary

from msgspec import Struct

from agent.atomic_write import write_file
from agent.encodings import NotEncodableError, check_encodable, encode
from agent.files import MAX_TEXT_BYTES, TextFile, read_text
from agent.leftover import cut_off, find_leftover
from agent.permissions.path_text import path_key, show_name
from agent.tools.base import Access, ToolContext, ToolError, ToolOutput
from agent.tools.details import DiffDetails
from agent.tools.redacted_text import marker_fault
from agent.tools.unified_diff import TextDiff, diff_texts
from agent.transcript import FileFact

QUICK_BYTES = 512 * 1024
"""Takes well under 100 ms. A larger change is shown as it was asked for, and worked out in a thread when it is made."""
STALE = "{} was changed since it was read; read it again, then redo the change. Nothing was changed."


class FileChange(Struct, frozen=True):
    """A change of one file, worked out from the content `before_sha256`; None: there was no file."""

    real: Path
    shown: str
    before_sha256: str | None
    data: bytes
    diff: TextDiff
    fact: FileFact
    text: str
    """For the model, once it is made."""
    note: str = ""

    @property
    def access(self) -> Access:
        return Access("edit", self.shown, (self.real,), diff=self.diff.diff)


class ChangePlans:
    """Keeps what was worked out for a call's `access` until its `run`: what was shown is what is written, or why nothing."""

    def __init__(self) -> None:
        self._plans: WeakKeyDictionary[ToolContext, tuple[Struct, FileChange | ToolError]] = WeakKeyDictionary()

    def keep(self, context: ToolContext, params: Struct, outcome: FileChange | ToolError) -> None:
        self._plans[context] = (params, outcome)

    def take(self, context: ToolContext, params: Struct) -> FileChange | None:
        """
        Raises:
            ToolError: that is what `access` found.
        """
        kept_params, outcome = self._plans.pop(context, (params, None))
        if kept_params != params:
            return None
        if isinstance(outcome, ToolError):
            raise outcome
        return outcome


def is_quick(real: Path, times: int) -> bool:
    """Whether a change that goes through the file `times` times may be worked out while everything else waits."""
    try:
        size = real.lstat().st_size
    except OSError:
        return True
    return size * times <= QUICK_BYTES or size > MAX_TEXT_BYTES  # which is refused at once


def load(context: ToolContext, real: Path) -> TextFile:
    """The file as it is, if it is the file that the model knows.

    Raises:
        ToolError: not readable as text, not what the newest fact of it says, or left half-written by an earlier process.
    """
    shown = context.workspace.display(real)
    with context.workspace.open_file(real) as opened:
        file = read_text(opened, shown)
    known = context.known_files.get(path_key(real))
    if leftover := find_leftover(real, file.sha256):
        raise ToolError(f"{cut_off(shown, show_name(leftover))} Nothing was changed.")
    if known is not None and known.sha256 != file.sha256:
        raise ToolError(STALE.format(shown))
    return file


def encode_for(file: TextFile, text: str, added: list[tuple[str, str]], shown: str) -> bytes:
    """`text` in the file's encoding; `added` are the new parts of it and what to call each in an error.

    Raises:
        ToolError: a new part holds a character that the encoding lacks, or it became too long.
    """
    try:
        for part, where in added:
            check_encodable(part, file.encoding, where)
        return checked_size(encode(text, file.encoding), shown)
    except NotEncodableError as error:
        raise ToolError(f"{error} Use other characters, or ask the user whether to convert {shown} to UTF-8.") from None


def checked_size(data: bytes, shown: str) -> bytes:
    """
    Raises:
        ToolError: too long to be handled as text again.
    """
    if len(data) > MAX_TEXT_BYTES:
        raise ToolError(f"{shown} would be {len(data):,} bytes long; at most {MAX_TEXT_BYTES:,} are written.")
    return data


def plan(
    context: ToolContext,
    real: Path,
    before: TextFile | None,
    after: tuple[str, bytes],
    kind: Literal["edited", "written"],
    note: str = "",
) -> FileChange:
    """The change from `before` to `after` (text and bytes). Its text is the plain one of its kind and of `note`.

    Raises:
        ToolError: a marker of a secret would be written into the file.
    """
    text, data = after
    shown = context.workspace.display(real)
    if fault := marker_fault(before.text if before else "", text, shown):
        raise ToolError(fault)
    diff = diff_texts(before.text if before else "", text)
    known = context.known_files.get(path_key(real))
    whole = kind == "written" or (known is not None and known.whole)
    fact = FileFact(path_key(real), hashlib.sha256(data).hexdigest(), (), whole, kind)
    if before is None:
        lines = diff.added
        message = f"Created {shown} ({lines:,} line{'' if lines == 1 else 's'}, {len(data):,} bytes)."
    else:
        message = f"{'Wrote' if kind == 'written' else 'Edited'} {shown} (+{diff.added} -{diff.removed} lines)."
    message += f"\n{note}" if note else ""
    return FileChange(real, shown, before.sha256 if before else None, data, diff, fact, message, note)


def make(change: FileChange, stop: threading.Event) -> ToolOutput:
    """Write it.

    Raises:
        ToolError: not done, nothing changed.
    """
    write_file(change.real, change.shown, change.data, change.before_sha256, stop.is_set)
    details = DiffDetails(change.shown, change.diff.diff, change.diff.added, change.diff.removed, change.note)
    return ToolOutput(change.text, details, files=(change.fact,))

"""Turns what a tool gave into the `result` entry: caps the text, keeps the whole as a spill, and makes spills readable files.

A result is capped once, where it is recorded, so that model, screen and record see the same. The marker in the text names
the entry and the file, which `read` and `grep` may open without asking.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec.structs import replace

from agent.config.paths import ensure_private_dir
from agent.config.private_file import replace_private
from agent.store.base import AnyBlob, Blob, SessionStore
from agent.store.file_blob import FileBlob
from agent.tools.base import ToolOutput
from agent.tools.truncate import cap_text
from agent.transcript import Entry, Result, Spill
from providers.types import ImageBlock, TextBlock, ToolCall

MAX_SPILL_BYTES = 64 * 1024 * 1024
MOST_CHARS_PER_TOKEN = 4
"""A token of plain text covers about as many; a cap never lets more than that through for each token."""
LOST_SPILL = b"[The whole output was lost: the session's file was damaged.]\n"
_TRIES = 4


class SpillFolder:
    """The session's spills as files, private to the user, made when needed and again after a resume."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: int) -> Path:
        return self.folder / f"entry-{key}.txt"

    def write(self, key: int, data: bytes) -> None:
        """Best effort: a full disk costs the file, whole, and not the result; the session keeps the output too."""
        with contextlib.suppress(OSError):
            ensure_private_dir(self.folder)
            replace_private(self.path(key), data)

    def take(self, key: int, file: Path, sha256: str = "") -> AnyBlob | None:
        """Take a file over. Where the folder cannot hold it, it is held in memory; None if it cannot even be read."""
        try:
            ensure_private_dir(self.folder)
            _move(file, self.path(key))
            return FileBlob.of(self.path(key), sha256)
        except OSError:
            with contextlib.suppress(OSError), file.open("rb") as source:
                return Blob.of(source.read(MAX_SPILL_BYTES))
            return None
        finally:
            file.unlink(missing_ok=True)

    def restore(self, branch: Iterable[Entry], store: SessionStore) -> None:
        """Make the files of a resumed session anew; those that are there stay."""
        for entry in branch:
            result = entry.payload
            if isinstance(result, Result) and result.spill is not None and not self.path(entry.key).exists():
                try:
                    data = store.blob(result.spill.sha256)
                except KeyError:
                    data = LOST_SPILL
                self.write(entry.key, data)


def to_result(
    call: ToolCall,
    title: str,
    output: ToolOutput,
    key: int,
    max_tokens: int,
    spills: SpillFolder,
    count: Callable[[str], int],
) -> tuple[Result, tuple[AnyBlob, ...]]:
    """The entry for a call's output, and the blobs of its images and its spill. `key` is the key it will have.

    Secrets are out of the output already: see agent/session_secrets.py.
    """
    max_chars = _max_chars(output.text, max_tokens, count)
    text, files = output.text, output.files
    spill: Spill | None = None
    blobs: tuple[AnyBlob, ...] = output.blobs
    whole = _whole(output, max_chars, key, spills)
    if whole is not None:
        size_bytes = len(whole.data) if isinstance(whole, Blob) else whole.size_bytes
        spill = Spill(whole.sha256, size_bytes, output.spill_missing_bytes)
        blobs = (*blobs, whole)
        text = _capped(output, max_chars, key, spills.path(key))
        if text != output.text:
            # The model did not see all of it, so that a later `write` must not pass for one that did.
            files = tuple(replace(f, whole=False, ranges=()) if f.change == "read" else f for f in files)
    blocks: tuple[TextBlock | ImageBlock, ...] = (TextBlock(text or "(no output)"), *output.images)
    result = Result(
        call.id, call.name, blocks, output.is_error, title, output.details, files, spill, output.redacted or ()
    )
    return result, blobs


def _move(file: Path, target: Path) -> None:
    """Also to another file system, and never half. Raises: OSError."""
    try:
        file.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        whole = target.with_name(f".{target.name}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with file.open("rb") as source, os.fdopen(os.open(whole, flags, 0o600), "wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
            whole.replace(target)
        finally:
            whole.unlink(missing_ok=True)


def error_output(text: str) -> ToolOutput:
    return ToolOutput(text, is_error=True)


def _max_chars(text: str, max_tokens: int, count: Callable[[str], int]) -> int:
    """How many characters of the text, from both its ends, have at most `max_tokens` tokens."""
    if len(text) * 4 <= max_tokens:  # a character has at most four bytes, and a token at least one
        return len(text)
    chars = max_tokens * MOST_CHARS_PER_TOKEN
    for _ in range(_TRIES):
        kept = cap_text(text, chars)
        tokens = count(kept.head) + count(kept.tail)
        if tokens <= max_tokens:
            return chars
        # Dense text (digits, base64, many scripts): less of it; a little more is taken off so that one try is enough.
        chars = (len(kept.head) + len(kept.tail)) * max_tokens * 97 // (tokens * 100)
    return chars


def _whole(output: ToolOutput, max_chars: int, key: int, spills: SpillFolder) -> AnyBlob | None:
    """The uncapped output, a file in the folder by now; None if the text is all there is and fits."""
    if output.spill_file is not None:
        return spills.take(key, output.spill_file, output.spill_sha256)
    if len(output.text) <= max_chars:
        return None
    data = output.text.encode("utf-8", "replace")[:MAX_SPILL_BYTES]
    spills.write(key, data)
    return Blob.of(data)


def _capped(output: ToolOutput, max_chars: int, key: int, path: Path) -> str:
    where = f"the whole output is entry {key}, file {path}"
    if output.spill_missing_bytes:
        where += f" ({output.spill_missing_bytes:,} bytes in its middle were not kept)"
    capped = cap_text(output.text, max_chars)
    if capped.omitted_chars == 0:
        return f"{output.text}\n[Shortened: {where}; use read or grep on it.]"
    return capped.text(f"[… {capped.omitted_lines:,} lines left out: {where}; use read or grep on it …]")

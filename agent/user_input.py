"""What a user's message becomes: its text, and with it the files it mentions as snapshots, images among them.

It reads through the workspace and under the rules that forbid reading; it appends nothing. Decisions: of a long file the
first part goes along and a note says how to read the rest; a folder goes along as a list of its names; a file outside the
workspace only where the path says so by itself (`/`, `~`, `..`), never through a link inside; what cannot be attached is
a problem to be shown, and the message goes without it.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from agent.encodings import decode, split_lines
from agent.files import MAX_TEXT_BYTES, describe_binary, read_bytes
from agent.images import MOST_FILE_BYTES, ImageError, ImageLimits, load_image
from agent.mentions import bare, leaves_project, readings
from agent.permissions.path_text import printable, show_name
from agent.permissions.workspace import OpenedFile, Workspace
from agent.store.base import Blob, QueuedMessage
from agent.tools.base import ToolError
from agent.tools.blocking import in_thread
from agent.tools.read_image import is_image
from agent.transcript import AttachmentBlock, User
from providers.types import ImageBlock, TextBlock

MOST_FILES = 20
MOST_FILE_TEXT_BYTES = 100_000
"""Of a longer file only the head goes along."""
MOST_TEXT_BYTES = 400_000
"""Of all attachments of one message."""
_MOST_NAMES = 200
_MAGIC_BYTES = 16

Attached = tuple[AttachmentBlock | TextBlock | ImageBlock, ...]


class UserInput(Struct, frozen=True):
    """A message that is ready to be appended: `user` and `blobs` in one transaction."""

    text: str
    """As it was written."""
    user: User
    blobs: tuple[Blob, ...] = ()
    attached: tuple[str, ...] = ()
    """One line for each attachment, for the screen; foreign text."""
    problems: tuple[str, ...] = ()
    """Why something that was mentioned does not go along; foreign text."""


class _Item(Struct, frozen=True):
    blocks: Attached
    line: str
    text_bytes: int = 0
    blob: Blob | None = None


def plain_input(text: str) -> UserInput:
    """A message without attachments."""
    return UserInput(text, User((TextBlock(text),)))


def as_user(message: QueuedMessage) -> User:
    """A message that waited, as it is appended."""
    return message.user or User((TextBlock(message.text),))


async def make_user(
    text: str, mentions: Sequence[str], workspace: Workspace, image_limits: ImageLimits | None
) -> UserInput:
    """The message with everything it mentions (see agent/mentions.py) that exists.

    `image_limits`: None where the model sees no images. Reads and decodes in a thread; cancelled, it leaves nothing behind.
    """
    if not mentions:
        return plain_input(text)
    return await in_thread(lambda stop: _read_all(text, mentions, workspace, image_limits))


def _read_all(text: str, mentions: Sequence[str], workspace: Workspace, image_limits: ImageLimits | None) -> UserInput:
    items: dict[tuple[Path, tuple[int, int] | None], _Item] = {}
    problems: list[str] = []
    room = MOST_TEXT_BYTES
    for written in mentions:
        found = _find(written, workspace)
        if found is None:
            if "/" in written.strip("/") and not written.startswith(("/", "~")):
                problems.append(f"There is no file {show_name(bare(written))}, so it is sent as text alone.")
            continue
        if found in items:
            continue
        if len(items) == MOST_FILES:
            problems.append(f"At most {MOST_FILES} files go along; {show_name(written)} and what follows do not.")
            break
        try:
            items[found] = item = _attach(*found, written, workspace, image_limits, room)
            room -= item.text_bytes
        except (ToolError, ImageError) as error:
            problems.append(str(error))
    blocks = [block for item in items.values() for block in item.blocks]
    blobs = tuple(item.blob for item in items.values() if item.blob is not None)
    attached = tuple(item.line for item in items.values())
    return UserInput(text, User((TextBlock(text), *blocks)), blobs, attached, tuple(problems))


def _find(written: str, workspace: Workspace) -> tuple[Path, tuple[int, int] | None] | None:
    """The real path of something that exists, and the lines that are meant."""
    for path, lines in readings(written):
        try:
            real = workspace.resolve(path)
            if os.path.lexists(real):
                return real, lines
        except ToolError:
            continue
    return None


def _attach(
    real: Path,
    lines: tuple[int, int] | None,
    written: str,
    workspace: Workspace,
    image_limits: ImageLimits | None,
    room: int,
) -> _Item:
    """
    Raises:
        ToolError, ImageError: it cannot or must not go along; the text says why.
    """
    shown = workspace.display(real)
    if not leaves_project(written) and not workspace.contains(real, reading=True):
        raise ToolError(f"{show_name(written)} leads out of the project, to {shown}. Write that path to attach it.")
    if workspace.is_closed is not None and workspace.is_closed(real):
        raise ToolError(f"A rule forbids to read {shown}, so it does not go along.")
    if real.is_dir():
        return _folder(real, shown, workspace)
    workspace.check_regular(real)
    with workspace.open_file(real) as opened:
        if is_image(opened):
            return _image(opened, shown, image_limits)
        return _text(opened, shown, lines, min(room, MOST_FILE_TEXT_BYTES))


def _image(opened: OpenedFile, shown: str, limits: ImageLimits | None) -> _Item:
    if limits is None:
        raise ImageError(f"{shown} does not go along: this model sees no images. /model chooses another.")
    image = load_image(read_bytes(opened, MOST_FILE_BYTES, shown), shown, limits)
    line = f"{shown} ({image.block.width:,}×{image.block.height:,} pixels)"
    return _Item((image.caption, image.block), line, blob=image.blob)


def _folder(real: Path, shown: str, workspace: Workspace) -> _Item:
    with workspace.folder(real) as descriptor, os.scandir(descriptor) as entries:
        names = sorted(entry.name + "/" * entry.is_dir(follow_symlinks=False) for entry in entries)
    listed = [show_name(name) for name in names[:_MOST_NAMES]]
    if left := len(names) - len(listed):
        listed.append(f"[and {left:,} more]")
    text = "\n".join(listed) or "[empty]"
    count = f"{len(names):,} name{'s' * (len(names) != 1)}"
    return _Item((AttachmentBlock(f"{shown.rstrip('/')}/", text),), f"{shown.rstrip('/')}/ ({count})", len(text))


def _text(opened: OpenedFile, shown: str, lines: tuple[int, int] | None, most_bytes: int) -> _Item:
    if most_bytes <= 0:
        raise ToolError(f"{shown} does not go along: the files before it fill what one message may carry.")
    size = opened.stat.st_size
    data = read_bytes(opened, MAX_TEXT_BYTES, shown) if size <= MAX_TEXT_BYTES else os.pread(opened.fd, most_bytes, 0)
    cut = size > MAX_TEXT_BYTES
    decoded = decode(data[: data.rfind(b"\n") + 1] or data if cut else data)
    if decoded is None:
        raise ToolError(f"{shown} is {describe_binary(data[:_MAGIC_BYTES], size)}, so it does not go along.")
    whole = printable(decoded[0]).replace("\0", "\\0")
    name, first = shown, 1
    if lines is not None:
        whole, first = _part(whole, *lines, shown)
        name = f"{shown}:{lines[0]}-{lines[1]}" if lines[1] != lines[0] else f"{shown}:{lines[0]}"
    text, count = _head(whole, most_bytes)
    line = f"{name} ({count:,} line{'s' * (count != 1)}"
    if len(text) < len(whole) or cut:
        line += ", cut"
        rest = f"go on with `read` at offset {first + count}" if count > 1 else "search or read the rest in parts"
        text = text.rstrip("\n") + f"\n[Cut here: {name} has {size:,} bytes; {rest}.]"
    return _Item((AttachmentBlock(name, text),), f"{line})", len(text.encode("utf-8", "replace")))


def _part(text: str, first: int, last: int, shown: str) -> tuple[str, int]:
    """Those lines, and the number of the first."""
    every = split_lines(text)[0]
    if every[-1] == "":
        every.pop()
    if first < 1 or last < first or first > len(every):
        count = f"{len(every):,} line{'s' * (len(every) != 1)}"
        raise ToolError(f"{shown} has {count}, so there are no lines {first}-{last}.")
    return "\n".join(every[first - 1 : last]), first


def _head(text: str, most_bytes: int) -> tuple[str, int]:
    """The beginning of a text in whole lines where it has to be cut, and how many lines that are."""
    if len(text) * 4 > most_bytes and len(data := text.encode("utf-8", "replace")) > most_bytes:
        head = data[:most_bytes].decode("utf-8", "ignore")
        text = head[: head.rfind("\n") + 1].rstrip("\n") or head
    return text, text.rstrip("\n").count("\n") + 1 if text else 0

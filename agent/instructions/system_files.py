"""The files that replace or extend the built-in system prompt: `SYSTEM.md` and `APPEND_SYSTEM.md`.

SYSTEM.md of the trusted project counts, else the user's; of APPEND_SYSTEM.md the user's and then the project's. They are the
user's own words to the model in place of claw's: nothing in them is included, replaced or left out.
"""

import hashlib
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from agent.config.paths import PROJECT_FOLDER
from agent.config.reading import UnreadableError, read_small
from agent.instructions.allowance import Allowance, spend
from agent.instructions.item import InstructionItem, ItemLayer, skipped
from agent.instructions.place import Place
from agent.instructions.text import MAX_READ_BYTES, NotTextError, read_text

REPLACES = "SYSTEM.md"
APPENDS = "APPEND_SYSTEM.md"
_WHY = {REPLACES: "in place of the built-in system prompt", APPENDS: "added to the system prompt"}


class SystemPromptFiles(Struct, frozen=True):
    """What these files say of the system prompt."""

    replacement: str | None = None
    """In place of the built-in body; None: the built-in one holds."""
    appended: tuple[str, ...] = ()
    """In the order in which they are sent."""
    sources: tuple[InstructionItem, ...] = ()
    """Every such file that was found, loaded or skipped; for display, never rendered as instructions."""


def system_prompt_files(place: Place) -> SystemPromptFiles:
    """What holds for a session that starts now. Never raises for what stands on disk."""
    mine = place.paths.config
    replacing = [*_project_file(place, REPLACES), *_read(mine / REPLACES, "user", _WHY[REPLACES])]
    appending = [*_read(mine / APPENDS, "user", _WHY[APPENDS]), *_project_file(place, APPENDS)]
    first = next((item for item in replacing if item.is_loaded), None)
    for at, item in enumerate(replacing):
        if first is not None and item.is_loaded and item is not first:
            replacing[at] = skipped(item, f"{first.path} counts in its place")
    return SystemPromptFiles(
        None if first is None else first.text,
        tuple(item.text for item in appending if item.is_loaded),
        (*replacing, *appending),
    )


def _project_file(place: Place, name: str) -> Iterator[InstructionItem]:
    path = place.project / PROJECT_FOLDER / name
    if place.trusted:
        yield from _read(path, "project", _WHY[name], place.project)
    elif path.is_file():
        yield skipped(InstructionItem(str(path), "project", _WHY[name]), "the folder is not trusted")


def _read(path: Path, layer: ItemLayer, reason: str, within: Path | None = None) -> Iterator[InstructionItem]:
    """The file as an item; nothing where there is none."""
    item = InstructionItem(str(path), layer, reason)
    try:
        file = read_small(path, MAX_READ_BYTES, within=within)
        if file is None:
            return
        if layer == "user" and file.mode & stat.S_IWOTH:
            yield skipped(item, f"anyone may write to it; run: chmod o-w {path}", is_trouble=True)
            return
        clean = read_text(file.data, whole=file.size_bytes <= len(file.data))
    except UnreadableError as error:
        yield skipped(item, f"cannot be read: {error}", is_trouble=True)
    except NotTextError:
        yield skipped(item, "it is not text: it holds zero bytes", is_trouble=True)
    else:
        text = clean.text.strip()
        item = msgspec.structs.replace(
            item,
            text=text,
            sha256=hashlib.sha256(file.data).hexdigest(),
            chars=len(text),
            cut_chars=max(0, file.size_bytes - len(file.data)),
            hidden=clean.hidden,
        )
        yield spend((item,), Allowance())[0] if text else skipped(item, "empty")

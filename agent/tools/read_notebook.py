"""What `read` gives of a notebook: its cells as lines of text, outputs shortened, pictures apart. Knows the formats 3 and 4.

Lines are counted in this view. Nothing is run, and what is no notebook is left to be shown as the text it is.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from agent.files import read_bytes
from agent.images import ImageError, ImageLimits, LoadedImage, load_image
from agent.permissions.workspace import OpenedFile
from agent.tools.base import ToolError
from agent.tools.terminal_text import plain_text
from agent.tools.truncate import cap_text

MOST_BYTES = 32 * 1024 * 1024
MOST_VALUES = 500_000
"""Each takes up to two hundred bytes of memory, however short it is written."""
MOST_IMAGES = 4
OUTPUT_CHARS = 4_000
OUTPUT_LINES = 60
_ABOUT = "lines are counted in this view; edit and write work on the file's JSON text, which grep shows"
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_TEXTS = ("text/plain", "text/markdown", "text/latex", "application/json")
_OLD_KINDS = {
    "text": "text/plain",
    "png": "image/png",
    "jpeg": "image/jpeg",
    "html": "text/html",
    "svg": "image/svg+xml",
}
"""How format 3 calls them."""


class Picture(Struct, frozen=True):
    line: int
    """Where it is named, 1-based."""
    cell: int
    data: str
    """Base64."""


class Notebook(Struct, frozen=True):
    cells: int
    lines: tuple[str, ...]
    pictures: tuple[Picture, ...]
    sha256: str
    """Of the file."""


def is_notebook(real: Path) -> bool:
    return real.suffix.lower() == ".ipynb"


def read_notebook(opened: OpenedFile, shown: str) -> Notebook | str:
    """The cells, or why it has to be read as text. May be slow: call it in a thread."""
    try:
        data = read_bytes(opened, MOST_BYTES, shown)
    except ToolError:
        return f"A notebook of more than {MOST_BYTES:,} bytes is shown as text."
    if data.count(b",") + data.count(b"[") + data.count(b"{") > MOST_VALUES:
        return f"A notebook of more than {MOST_VALUES:,} values is shown as text."
    try:
        content = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"This notebook is not valid JSON ({error}), so it is shown as text."
    cells = _cells(content)
    if cells is None:
        return "This file has no list of cells as a notebook has, so it is shown as text."
    return _rendered(content, cells, hashlib.sha256(data).hexdigest())


def pictures_shown(
    notebook: Notebook, first: int, last: int, shown: str, limits: ImageLimits | None
) -> tuple[list[LoadedImage], str]:
    """The first pictures named in these lines, scaled for the model, and what to say of the others."""
    there = [picture for picture in notebook.pictures if first <= picture.line <= last]
    if limits is None:
        return [], "this model sees no images" if there else ""
    loaded: list[LoadedImage] = []
    damaged = 0
    for picture in there:
        if len(loaded) == MOST_IMAGES:
            break
        try:
            data = base64.b64decode(picture.data)
            loaded.append(load_image(data, f"{shown} cell {picture.cell}", limits))
        except (binascii.Error, ValueError, ImageError):
            damaged += 1
    notes = [f"{damaged} image{'s' * (damaged != 1)} cannot be shown"] if damaged else []
    if left := len(there) - len(loaded) - damaged:
        notes.append(f"{left} more image{'s' * (left != 1)}; read a smaller part to see them")
    return loaded, "; ".join(notes)


# --------------------------------------------------------------------------- inside the file


def _cells(content: Any) -> list[dict[str, Any]] | None:
    """All cells, of format 3 those of all sheets; what is no cell is left out. None: not a notebook."""
    if not isinstance(content, dict):
        return None
    lists = [content.get("cells")]
    if isinstance(sheets := content.get("worksheets"), list):
        lists += [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
    found = [cells for cells in lists if isinstance(cells, list)]
    if not found:
        return None
    return [cell for cells in found for cell in cells if isinstance(cell, dict)]


def _rendered(content: Mapping[str, Any], cells: list[dict[str, Any]], sha256: str) -> Notebook:
    metadata = content.get("metadata")
    language = _language(metadata) if isinstance(metadata, dict) else ""
    count = f"{len(cells):,} cell{'' if len(cells) == 1 else 's'}"
    lines = [f"--- notebook: {count}{f', {language}' if language else ''}; {_ABOUT}"]
    pictures: list[Picture] = []
    for number, cell in enumerate(cells, 1):
        run = cell.get("execution_count", cell.get("prompt_number"))
        kind = str(cell.get("cell_type", "unknown"))[:20]
        lines.append(f"--- cell {number}: {kind}{f', run {run}' if isinstance(run, int) else ''}")
        lines += _lines(_text(cell.get("source", cell.get("input"))))
        if isinstance(attached := cell.get("attachments"), dict) and attached:
            lines.append(f"[{len(attached)} attached: {', '.join(str(name)[:60] for name in list(attached)[:5])}]")
        for line, picture in _outputs(number, cell.get("outputs")):
            lines.append(line)
            if picture:
                pictures.append(Picture(len(lines), number, picture))
    return Notebook(len(cells), tuple(lines), tuple(pictures), sha256)


def _language(metadata: Mapping[str, Any]) -> str:
    for key, name in (("language_info", "name"), ("kernelspec", "display_name"), ("kernelspec", "language")):
        info = metadata.get(key)
        if isinstance(info, dict) and isinstance(info.get(name), str):
            return str(info[name])[:40]
    return ""


def _outputs(cell: int, outputs: Any) -> Iterator[tuple[str, str]]:
    """(line, Base64 of the picture that it names)"""
    found = [output for output in outputs if isinstance(output, dict)] if isinstance(outputs, list) else []
    if found:
        yield f"--- output of cell {cell}", ""
    for output in found:
        if output.get("output_type") in ("error", "pyerr"):
            trace = output.get("traceback")
            text = "\n".join(map(_text, trace)) if isinstance(trace, list) and trace else ""
            named = f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
            yield from ((line, "") for line in _short(text or named))
        elif output.get("output_type") == "stream":
            yield from ((line, "") for line in _short(_text(output.get("text"))))
        else:
            yield from _bundle(output)


def _bundle(output: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """One result in several forms: its picture and its text, or what forms there are."""
    data = output.get("data")
    if not isinstance(data, dict):
        data = {_OLD_KINDS[key]: value for key, value in output.items() if key in _OLD_KINDS}
    shown = False
    for kind in _PICTURES:
        if text := _text(data.get(kind)):
            yield f"[image: {kind}, about {len(text) * 3 // 4:,} bytes]", text
            shown = True
    for kind in _TEXTS:
        if kind in data:
            value = data[kind]
            text = _text(value) or (msgspec.json.encode(value).decode() if kind == "application/json" else "")
            yield from ((line, "") for line in _short(text))
            return
    if not shown:
        for kind, value in list(data.items())[:5]:
            yield f"[{str(kind)[:60]}, {len(_text(value)):,} characters, not shown]", ""


def _text(value: Any) -> str:
    """A text, which a notebook may keep as a list of lines."""
    if isinstance(value, str):
        return value
    return "".join(part for part in value if isinstance(part, str)) if isinstance(value, list) else ""


def _short(text: str) -> list[str]:
    plain = plain_text(text.encode("utf-8", "replace")).rstrip("\n")
    capped = cap_text(plain, OUTPUT_CHARS, OUTPUT_LINES)
    return _lines(capped.text(f"[… {capped.omitted_chars:,} characters of this output left out …]"))


def _lines(text: str) -> list[str]:
    text = text.replace("\r\n", "\n").removesuffix("\n")
    return text.split("\n") if text else []

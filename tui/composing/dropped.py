"""Files that were dragged into the terminal, which types or pastes their paths: recognised by being nothing else."""

import os
import re
import shlex
from pathlib import Path
from urllib.parse import unquote, urlsplit

MOST_CHARS = 4_096
MOST_PATHS = 10
_IMAGE = re.compile(r"\.(?:png|jpe?g|gif|webp|bmp|tiff?)\Z", re.IGNORECASE)


def dropped_paths(text: str) -> list[str]:
    """The absolute paths of the files or folders that make up the whole text; empty if it is anything else.

    Understands what terminals write: quotes, backslashes before blanks, `file://`, several paths with blanks between.
    """
    text = text.strip()
    if not text or len(text) > MOST_CHARS or not text.startswith(("/", "~/", "file://", "'", '"')):
        return []
    paths = [_path(part) for part in _parts(text)]
    if not paths or len(paths) > MOST_PATHS or not all(path and _exists(path) for path in paths):
        whole = _path(text)
        return [whole] if "\n" not in text and whole and _exists(whole) else []
    return paths


def is_image_path(path: str) -> bool:
    return _IMAGE.search(path) is not None


def _parts(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _path(part: str) -> str:
    """Empty for what is no absolute path of this machine."""
    if part.startswith("file://"):
        address = urlsplit(part)
        if address.netloc not in ("", "localhost"):
            return ""
        part = unquote(address.path, errors="surrogateescape")
    elif part.startswith("~/"):
        part = os.path.expanduser(part)  # noqa: PTH111 (Path.expanduser raises where there is no home)
    return part if part.startswith("/") and "\0" not in part else ""


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False

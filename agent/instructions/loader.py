"""Instructions as text for the system prompt: the plain loader that walks upwards, and the rendering of discovered items."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from agent.config.reading import UnreadableError, printable, read_small
from agent.config.schema import InstructionFormat
from agent.instructions.item import InstructionItem, all_includes, digest
from agent.instructions.text import MAX_READ_BYTES, NotTextError, read_text
from agent.transcript import InstructionFile

PREAMBLE = "The following project instructions were loaded automatically. Follow them carefully:"
_SEPARATOR = "\n\n---\n\n"
_TAG = re.compile(r"<(/?)(?=project_instructions\b)", re.IGNORECASE)


class InstructionLoader:
    """Loads files of given names from a folder and everything above it, the root's first.

    Within one folder the order is that of `file_names`. A file that is there and cannot be read is skipped and stands in
    `unreadable`, with the reason, after the `load` that met it.
    """

    def __init__(self, file_names: Sequence[str]) -> None:
        self.file_names = tuple(file_names)
        self.unreadable: list[tuple[Path, str]] = []

    @classmethod
    def default_files(cls) -> "InstructionLoader":
        return cls(("CLAUDE.md", ".claw/instructions.md"))

    def discover(self, start: Path) -> list[Path]:
        """The files that exist, root first. `start` itself is the last folder looked at."""
        absolute = start.absolute()
        folders = (*reversed(absolute.parents), absolute)
        return [folder / name for folder in folders for name in self.file_names if _is_file(folder / name)]

    def load(self, start: Path) -> str | None:
        """All texts, each under a heading with its path; None if there are none. Empty files are left out."""
        self.unreadable = []
        sections = [_headed(str(path), text) for path in self.discover(start) if (text := self._read(path)) is not None]
        return _SEPARATOR.join(sections) or None

    def system_prompt_section(self, start: Path) -> str | None:
        """What `load` gives behind the sentence that says what it is; None if there is nothing."""
        content = self.load(start)
        return None if content is None else f"{PREAMBLE}\n\n{content}"

    def _read(self, path: Path) -> str | None:
        try:
            file = read_small(path, MAX_READ_BYTES)
            return read_text(file.data, whole=file.size_bytes <= len(file.data)).text.strip() or None if file else None
        except UnreadableError as error:
            self.unreadable.append((path, str(error)))
        except NotTextError:
            self.unreadable.append((path, "it is not text"))
        return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _headed(path: str, text: str) -> str:
    return f"# Instructions from {printable(path)}\n\n{text}"


def render(items: Sequence[InstructionItem], format: InstructionFormat = "tags") -> str | None:
    """The loaded items as one text for the system prompt, or None if nothing is loaded.

    `tags` wraps each in `<project_instructions path="…">`, which no text inside can close or imitate; `headings` is the form
    of `InstructionLoader`.
    """
    loaded = [item for item in items if item.is_loaded]
    if not loaded:
        return None
    if format == "headings":
        return f"{PREAMBLE}\n\n{_SEPARATOR.join(_headed(item.path, item.text) for item in loaded)}"
    return f"{PREAMBLE}\n\n" + "\n\n".join(tagged(item.path, item.text) for item in loaded)


def tagged(path: str, text: str) -> str:
    """One text in its tag."""
    body = _TAG.sub(r"&lt;\1", text)
    return f"<project_instructions path={quoteattr(printable(path))}>\n{body}\n</project_instructions>"


INCLUDED = "included"
"""The reason of a file that stands in the text of another."""


def recorded(items: Sequence[InstructionItem], count_tokens: Callable[[str], int]) -> tuple[InstructionFile, ...]:
    """The loaded items as they are kept in a `prefix` entry, each followed by the files whose text stands in its own.

    An item's hash is its `digest`, over everything it includes; an included file has no tokens of its own.
    """
    files: list[InstructionFile] = []
    seen: set[str] = set()
    for item in items:
        if not item.is_loaded:
            continue
        files.append(InstructionFile(item.path, digest(item), count_tokens(item.text), item.layer))
        for _, include in all_includes(item):
            if include.status == "followed" and include.sha256 and include.path not in seen:
                seen.add(include.path)
                files.append(InstructionFile(include.path, include.sha256, 0, INCLUDED))
    return tuple(files)

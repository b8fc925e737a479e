"""Puts the files that an instruction file includes (`@path`, `@include path`) into its text, and says what became of each.

Where a path may stand is decided in `markdown.py`, what counts as one in `include_path.py`. A path is relative to the folder
that really holds the including file. User and managed files may include any regular file; what lies in the workspace, and
what a project's file includes, only files of the workspace and those that the user allowed. Every file stands in the
instructions once: one that is there already is named and not repeated. What is refused stays as it was written.
"""

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from xml.sax.saxutils import quoteattr

import msgspec
from msgspec import Struct

from agent.config.reading import SmallFile, UnreadableError, printable, read_small
from agent.config.schema import InstructionsConfig
from agent.instructions.allowance import cut_at_line, cut_note
from agent.instructions.exclusion import excluded_by
from agent.instructions.include_path import Reference, reference_at
from agent.instructions.item import Include, ItemLayer
from agent.instructions.markdown import MOST_AT_SIGNS, at_signs
from agent.instructions.place import VARIABLES, Place
from agent.instructions.rules import replace_variables, split_sections, unknown_variables
from agent.instructions.text import MAX_READ_BYTES, CleanText, NotTextError, read_text, without_comments
from agent.permissions.sensitive import is_sensitive

if TYPE_CHECKING:
    from agent.permissions.consents import Consents

MOST_FILES = 200
"""Files that are read for includes in one discovery."""
MOST_QUESTIONS = 10
"""Files outside the workspace that the user is asked about at a time."""
MOST_PARSED_CHARS = 400_000
"""Of all texts of one discovery, looked through for includes and comments; many times what is ever sent."""
_NOT_ON_DISK = ("proc", "sys", "dev")
"""Folders that hold what the system says, secrets of this very process among it; nothing that one would consent to."""
_TAG = re.compile(r"<(/?)(?=included_file\b)", re.IGNORECASE)


class Expanded(Struct, frozen=True):
    """A text with what it includes."""

    text: str
    includes: tuple[Include, ...] = ()
    cut_chars: int = 0
    """Left out. Where the text has includes it says so; else that is the caller's."""


class _Source(Struct, frozen=True):
    """The file whose text is being expanded."""

    path: Path
    """Real."""
    layer: ItemLayer
    chain: tuple[Path, ...]
    """The files that led here, real, with this one at the end."""


class _RefusedError(Exception):
    def __init__(self, reason: str, status: Literal["refused", "asks"] = "refused") -> None:
        super().__init__(reason)
        self.status = status


class Expander:
    """Expands the texts of one discovery, in the order in which they are given room."""

    def __init__(
        self, place: Place, config: InstructionsConfig, consents: "Consents | None", loaded: Mapping[Path, str]
    ) -> None:
        """`loaded` are the files that are loaded by themselves: real path to the path that people know."""
        self._place = place
        self._config = config
        self._consents = consents
        self._there = dict(loaded)
        self._files_left = MOST_FILES
        self._chars_left = config.max_total_chars * 2
        self._parsed_left = MOST_PARSED_CHARS
        self._asked: set[Path] = set()
        self._cut_inside = 0
        """Characters left out of the files that the text being expanded includes."""
        self._variables = place.variables
        self._shown_variables = {name: printable(value) for name, value in self._variables.items()}

    def expand(
        self, text: str, path: Path, layer: ItemLayer, first_line: int = 1, *, missing: int = 0, is_sent: bool = True
    ) -> Expanded:
        """The text of the file at `path` (real), which begins in its line `first_line`.

        `missing` characters of the file were not read. Without `is_sent` the text may never be sent, so that what it
        includes counts as there for itself alone.
        """
        before = dict(self._there)
        self._cut_inside = 0
        expanded = self._expand(text, _Source(path, layer, (path,)), first_line, missing)
        expanded = msgspec.structs.replace(expanded, cut_chars=expanded.cut_chars + self._cut_inside)
        if not is_sent:
            self._there = before
        return expanded

    def plain(self, text: str) -> str:
        """A text that includes nothing: its variables are replaced and no tag of ours stands in it."""
        return _TAG.sub(r"&lt;\1", replace_variables(text, self._shown_variables))

    # ------------------------------------------------------------------ one text

    def _expand(self, text: str, source: _Source, first_line: int, missing: int = 0) -> Expanded:
        if "@" not in text and "<!--" not in text:
            return Expanded(self.plain(text), cut_chars=missing)
        cap = self._config.max_file_chars
        clipped = cut_at_line(text, cap * 2)  # comments do not count, but no file is parsed without end
        self._parsed_left -= len(clipped)
        if self._parsed_left < 0:
            why = "there are too many instructions to look at all of them; shorten them, or exclude some files"
            unread = Include("@", first_line, status="refused", reason=why)
            return Expanded(self.plain(text), (unread,), missing)
        clean, blank = without_comments(clipped)
        signs = at_signs(clean)
        kept = cut_at_line(clean, cap) if signs else clean
        cut = missing + len(text) - len(clipped) + len(clean) - len(kept)
        columns: dict[int, list[int]] = {}
        for sign in signs[:MOST_AT_SIGNS]:
            columns.setdefault(sign.line, []).append(sign.start)
        includes: list[Include] = []
        lines: list[str] = []
        for at, line in enumerate(kept.split("\n")):
            if at in blank and not (lines and lines[-1].strip()):
                continue
            found, shown = self._expand_line(line, columns.get(at, ()), first_line + at, source)
            includes += found
            lines.append(shown)
        if len(signs) > MOST_AT_SIGNS:
            why = f"only the first {MOST_AT_SIGNS} @ of a file are looked at"
            includes.append(Include("@", first_line + signs[MOST_AT_SIGNS].line, status="refused", reason=why))
        if cut and includes:
            lines.append(cut_note(str(source.path), cut))
        return Expanded("\n".join(lines).rstrip(), tuple(includes), cut)

    def _expand_line(
        self, line: str, columns: Sequence[int], number: int, source: _Source
    ) -> tuple[list[Include], str]:
        includes: list[Include] = []
        pieces: list[str] = []
        at = looked_at = 0
        nearby = _Nearby(self, source.path.parent)
        for column in columns:
            if not looked_at <= column < len(line) or (reference := reference_at(line, column, nearby)) is None:
                continue
            looked_at = column + len(reference.written)
            include, block = self._follow(reference, number, source)
            includes.append(include)
            if block is not None:
                pieces += (self.plain(line[at:column]), block)
                at = looked_at
        return includes, "".join((*pieces, self.plain(line[at:])))

    # ------------------------------------------------------------------ one include

    def locate(self, written: str, folder: Path) -> Path:
        """The path that a written one means, as it is: nothing is looked at."""
        target = replace_variables(written, self._variables)
        return self._place.paths.home / target[2:] if target.startswith("~/") else folder / target

    def _follow(self, reference: Reference, line: int, source: _Source) -> tuple[Include, str | None]:
        """What became of the include, and the text in its place; None: it stays as it was written."""
        where = self.locate(reference.target, source.path.parent)
        include = Include(reference.written, line, os.path.normpath(where))
        try:
            if reference.fault:
                raise _RefusedError(reference.fault)
            if (unknown := unknown_variables(reference.target, VARIABLES)) and not os.path.lexists(where):
                names = ", ".join(f"${{{name}}}" for name in VARIABLES)
                raise _RefusedError(f"${{{unknown[0]}}} is no variable; known are {names}")
            real = _real(where)
            include = msgspec.structs.replace(include, path=str(real))
            if (known := self._there.get(real)) is not None and real not in source.chain:
                why = f"it stands in the instructions already ({known})"
                return msgspec.structs.replace(include, reason=why), None
            self._check(where, real, source)
            file = self._read(real)
            clean = read_text(file.data)
            return self._included(include, real, source, file, clean)
        except _RefusedError as error:
            return msgspec.structs.replace(include, status=error.status, reason=str(error)), None
        except (UnreadableError, NotTextError) as error:
            why = str(error) if isinstance(error, UnreadableError) else "it is not text: it holds zero bytes"
            return msgspec.structs.replace(include, status="refused", reason=why), None

    def _included(
        self, include: Include, real: Path, source: _Source, file: SmallFile, clean: CleanText
    ) -> tuple[Include, str]:
        self._there[real] = f"included by {source.path}"
        layer: ItemLayer = "project" if self._place.in_workspace(real) else source.layer
        inner_source = _Source(real, layer, (*source.chain, real))
        # The includer says when the text holds, so that conditions inside do not count.
        parts = [
            self._expand(section.text, inner_source, clean.first_line + section.line - 1)
            for section in split_sections(clean.text)
        ]
        text = "\n\n".join(part.text for part in parts).strip("\n")
        includes = tuple(include for part in parts for include in part.includes)
        cut = sum(part.cut_chars for part in parts)
        if not includes and (cut or len(text) > self._config.max_file_chars):
            kept = cut_at_line(text, self._config.max_file_chars)
            cut += len(text) - len(kept)
            text = f"{kept}\n{cut_note(str(real), cut)}"
        self._cut_inside += cut
        self._chars_left -= len(text)
        include = msgspec.structs.replace(
            include,
            sha256=hashlib.sha256(file.data).hexdigest(),
            chars=len(text),
            hidden=clean.hidden,
            includes=includes,
        )
        return include, f"<included_file path={quoteattr(printable(str(real)))}>\n{text}\n</included_file>"

    def _check(self, where: Path, real: Path, source: _Source) -> None:
        """
        Raises:
            _RefusedError: the file may not be included here.
        """
        place, depth = self._place, self._config.max_include_depth
        if real == source.path:
            raise _RefusedError("a file cannot include itself; remove the line")
        if real in source.chain:
            circle = " -> ".join(path.name for path in (*source.chain[source.chain.index(real) :], real))
            raise _RefusedError(f"it is a circle: {circle}; remove one of these includes")
        if not place.trusted and place.in_workspace(real):
            raise _RefusedError("the folder is not trusted, so none of its files is loaded")
        for path in (Path(os.path.normpath(where)), real):
            if pattern := excluded_by(path, source.layer, self._config.exclude, place):
                raise _RefusedError(f"it is excluded by {pattern!r} in [instructions] exclude")
        if len(source.chain) > depth:
            raise _RefusedError(f"files may include each other {depth} deep; include it further up")
        if source.layer in ("project", "local") and not place.in_workspace(real):
            self._check_consent(real)
        if source.layer != "managed" and place.is_closed is not None and place.is_closed(real):
            raise _RefusedError("a permission rule keeps it from being read; remove the line or the rule")
        if source.layer in ("project", "local") and is_sensitive(real):
            raise _RefusedError("it may hold secrets, which no file of a project sends along; remove the line")
        if self._files_left <= 0 or self._chars_left <= 0:
            raise _RefusedError("too much is included already; include less")

    def _check_consent(self, real: Path) -> None:
        if not real.is_file() or real.parts[1] in _NOT_ON_DISK:
            raise _RefusedError("it is not a regular file on disk")
        decision = self._consents.decision(real) if self._consents is not None else False
        if decision is None:
            self._asked.add(real)
            if len(self._asked) > MOST_QUESTIONS:
                raise _RefusedError(
                    f"it lies outside the workspace, and so do {MOST_QUESTIONS} others to be asked about"
                )
            raise _RefusedError("it lies outside the workspace; claw asks whether it may be included", "asks")
        if not decision:
            raise _RefusedError("it lies outside the workspace and you have not allowed it")

    def _read(self, real: Path) -> SmallFile:
        self._files_left -= 1
        file = read_small(real, MAX_READ_BYTES, within=real)
        if file is None:
            raise _RefusedError("there is no such file")
        if file.size_bytes > MAX_READ_BYTES:
            size = f"{file.size_bytes / (1 << 20):,.1f} MiB"
            raise _RefusedError(f"it is {size} large; at most 1 MiB can be included")
        return file


class _Nearby:
    """Looks for written paths from one folder."""

    def __init__(self, expander: Expander, folder: Path) -> None:
        self._expander = expander
        self._folder = folder

    def is_file(self, written: str) -> bool:
        return self._is(Path.is_file, written)

    def is_folder(self, written: str) -> bool:
        return self._is(Path.is_dir, written)

    def _is(self, kind: Callable[[Path], bool], written: str) -> bool:
        try:
            return kind(self._expander.locate(written, self._folder))
        except (OSError, ValueError):
            return False


def _real(where: Path) -> Path:
    try:
        return where.resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError):
        raise _RefusedError("there is no such file") from None
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "the path is not possible"
        raise _RefusedError(reason[0].lower() + reason[1:]) from None

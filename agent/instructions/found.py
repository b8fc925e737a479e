"""Reads the files that may hold instructions, tells which of them count, and makes items of them.

A file counts once: the same file anywhere, or the same text in the same folder, is skipped with the reason.
"""

import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from agent.config.reading import SmallFile, UnreadableError, read_small
from agent.config.schema import InstructionsConfig
from agent.instructions.allowance import order_of_room
from agent.instructions.candidates import OVERRIDE, REPLACEABLE, Candidate
from agent.instructions.exclusion import excluded_by
from agent.instructions.includes import Expander
from agent.instructions.item import Flaw, Include, InstructionItem, skipped
from agent.instructions.place import Place
from agent.instructions.rules import Section, anchored, split_sections
from agent.instructions.text import MAX_READ_BYTES, CleanText, NotTextError, read_text
from agent.permissions.sensitive import is_sensitive


class _File(Struct, frozen=True):
    """A file that counts, as it was read."""

    candidate: Candidate
    real: Path
    clean: CleanText


class Found:
    """The items so far, and what tells a file that was seen before."""

    def __init__(self, place: Place, config: InstructionsConfig) -> None:
        self._items: list[InstructionItem] = []
        self._files: dict[int, _File] = {}
        """Of the items that are loaded, by their place."""
        self._place = place
        self._config = config
        self._by_identity: dict[tuple[int, int], int] = {}
        self._by_text: dict[str, tuple[int, Path]] = {}
        self._overridden: set[Path] = set()

    def loaded_paths(self) -> dict[Path, str]:
        """The files that are loaded at least in part: real path to path."""
        return {file.real: str(file.candidate.path) for file in self._files.values() if not _is_conditional(file)}

    def add(self, candidate: Candidate) -> None:
        item = InstructionItem(str(candidate.path), candidate.layer, candidate.reason)
        if candidate.barred:
            if candidate.is_named or os.path.lexists(candidate.path):
                self._items.append(skipped(item, candidate.barred, is_trouble=candidate.is_trouble))
            return
        try:
            file = read_small(candidate.path, MAX_READ_BYTES, within=candidate.within)
            if file is None:
                if candidate.is_named:
                    self._items.append(skipped(item, "it does not exist", is_trouble=True))
                return
            if trouble := _authority_fault(candidate, file):
                self._items.append(skipped(item, trouble, is_trouble=True))
                return
            clean = read_text(file.data, whole=file.size_bytes <= len(file.data))
            real = candidate.path.resolve()
            if candidate.is_named and candidate.layer != "managed" and self._is_closed(real):
                self._items.append(skipped(item, "a permission rule keeps it from being read", is_trouble=True))
                return
            if candidate.layer in ("project", "local") and is_sensitive(real):
                self._items.append(skipped(item, "it leads to a file that may hold secrets", is_trouble=True))
                return
        except UnreadableError as error:
            self._items.append(skipped(item, f"cannot be read: {error}", is_trouble=True))
        except (OSError, RuntimeError) as error:
            self._items.append(skipped(item, f"cannot be looked at: {error}", is_trouble=True))
        except NotTextError:
            self._items.append(skipped(item, "it is not text: it holds zero bytes", is_trouble=True))
        else:
            self._add_read(_File(candidate, real, clean), item, file)

    def _is_closed(self, real: Path) -> bool:
        return self._place.is_closed is not None and self._place.is_closed(real)

    def _add_read(self, found: _File, item: InstructionItem, file: SmallFile) -> None:
        candidate, clean = found.candidate, found.clean
        folder = candidate.folder
        item = msgspec.structs.replace(
            item,
            sha256=hashlib.sha256(file.data).hexdigest(),
            chars=len(clean.text),
            cut_chars=max(0, file.size_bytes - len(file.data)),
            hidden=clean.hidden,
        )
        name = candidate.path.relative_to(folder).with_suffix(".md").as_posix()
        if pattern := excluded_by(candidate.path, candidate.layer, self._config.exclude, self._place):
            item = skipped(item, f"excluded by {pattern!r}")
        elif name in REPLACEABLE and folder in self._overridden:
            item = skipped(item, f"replaced by {OVERRIDE}")
        elif name == OVERRIDE:
            self._overridden.add(folder)  # an empty one too: that is how instructions are switched off
        if item.is_loaded and not clean.text:
            item = skipped(item, "empty")
        if item.is_loaded:
            item = self._compare(item, clean.text, file.identity, folder)
        if item.is_loaded:
            self._files[len(self._items)] = found
        self._items.append(item)

    def _compare(self, item: InstructionItem, text: str, identity: tuple[int, int], folder: Path) -> InstructionItem:
        """Skip what was loaded already: the same file anywhere, the same text in the same folder."""
        alike, home = self._by_text.get(text, (None, None))
        if (twin := self._by_identity.get(identity)) is not None:
            return self._skip_as_duplicate(item, twin, "the same file as")
        if alike is not None and home == folder:
            return self._skip_as_duplicate(item, alike, "the same text as")
        at = len(self._items)
        self._by_identity[identity] = at
        self._by_text.setdefault(text, (at, folder))
        return item if alike is None else msgspec.structs.replace(item, duplicates=(self._items[alike].path,))

    def _skip_as_duplicate(self, item: InstructionItem, first: int, why: str) -> InstructionItem:
        kept = self._items[first]
        self._items[first] = msgspec.structs.replace(kept, duplicates=(*kept.duplicates, item.path))
        return skipped(item, f"{why} {kept.path}")

    # ------------------------------------------------------------------ texts

    def expanded(self, expander: Expander) -> list[InstructionItem]:
        """The items with their texts, one for each section of a file.

        What several files include stands in the one that gets room first. Sections with a condition come last, since they
        may never be sent.
        """
        sections = [
            (at, number, section)
            for at in order_of_room(self._items)
            if at in self._files
            for number, section in enumerate(split_sections(self._files[at].clean.text))
        ]
        sections.sort(key=lambda found: bool(found[2].patterns))
        texts: dict[int, dict[int, InstructionItem]] = {}
        for at, number, section in sections:
            texts.setdefault(at, {})[number] = self._section(self._items[at], self._files[at], section, expander)
        items: list[InstructionItem] = []
        for at, item in enumerate(self._items):
            if at not in self._files:
                items.append(item)
                continue
            parts = [part for _, part in sorted(texts.get(at, {}).items())]
            whole = [part for part in parts if part.status != "skipped"]
            items += whole or parts[:1] or [skipped(item, "empty")]
        return items

    def _section(self, item: InstructionItem, file: _File, section: Section, expander: Expander) -> InstructionItem:
        clean, base = file.clean, file.candidate.base
        line = clean.first_line + section.line - 1
        is_last = clean.text.endswith(section.text)
        expanded = expander.expand(
            section.text,
            file.real,
            item.layer,
            line,
            missing=item.cut_chars if is_last else 0,
            is_sent=not section.patterns,
        )
        text = expanded.text.strip()
        item = msgspec.structs.replace(
            item,
            status="conditional" if section.patterns else "loaded",
            text=text,
            chars=len(text) + expanded.cut_chars - (item.cut_chars if is_last else 0),
            cut_chars=expanded.cut_chars,
            includes=expanded.includes,
            line=line,
            condition=section.condition,
            patterns=anchored(section.patterns, base, self._place.variables),
            base=str(base),
            flaws=tuple(Flaw(clean.first_line + flaw.line - 1, flaw.message) for flaw in section.flaws),
        )
        if not text:
            return skipped(item, "empty")
        if repeated := _says_nothing_new(text, expanded.includes):
            return skipped(item, f"it says nothing but {repeated}")
        return item


def _is_conditional(file: _File) -> bool:
    return all(section.patterns for section in split_sections(file.clean.text))


def _says_nothing_new(text: str, includes: Sequence[Include]) -> str:
    """The includes that are all a text holds, where they stand in the instructions already; empty if there is more."""
    for include in includes:
        if include.status != "followed" or include.sha256:
            return ""
        text = text.replace(include.written, "", 1)
    return "" if text.strip(" \n-*+") else ", ".join(f"{i.written}, which is loaded" for i in includes)


def _authority_fault(candidate: Candidate, file: SmallFile) -> str:
    """Why the file may not be the word of those whom its layer speaks for; empty if it is."""
    if candidate.layer in ("managed", "user") and file.mode & stat.S_IWOTH:
        return f"anyone may write to it; run: chmod o-w {candidate.path}"
    return _foreign(candidate, file) if candidate.is_foreign_ground else ""


def _foreign(candidate: Candidate, file: SmallFile) -> str:
    """Why a file above the project may be somebody else's word; empty if only the user or root can have written it."""
    mine = (0, os.getuid())
    if file.owner not in mine:
        return "it belongs to another user and stands above the project"
    if file.mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "it can be changed by others and stands above the project"
    if candidate.path.resolve() != candidate.path:
        return "it is reached through a link and stands above the project"
    for inner in candidate.path.parents:
        if inner == candidate.within:
            break
        if inner.stat().st_uid not in mine:
            return "its folder belongs to another user and stands above the project"
    return ""

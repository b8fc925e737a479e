"""Finds the instruction files of a session and says of each one why it counts or why not.

Order: managed policy, the user's file, every folder from the filesystem's root down to the current one, added folders,
then the texts of config.toml, which have the last word. What is read of a file is bounded, and nothing but a regular file
is opened. Files of the project must really lie in it; above it only files count that nobody else can have put there.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from agent.config.paths import Paths
from agent.config.reading import SmallFile, UnreadableError, read_small
from agent.config.schema import InstructionsConfig, LayerValue
from agent.instructions.allowance import Allowance, estimate_tokens, spend
from agent.instructions.exclusion import excluded_by
from agent.instructions.item import CONFIG_PATH, InstructionItem, ItemLayer
from agent.instructions.text import CleanText, NotTextError, read_text

MAX_READ_BYTES = 1 << 20
OVERRIDE = "AGENTS.override.md"
REPLACEABLE = ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md")
OWN = (".claw/instructions.md",)
LOCAL = ("CLAUDE.local.md", "AGENTS.local.md")


class Place(Struct, frozen=True):
    """Where a session runs. All paths are real."""

    paths: Paths
    project: Path
    cwd: Path
    added: tuple[Path, ...] = ()
    """Folders of --add-dir."""
    trusted: bool = True
    """Without it no file of the project or above it is looked at."""


class _Candidate(Struct, frozen=True):
    path: Path
    folder: Path
    """The folder whose instructions these are; `.claude/CLAUDE.md` belongs to the one above."""
    layer: ItemLayer
    reason: str
    within: Path | None = None
    """The file must really lie beneath this folder."""
    is_foreign_ground: bool = False
    """It stands above the project, where others may write."""
    is_named: bool = False
    """The configuration names it, so that its absence is worth a word."""


def discover(
    place: Place,
    config: InstructionsConfig,
    *,
    enabled: bool = True,
    effective_window_tokens: int | None = None,
    count_tokens: Callable[[str], int] = estimate_tokens,
) -> tuple[InstructionItem, ...]:
    """Every instruction file and text in the order in which the model gets them, with skipped ones between.

    With `enabled` false (--no-instructions) managed policy alone is left. Where the window is known, all texts together take
    at most a quarter of it. Never raises for what stands on disk.
    """
    layers = {"managed", *(config.layers if enabled else ())}
    if not place.trusted:
        layers -= {"project", "local"}
    found = _Found(place, config)
    for candidate in _candidates(place, config):
        if candidate.layer in layers:
            found.add(candidate)
    items = [*found.items, *_texts(config.text, layers)]
    room = Allowance(config.max_file_chars, config.max_total_chars, effective_window_tokens, count_tokens)
    return spend(items, room)


def _candidates(place: Place, config: InstructionsConfig) -> Iterator[_Candidate]:
    managed, own = place.paths.managed, place.paths.config
    yield _Candidate(managed / "CLAUDE.md", managed, "managed", "managed policy")
    yield _Candidate(own / "AGENTS.md", own, "user", "your own, for every project")
    yield from _named(place, config.files, "user")
    for folder in (*reversed(place.cwd.parents), place.cwd):
        is_inside = folder.is_relative_to(place.project)
        reason = "in the project" if is_inside else "above the project"
        within = place.project if is_inside else folder
        yield from _in_folder(folder, reason, within, is_foreign_ground=not is_inside)
    yield from _named(place, config.files, "project")
    for folder in place.added:
        yield from _in_folder(folder, "in an added folder", folder, is_foreign_ground=False)


def _in_folder(folder: Path, reason: str, within: Path, *, is_foreign_ground: bool) -> Iterator[_Candidate]:
    for name in (OVERRIDE, *REPLACEABLE, *OWN, *LOCAL):
        layer: ItemLayer = "local" if name in LOCAL else "project"
        path = folder / name
        if not os.path.lexists(path) and os.path.lexists(capital := path.with_suffix(".MD")):
            path = capital
        yield _Candidate(path, folder, layer, reason, within, is_foreign_ground)


def _named(place: Place, files: Sequence[LayerValue], layer: ItemLayer) -> Iterator[_Candidate]:
    """The files that config.toml names: of the user's own sources with the user's files, of the project's with its."""
    for value in files:
        mine = value.layer not in ("project", "local")
        if mine != (layer == "user"):
            continue
        base = place.cwd if value.layer == "command line" else Path(value.base)
        written = Path(value.value)
        if mine and value.value.startswith("~/"):
            written = place.paths.home / value.value[2:]
        owner: ItemLayer = "local" if value.layer == "local" else "managed" if value.layer == "managed" else layer
        within = None if mine else place.project
        path = base / written
        yield _Candidate(path, path.parent, owner, f"named in {value.source}", within, is_named=True)


def _texts(values: Sequence[LayerValue], layers: set[str]) -> Iterator[InstructionItem]:
    for value in values:
        owner = value.layer if value.layer in ("managed", "project", "local") else "user"
        clean = read_text(value.value.encode())
        if owner not in layers or not clean.text:
            continue
        digest = hashlib.sha256(value.value.encode()).hexdigest()
        reason = f"instructions in {value.source}"
        layer: ItemLayer = "managed" if owner == "managed" else "config"
        yield InstructionItem(
            CONFIG_PATH, layer, reason, text=clean.text, sha256=digest, chars=len(clean.text), hidden=clean.hidden
        )


class _Found:
    """The items so far, and what tells a file that was seen before."""

    def __init__(self, place: Place, config: InstructionsConfig) -> None:
        self.items: list[InstructionItem] = []
        self._place = place
        self._config = config
        self._by_identity: dict[tuple[int, int], int] = {}
        self._by_text: dict[str, tuple[int, Path]] = {}
        self._overridden: set[Path] = set()

    def add(self, candidate: _Candidate) -> None:
        item = InstructionItem(str(candidate.path), candidate.layer, candidate.reason)
        try:
            file = read_small(candidate.path, MAX_READ_BYTES, within=candidate.within)
            if file is None:
                if candidate.is_named:
                    self.items.append(_skipped(item, "it does not exist", is_trouble=True))
                return
            if trouble := _authority_fault(candidate, file):
                self.items.append(_skipped(item, trouble, is_trouble=True))
                return
            clean = read_text(file.data, whole=file.size_bytes <= len(file.data))
        except UnreadableError as error:
            self.items.append(_skipped(item, f"cannot be read: {error}", is_trouble=True))
        except (OSError, RuntimeError) as error:
            self.items.append(_skipped(item, f"cannot be looked at: {error}", is_trouble=True))
        except NotTextError:
            self.items.append(_skipped(item, "it is not text: it holds zero bytes", is_trouble=True))
        else:
            self._add_read(candidate, item, file, clean)

    def _add_read(self, candidate: _Candidate, item: InstructionItem, file: SmallFile, clean: CleanText) -> None:
        folder = candidate.folder
        item = msgspec.structs.replace(
            item,
            text=clean.text,
            sha256=hashlib.sha256(file.data).hexdigest(),
            chars=len(clean.text),
            cut_chars=max(0, file.size_bytes - len(file.data)),
            hidden=clean.hidden,
        )
        name = candidate.path.relative_to(folder).with_suffix(".md").as_posix()
        if pattern := excluded_by(candidate.path, candidate.layer, self._config.exclude, self._place):
            item = _skipped(item, f"excluded by {pattern!r}")
        elif name in REPLACEABLE and folder in self._overridden:
            item = _skipped(item, f"replaced by {OVERRIDE}")
        elif name == OVERRIDE:
            self._overridden.add(folder)  # an empty one too: that is how instructions are switched off
        if item.is_loaded and not item.text:
            item = _skipped(item, "empty")
        if item.is_loaded:
            item = self._compare(item, file.identity, folder)
        self.items.append(item)

    def _compare(self, item: InstructionItem, identity: tuple[int, int], folder: Path) -> InstructionItem:
        """Skip what was loaded already: the same file anywhere, the same text in the same folder."""
        alike, home = self._by_text.get(item.text, (None, None))
        if (twin := self._by_identity.get(identity)) is not None:
            return self._skip_as_duplicate(item, twin, "the same file as")
        if alike is not None and home == folder:
            return self._skip_as_duplicate(item, alike, "the same text as")
        at = len(self.items)
        self._by_identity[identity] = at
        self._by_text.setdefault(item.text, (at, folder))
        return item if alike is None else msgspec.structs.replace(item, duplicates=(self.items[alike].path,))

    def _skip_as_duplicate(self, item: InstructionItem, first: int, why: str) -> InstructionItem:
        kept = self.items[first]
        self.items[first] = msgspec.structs.replace(kept, duplicates=(*kept.duplicates, item.path))
        return _skipped(item, f"{why} {kept.path}")


def _skipped(item: InstructionItem, why: str, *, is_trouble: bool = False) -> InstructionItem:
    return msgspec.structs.replace(
        item, status="skipped", skipped_because=why, text="", cut_chars=0, is_trouble=is_trouble
    )


def _authority_fault(candidate: _Candidate, file: SmallFile) -> str:
    """Why the file may not be the word of those whom its layer speaks for; empty if it is."""
    if candidate.layer in ("managed", "user") and file.mode & stat.S_IWOTH:
        return f"anyone may write to it; run: chmod o-w {candidate.path}"
    return _foreign(candidate, file) if candidate.is_foreign_ground else ""


def _foreign(candidate: _Candidate, file: SmallFile) -> str:
    """Why a file above the project may be somebody else's word; empty if only the user or root can have written it."""
    mine = (0, os.getuid())
    if file.owner not in mine:
        return "it belongs to another user and stands above the project"
    if file.mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "it can be changed by others and stands above the project"
    if candidate.path.resolve() != candidate.path:
        return "it is reached through a link and stands above the project"
    inner = candidate.path.parent
    if inner != candidate.within and inner.stat().st_uid not in mine:
        return "its folder belongs to another user and stands above the project"
    return ""

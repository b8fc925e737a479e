"""Which paths may hold instructions, in the order in which the model gets them, and what each must fulfil to count.

Of the files nothing is read here; folders of rules are listed, within bounds and in the order of their names.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agent.config.schema import LayerValue
from agent.instructions.item import ItemLayer
from agent.instructions.place import Place
from agent.instructions.text import MAX_READ_BYTES
from agent.instructions.worktree import main_checkout

OVERRIDE = "AGENTS.override.md"
REPLACEABLE = ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md")
LOCAL = ("CLAUDE.local.md", "AGENTS.local.md")
_IN_FOLDER = (OVERRIDE, *REPLACEABLE, ".claude/rules", ".claw/instructions.md", ".claw/rules", *LOCAL)
_RULES = "rules"
MOST_RULES = 200
"""Files of one folder of rules."""
MOST_RULE_BYTES = 2 * MAX_READ_BYTES
"""Of the files of one folder of rules together."""
_MOST_LISTED = 5_000
_DEEPEST = 8


class Candidate(Struct, frozen=True):
    path: Path
    folder: Path
    """The folder whose instructions these are; `.claude/CLAUDE.md` belongs to the one above."""
    layer: ItemLayer
    reason: str
    base: Path
    """What patterns in the file are relative to."""
    within: Path | None = None
    """The file must really lie beneath this folder."""
    is_foreign_ground: bool = False
    """It stands above the project, where others may write."""
    is_named: bool = False
    """The configuration names it, so that its absence is worth a word."""
    barred: str = ""
    """Why it is not loaded, whatever it says."""
    is_trouble: bool = False
    """With `barred`: its author will not expect that."""


def candidates(place: Place, files: Sequence[LayerValue]) -> Iterator[Candidate]:
    """Everything that a session may be given at its start. `files` are those that the configuration names."""
    managed, own = place.paths.managed, place.paths.config
    above = Candidate(managed / "CLAUDE.md", managed, "managed", "managed policy", place.project)
    yield above
    yield from _rules(managed / _RULES, above)
    mine = Candidate(own / "AGENTS.md", own, "user", "your own, for every project", place.project)
    yield mine
    yield from _rules(own / _RULES, mine)
    yield from _named(place, files, "user")
    main = main_checkout(place.project)
    for folder in (*reversed(place.cwd.parents), place.cwd):
        if folder.is_relative_to(place.project):
            yield from in_folder(folder, "in the project", place.project)
        else:
            yield from in_folder(folder, "above the project", None, main)
    yield from _named(place, files, "project")
    for folder in place.added:
        yield from in_folder(folder, "in an added folder", folder)


def holds_any(folder: Path) -> bool:
    """Whether a folder has anything of its own by those names: a quick look, since most folders have nothing."""
    names = (*_IN_FOLDER, *(f"{name.removesuffix('.md')}.MD" for name in _IN_FOLDER if name.endswith(".md")))
    return any(os.path.lexists(f"{folder}/{name}") for name in names)


def in_folder(folder: Path, where: str, ground: Path | None, main: Path | None = None) -> Iterator[Candidate]:
    """What one folder may hold of its own.

    `ground` is the project or added folder that it lies in, None above the project; `main` is the main checkout around a
    worktree that the project is.
    """
    # A worktree has the same files as the main checkout around it; what is not in git, the local ones, is not among them.
    twice = ground is None and main is not None and folder.is_relative_to(main)
    for name in _IN_FOLDER:
        layer: ItemLayer = "local" if name in LOCAL else "project"
        path = folder / name
        barred = "it belongs to the main checkout around this worktree" if twice and layer == "project" else ""
        found = Candidate(path, folder, layer, where, folder, ground or folder, ground is None, barred=barred)
        if path.name == _RULES:
            yield from _rules(path, found)
            continue
        if not os.path.lexists(path) and os.path.lexists(capital := path.with_suffix(".MD")):
            found = _at(found, capital)
        yield found


def _rules(folder: Path, like: Candidate) -> Iterator[Candidate]:
    """The `.md` files in a folder of rules and beneath it, by name. Links to folders are followed where they may lead."""
    if not os.path.lexists(folder):
        return
    listed, bytes_left = _MOST_LISTED, MOST_RULE_BYTES
    count = 0
    seen: set[Path] = set()
    todo = [(folder, 0)]
    while todo:
        here, depth = todo.pop()
        try:
            real = here.resolve(strict=True)
            if not real.is_dir():
                continue
        except (OSError, RuntimeError):
            continue
        if like.within is not None and not real.is_relative_to(like.within):
            yield _at(like, here, f"it is a link that leads out of {like.within}")
            continue
        if real in seen or depth > _DEEPEST:
            continue
        seen.add(real)
        try:
            with os.scandir(real) as entries:
                names = [(entry.name, entry.is_dir()) for entry, _ in zip(entries, range(listed), strict=False)]
        except OSError as error:
            yield _at(like, here, f"it cannot be listed: {error.strerror}")
            continue
        listed -= len(names)
        files = sorted(name for name, is_folder in names if not is_folder and name.lower().endswith(".md"))
        for name in files:
            count += 1
            if count > MOST_RULES or listed <= 0:
                yield _at(like, here / name, f"there are too many files in {folder}; at most {MOST_RULES} are loaded")
                return
            bytes_left -= _bytes_of(here / name)
            if bytes_left < 0:
                most = MOST_RULE_BYTES >> 20
                yield _at(like, here / name, f"there is too much in {folder}; at most {most} MiB of it are loaded")
                return
            yield _at(like, here / name)
        todo += [(here / name, depth + 1) for name, is_folder in sorted(names, reverse=True) if is_folder]


def _bytes_of(path: Path) -> int:
    """How much would be read of a file."""
    try:
        return min(path.stat().st_size, MAX_READ_BYTES)
    except OSError:
        return 0


def _at(like: Candidate, path: Path, trouble: str = "") -> Candidate:
    is_local = like.layer == "project" and path.name.lower().endswith(".local.md")
    barred = trouble or ("" if is_local else like.barred)
    layer = "local" if is_local else like.layer
    return replace(like, path=path, layer=layer, barred=barred, is_trouble=bool(trouble))


def _barred(like: Candidate, trouble: str) -> Candidate:
    return replace(like, barred=trouble, is_trouble=True)


def _named(place: Place, files: Sequence[LayerValue], layer: ItemLayer) -> Iterator[Candidate]:
    """The files that config.toml names: of the user's own sources with the user's files, of the project's with its."""
    for value in files:
        mine = value.layer not in ("project", "local")
        if mine != (layer == "user"):
            continue
        folder = place.cwd if value.layer == "command line" else Path(value.base)
        written = Path(value.value)
        if mine and value.value.startswith("~/"):
            written = place.paths.home / value.value[2:]
        owner: ItemLayer = "local" if value.layer == "local" else "managed" if value.layer == "managed" else layer
        within = None if mine else place.project
        path = Path(os.path.normpath(folder / written))
        found = Candidate(path, path.parent, owner, f"named in {value.source}", place.project, within, is_named=True)
        if within is not None and not path.is_relative_to(within):
            found = _barred(found, "it lies outside the project; only your own config.toml can name it")
        yield found

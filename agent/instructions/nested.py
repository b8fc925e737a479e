"""Which folders' instructions a touched path brings in, and which paths tell whether something about instructions changed.
Nothing is read here; whether a rule's condition holds is known to `rules.py`.

Decision: every folder of the project (or of an added folder) on the way down to the path counts, also beside the current
folder; only those above the current one were read at the start already.
"""

from collections.abc import Iterable
from pathlib import Path

from agent.instructions.candidates import Candidate
from agent.instructions.item import CONFIG_PATH, InstructionItem, all_includes
from agent.instructions.place import Place

RULES = "rules"


def folders_of(path: Path, place: Place) -> tuple[Path, ...]:
    """The folders whose own instructions hold for a real path (a file, or a folder itself) and were not read at the start.

    The outermost first; empty outside the project and the added folders.
    """
    root = next((top for top in (*place.added, place.project) if path.is_relative_to(top)), None)
    if root is None:
        return ()
    read = {place.cwd, *place.cwd.parents, *place.added}
    inner = path if path.is_dir() else path.parent
    chain = [folder for folder in (inner, *inner.parents) if folder.is_relative_to(root) and folder not in read]
    return tuple(reversed(chain))


def watched(
    place: Place, items: Iterable[InstructionItem], looked_at: Iterable[Candidate], folders: Iterable[Path]
) -> set[Path]:
    """The paths whose status tells whether another look would find the same: every file that was looked for, the folders of
    rules, what the files include, and where the user's consent to that stands.

    The folders themselves are not among them: their status changes with every file that comes or goes.
    """
    found: set[Path] = {place.paths.state_file}
    for candidate in looked_at:
        found |= {candidate.path, candidate.path.with_suffix(".MD")}
    for folder in folders:
        found |= {folder / RULES, folder / ".claude" / RULES, folder / ".claw" / RULES}
    for item in items:
        if item.path != CONFIG_PATH:
            path = Path(item.path)
            found |= {path, path.parent} if RULES in path.parts else {path}
        found |= {Path(include.path) for _, include in all_includes(item) if include.path}
    return found

"""Which instruction files `[instructions] exclude` leaves out. A project's patterns bind the project's own files alone."""

from collections.abc import Sequence
from pathlib import Path

from agent.config.schema import LayerValue
from agent.instructions.item import ItemLayer
from agent.instructions.place import Place


def excluded_by(path: Path, layer: ItemLayer, patterns: Sequence[LayerValue], place: Place) -> str:
    """The first pattern that leaves `path` out, or an empty text. Managed policy is never left out.

    Patterns are those of .gitignore, relative to the project; one that begins with `/` or `~/` means the absolute path.
    """
    if layer == "managed":
        return ""
    for pattern in patterns:
        if pattern.layer in ("project", "local") and layer == "user":
            continue
        if _matches(pattern.value, path, place):
            return pattern.value
    return ""


def _matches(pattern: str, path: Path, place: Place) -> bool:
    from pathspec import GitIgnoreSpec  # imported by those alone who exclude something

    if pattern.startswith("~/"):
        pattern = f"{place.paths.home}/{pattern[2:]}"
    is_absolute = pattern.startswith("/")
    inside = path.is_relative_to(place.project)
    subject = path.relative_to(place.project) if inside and not is_absolute else path.relative_to("/")
    try:
        return bool(GitIgnoreSpec.from_lines([pattern]).match_file(subject.as_posix()))
    except ValueError:
        return False

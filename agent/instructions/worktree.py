"""Whether a project is a git worktree that stands inside its own main checkout, told by looking at files; git is never run."""

from pathlib import Path

from agent.config.reading import UnreadableError, read_small

_MAX_POINTER_BYTES = 4096


def main_checkout(project: Path) -> Path | None:
    """The main checkout around a nested worktree; None for every other project (a submodule and a plain checkout too).

    `project` is a real path. Both sides must say so: the worktree's `.git` file, and the main checkout, which holds the
    folder that it names.
    """
    try:
        pointer = read_small(project / ".git", _MAX_POINTER_BYTES)
    except UnreadableError:  # a folder: no worktree
        return None
    if pointer is None or not pointer.data.startswith(b"gitdir:"):
        return None
    named = pointer.data.removeprefix(b"gitdir:").split(b"\n", 1)[0].strip().decode("utf-8", "surrogateescape")
    try:
        folder = (project / named).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    main = folder.parent.parent.parent
    is_worktree = folder.parent.name == "worktrees" and folder.parent.parent.name == ".git"
    return main if is_worktree and project != main and project.is_relative_to(main) else None

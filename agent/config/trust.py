"""Whether a folder's own files may have any effect. For now every folder is trusted.

Callers ask here and nowhere else, with all that a decision needs, so that the answer can become a real one.
"""

from pathlib import Path

from agent.config.paths import Paths


def is_trusted(folder: Path, paths: Paths, *, this_run: bool = False) -> bool:
    """Whether the user trusts `folder`.

    `folder` is the project's real path, `paths` says where decisions are kept, and `this_run` is the user's word on the
    command line for this run and this folder alone.
    """
    return True

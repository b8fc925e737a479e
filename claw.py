"""The entry point: keeps the current project's modules out of claw's imports, then hands over to the command line.

Package names such as ``agent`` are common, and a repository's own ``agent/`` or ``tomllib.py`` must never be imported in
claw's place. So before the first import beyond ``sys`` and ``os`` this module drops from ``sys.path`` the entry for the
current directory and whatever ``PYTHONPATH`` names; entries that ``.pth`` files added (an editable install) stay.
"""

import os
import sys

__version__ = "0.1.0"


def _clean_path() -> None:
    """Remove the current directory and the entries of ``PYTHONPATH`` from ``sys.path``, once each."""
    listed = os.environ.get("PYTHONPATH")
    try:
        here = os.getcwd()
    except OSError:  # it was removed: nothing can be imported from there, and what is relative leads nowhere
        here = ""
    named = [_absolute(here, entry) for entry in listed.split(os.pathsep)] if listed else []
    # `python -m` puts the current directory first; a console script puts its own folder there.
    if sys.path and not sys.flags.safe_path and _absolute(here, sys.path[0]) == here:
        del sys.path[0]
    for entry in named:
        for index, known in enumerate(sys.path):
            if known and _absolute(here, known) == entry:
                del sys.path[index]
                break
    sys.path[:] = [entry for entry in sys.path if entry]


def _absolute(here: str, entry: str) -> str:
    """``os.path.abspath``, which fails where the current directory is gone."""
    return os.path.normpath(os.path.join(here, entry)) if here or entry else ""


def main() -> int:
    """Run claw and return its exit code."""
    _clean_path()
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"claw {__version__}\n")
        return 0
    from tui.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

"""The tiny project in which the demo plays: a sum that concatenates, its tests, and a long history to read.

It only writes files. What the scripted model does with them is providers/demo_script.py's business; a test holds the two
together.
"""

from pathlib import Path

_README = """\
# calc

Adds numbers that may arrive as text, for instance from a form.

    >>> import calc
    >>> calc.sum(2, "3")
    5

Tests: `python3 -m unittest` in this folder. What changed and why: docs/history.md.
"""

_AGENTS = """\
# Rules for this project

- Keep the public interface: `calc.sum(a, b)`, its name and its parameters.
- Run the tests with `python3 -m unittest`.
- Standard library only.
"""

_INIT = '''\
"""Adds numbers that may arrive as text."""

from calc.core import sum

__all__ = ["sum"]
'''

_CORE = '''\
"""The one operation of calc."""


def sum(a, b):
    """Return a plus b. Each is a number, or text that holds one, such as "2" or " -7 "."""
    return _number(a) + _number(b)


def _number(value):
    return str(value).strip()
'''

_TEST_CORE = """\
import inspect
import unittest

import calc


class SumTest(unittest.TestCase):
    def test_two_and_three(self):
        self.assertEqual(calc.sum(2, 3), 5)

    def test_text(self):
        self.assertEqual(calc.sum("20", " 22 "), 42)

    def test_negative(self):
        self.assertEqual(calc.sum(-2, 5), 3)

    def test_interface(self):
        self.assertEqual(list(inspect.signature(calc.sum).parameters), ["a", "b"])


if __name__ == "__main__":
    unittest.main()
"""

_AREAS = ("sum", "forms", "packaging", "tests", "docs", "errors", "imports", "examples", "types", "release notes")
_CHANGES = (
    "say in the message which of the two values was meant",
    "drop the cache, which cost more than it saved",
    "accept text with blanks on either side",
    "measure again on the slow machine; nothing to gain",
    "rename an inner function; nobody outside used it",
    "explain why there is one operation and no more",
    "take back the change before this one, with a test",
    "move an example into the tests, where it is run",
    "refuse an empty text instead of taking it for zero",
    "keep the old name for one more release",
)
_SIGN_LINE = '- **sum**: text may carry a sign, "-7" and "+4" are numbers like any other. This stays so.'
_RELEASES = 96


def create_demo_project(folder: Path) -> Path:
    """Write the project into `folder`, which is made if it is missing, and return its real path.

    Raises:
        FileExistsError: the folder holds something already; nothing was written.
        OSError: it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty: the demo needs a folder of its own.")
    for name, text in project_files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    # A git directory by hand, so that the demo is a project of its own wherever it lies, also without git installed.
    for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
        (folder / ".git" / name).mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (folder / ".git/config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n", encoding="utf-8")
    return folder.resolve()


def project_files() -> dict[str, str]:
    """Relative path → content of every file of the project, git's own left out."""
    return {
        "README.md": _README,
        "AGENTS.md": _AGENTS,
        ".gitignore": "__pycache__/\n",
        "calc/__init__.py": _INIT,
        "calc/core.py": _CORE,
        "tests/__init__.py": "",
        "tests/test_core.py": _TEST_CORE,
        "docs/history.md": _history(),
    }


def _history() -> str:
    """A change log, newest release first: long enough to fill a small window, and always the same."""
    lines = ["# History of calc", ""]
    for release in range(_RELEASES, 0, -1):
        lines.append(f"## 0.{release}")
        for entry in range(3):
            area = _AREAS[(release * 7 + entry * 3) % len(_AREAS)]
            change = _CHANGES[(release * 3 + entry * 7) % len(_CHANGES)]
            lines.append(f"- **{area}**: {change}.")
        if release == _RELEASES - 12:
            lines[-1] = _SIGN_LINE
        lines.append("")
    return "\n".join(lines)

"""The facts in a compaction's record: files, commands, the last error, to-dos, plan and jobs, as bounded lists of lines.

Pure functions of results and of what the caller knows. A long session has thousands of results, so that of each only what
a section may show is kept. Every changed file and every open to-do is either here or named in the summary: where a list
does not fit, what the summary names already is left out first. Decision: an error is left out if the same command
succeeded later.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct

from agent.context.fence import disarm, fence
from agent.context.shorten import Count, cut_middle
from agent.permissions.path_text import show_name
from agent.tools.details import CommandDetails
from agent.transcript import FileFact, Result
from providers.types import TextBlock

_ERROR_TOKENS = 300
_COMMAND_CHARS = 200
_LINE_CHARS = 400
_MORE_TOKENS = 12
Results = Iterable[tuple[int, Result]]
"""(entry key, result), newest first; gone through once."""


class Known(Struct, frozen=True):
    """What the program knows beside the entries."""

    todos: Sequence[str] = ()
    plan: str = ""
    jobs: Sequence[str] = ()
    pinned: Sequence[int] = ()
    """Keys of the pins whose texts stand behind the summary."""
    kept: Sequence[str] = ()
    """Texts that the user ticked to be kept."""


class _Facts:
    """What results say that a section may show, the newest first."""

    def __init__(self, results: Results) -> None:
        self.changed: dict[str, str] = {}
        """Path → "written", if it ever was, or "edited"."""
        self.read: dict[str, str] = {}
        """Path → what was seen of the file when it was read last."""
        self.commands: list[str] = []
        """A line each."""
        self.error: tuple[int, Result] | None = None
        """The newest one, but for commands that succeeded later."""
        succeeded: set[str] = set()
        for key, result in results:
            for fact in reversed(result.files):
                self._take_file(fact)
            details = result.details if isinstance(result.details, CommandDetails) else None
            if details is not None:
                self.commands.append(f"- entry {key}, {_outcome(details)}: {disarm(_one_line(details.command))}")
            if self.error is not None:
                continue
            if details is not None and details.exit_code == 0:
                succeeded.add(details.command)
            elif result.is_error if details is None else details.command not in succeeded:
                self.error = key, result

    def _take_file(self, fact: FileFact) -> None:
        if fact.change == "read":
            self.read.setdefault(fact.path, _seen(fact))
        elif fact.change == "written":
            self.changed[fact.path] = "written"
        else:
            self.changed.setdefault(fact.path, fact.change)


def fact_sections(results: Results, known: Known, budget: int, count: Count, summary: str = "") -> list[str]:
    """The sections in order, empty ones among them. Changed files may have `budget` tokens, the rest together as many.

    What the user ticked is whole, whatever it takes.
    """
    facts = _Facts(results)
    kept = "\n".join(f"- {text}" if "\n" not in text else fence(text) for text in known.kept)
    parts = [f"## Kept word for word\n\n{kept}" if kept else ""]
    left = budget
    makers: tuple[Callable[[int], str], ...] = (
        lambda room: _listed("## To-do list", map(_bullet, known.todos), room, count, summary),
        lambda room: _plan_section(known.plan, room // 2, count),
        lambda room: _listed("## Commands still running", map(_bullet, known.jobs), room // 2, count),
        lambda room: _pinned_section(known.pinned),
        lambda room: _changed_section(facts.changed, budget, count, summary),
        lambda room: _error_section(facts.error, min(_ERROR_TOKENS, budget // 3), count),
        lambda room: _listed("## Commands run, newest first", facts.commands, room // 2, count),
        lambda room: _read_section(facts, room, count),
    )
    for make in makers:
        section = make(max(0, left))
        parts.append(section)
        left -= 0 if section.startswith("## Files changed") else count(section)
    return parts


# --------------------------------------------------------------------------- files


def _changed_section(changed: Mapping[str, str], budget: int, count: Count, summary: str) -> str:
    title = "## Files changed, newest first"
    lines = [f"- {_shown(path)} ({how})" for path, how in changed.items()]
    if _fitting(lines, budget - count(title), count) == len(lines):
        return _listed(title, lines, budget, count)
    # Too many for a line each: folder by folder, those first that the summary does not name.
    unnamed = [path for path in changed if not _names(summary, path)]
    named = [path for path in changed if _names(summary, path)]
    return _listed(title, (*_by_folder(unnamed), *_by_folder(named)), budget, count)


def _by_folder(paths: Iterable[str]) -> list[str]:
    """A line for each folder, with at most twenty names."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        pure = PurePath(path)
        folders.setdefault(str(pure.parent), []).append(pure.name)
    return [
        f"- in {_shown(folder)}: {', '.join(map(_shown, names[start : start + 20]))}"
        for folder, names in folders.items()
        for start in range(0, len(names), 20)
    ]


def _shown(path: str) -> str:
    return disarm(show_name(path))


def _names(summary: str, path: str) -> bool:
    return bool(summary) and (path in summary or PurePath(path).name in summary)


def _read_section(facts: _Facts, budget: int, count: Count) -> str:
    lines = [f"- {_shown(path)} ({seen})" for path, seen in facts.read.items() if path not in facts.changed]
    return _listed("## Files read only, newest first", lines, budget, count)


def _seen(fact: FileFact) -> str:
    if fact.whole or not fact.ranges:
        return "whole" if fact.whole else "in part"
    shown = ", ".join(f"{first}-{last}" for first, last in fact.ranges[:3])
    return f"lines {shown}" + (", …" if len(fact.ranges) > 3 else "")


# --------------------------------------------------------------------------- commands, the last error


def _error_section(error: tuple[int, Result] | None, budget: int, count: Count) -> str:
    if error is None:
        return ""
    key, result = error
    text = "\n".join(block.text for block in result.blocks if isinstance(block, TextBlock)).strip()
    short = cut_middle(disarm(text), budget, count, lambda left_out: f"[about {left_out:,} tokens left out]", 0.3)
    return f"## The last error (entry {key}, tool {result.tool})\n\n{fence(short)}"


def _outcome(details: CommandDetails) -> str:
    return f"exit {details.exit_code}" if details.exit_code is not None else details.status


# --------------------------------------------------------------------------- to-dos, plan, pins


def _plan_section(plan: str, budget: int, count: Count) -> str:
    if not plan.strip():
        return ""
    short = cut_middle(disarm(plan.strip()), budget, count, lambda left_out: f"[about {left_out:,} tokens left out]")
    return f"## The plan\n\n{fence(short)}"


def _pinned_section(pins: Sequence[int]) -> str:
    if not pins:
        return ""
    word = "entry" if len(pins) == 1 else "entries"
    return (
        f"## Pinned\n\nWhat the user pinned ({word} {', '.join(map(str, pins))}) stands word for word behind this text."
    )


# --------------------------------------------------------------------------- lists


def _bullet(line: str) -> str:
    return f"- {disarm(_one_line(line, _LINE_CHARS))}"


def _listed(title: str, lines: Iterable[str], budget: int, count: Count, summary: str = "") -> str:
    """A titled list with as many lines as the budget holds, and how many are missing.

    Where it holds too few, lines go first whose text the summary has.
    """
    every = list(lines)
    room = budget - count(title)
    if summary and _fitting(every, room, count) < len(every):
        every = [line for line in every if line.removeprefix("- ") not in summary]
    shown = every[: _fitting(every, room, count)]
    if missing := len(every) - len(shown):
        shown.append(f"- and {missing:,} more")
    return f"{title}\n\n" + "\n".join(shown) if shown else ""


def _fitting(lines: Sequence[str], room: int, count: Count) -> int:
    """How many leading lines fit, with a line about those that do not."""
    left = room - _MORE_TOKENS
    for place, line in enumerate(lines):
        left -= count(line) + 1
        if left < 0:
            return place
    return len(lines)


def _one_line(command: str, chars: int = _COMMAND_CHARS) -> str:
    first, _, rest = command.strip().partition("\n")
    cut = first[:chars]
    return cut + (" …" if rest or len(first) > chars else "")

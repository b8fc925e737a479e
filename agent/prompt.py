"""The system prompt: sections registered by name with a lifetime, and the facts of a turn as reminders.

Static sections are the same for every session and stand first, unless the user's own text replaces them as a whole; session
sections follow and stay as they are for the whole session. What changes by the turn is never in the prompt: `turn_facts`
tells it behind the newest message, once. Every text stands in `prompts/`. Nothing is read from the project here.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from agent.config.paths import is_git_root
from agent.config.reading import printable
from agent.instructions.changes import instruction_changes as instruction_changes
from agent.transcript import Reminder
from providers.types import PromptSection

if TYPE_CHECKING:
    from agent.instructions.system_files import SystemPromptFiles

Lifetime = Literal["static", "session"]


class SessionFacts(Struct, frozen=True):
    """What the session sections are made of; fixed when a session starts."""

    cwd: str
    project: str
    system: str
    """For instance "Linux 6.1 (x86_64)"."""
    shell: str
    is_git: bool
    instructions: str | None = None
    """The rendered instruction files and texts."""
    appended: str = ""
    """What the user adds to the prompt: the files for that, then the command line."""
    replacement: str | None = None
    """What stands in place of the built-in body, that is of all static sections; None: the body holds."""


def session_facts(
    cwd: Path,
    project: Path,
    *,
    instructions: str | None = None,
    appended: str = "",
    files: "SystemPromptFiles | None" = None,
) -> SessionFacts:
    """The facts of a session that starts here and now. `appended` comes from the command line, `files` are those that
    replace or extend the prompt."""
    machine = os.uname()
    system = "macOS" if machine.sysname == "Darwin" else machine.sysname
    return SessionFacts(
        str(cwd),
        str(project),
        f"{system} {machine.release} ({machine.machine})",
        "bash",
        is_git_root(project),
        instructions,
        "\n\n".join(text for text in (*(files.appended if files else ()), appended) if text),
        files.replacement if files else None,
    )


class SectionSource(Struct, frozen=True):
    """How one section of the prompt is made."""

    name: str
    lifetime: Lifetime
    render: Callable[[SessionFacts], str | None]
    """None or blank: the section is left out."""


def load_prompt(name: str) -> str:
    """The text of `prompts/NAME.md` without white space at its ends."""
    return _read(name)


@cache
def _read(name: str) -> str:
    return (Path(__file__).with_name("prompts") / f"{name}.md").read_text(encoding="utf-8").strip()


def _static(name: str) -> SectionSource:
    """A part of the built-in body, which a file of the user's can replace as a whole."""
    return SectionSource(name, "static", lambda facts: load_prompt(name) if facts.replacement is None else None)


def _environment(facts: SessionFacts) -> str:
    return Template(load_prompt("environment")).substitute(
        cwd=printable(facts.cwd),
        project=printable(facts.project),
        git=", a git repository" if facts.is_git else ", not a git repository",
        system=facts.system,
        shell=facts.shell,
    )


SECTIONS: tuple[SectionSource, ...] = (
    *(_static(name) for name in ("identity", "working", "tools", "safety", "answers")),
    SectionSource("system", "static", lambda facts: facts.replacement),
    SectionSource("environment", "session", _environment),
    SectionSource("appended", "session", lambda facts: facts.appended),
    SectionSource("instructions", "session", lambda facts: facts.instructions),
)


def build_sections(facts: SessionFacts, sources: Sequence[SectionSource] = SECTIONS) -> tuple[PromptSection, ...]:
    """The prompt's sections in order: static ones, then session ones, each group as registered. Same facts, same bytes.

    Raises:
        ValueError: two sections have one name.
    """
    names = [source.name for source in sources]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"sections registered twice: {', '.join(twice)}")
    ordered = sorted(sources, key=lambda source: source.lifetime != "static")
    return tuple(
        PromptSection(source.name, text, source.lifetime == "static")
        for source in ordered
        if (text := (source.render(facts) or "").strip())
    )


# --------------------------------------------------------------------------- facts of a turn


class ChangedFile(Struct, frozen=True):
    """A file that the model has seen and that is different now."""

    path: str
    sha256: str | None
    """Of the content now; None: it is gone."""


def turn_facts(
    previous: Iterable[Reminder], now: datetime, branch: str | None, changed_files: Sequence[ChangedFile] = ()
) -> list[Reminder]:
    """What the model should be told now: only facts that differ from what it was told last.

    `previous` are the reminders that still stand in the window, oldest first: after a compaction the facts that went with
    it are told again. `branch` is git's, None where there is none.
    """
    told: dict[str, str] = {}
    told_files: dict[str, str] = {}
    for reminder in previous:
        told[reminder.kind] = reminder.text
        if reminder.kind == "files_changed":
            told_files.update({_file_of(line): line for line in reminder.text.split("\n")[1:]})
    facts = [Reminder("date", f"Today is {_WEEKDAYS[now.weekday()]}, {now:%Y-%m-%d}.")]
    if branch is not None:
        facts.append(Reminder("git_branch", f"The current git branch is {branch}."))
    elif "git_branch" in told:
        facts.append(Reminder("git_branch", "There is no current git branch any more."))
    new = [fact for fact in facts if told.get(fact.kind) != fact.text]
    lines = [line for file in changed_files if told_files.get(_file_of(line := _file_line(file))) != line]
    if lines:
        new.append(Reminder("files_changed", "\n".join((_FILES_CHANGED, *lines))))
    return new


_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FILES_CHANGED = "These files are different on disk from what you saw last. Read them again before you rely on them:"


def _file_line(file: ChangedFile) -> str:
    state = "deleted" if file.sha256 is None else f"now {file.sha256[:8]}"
    return f"- {printable(file.path)} ({state})"


def _file_of(line: str) -> str:
    return line.rpartition(" (")[0]

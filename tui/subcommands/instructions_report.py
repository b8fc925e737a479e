"""`claw instructions` and `claw instructions lint`: what would be loaded here, as a tree or as JSON, and what is wrong with it.

The files are compared with the prefix of the newest session of this project. The files of folders below the current one,
which are read when a tool touches them, are listed too, as far as a bounded walk finds them.
"""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from agent.config.trust import is_trusted
from agent.context.tokens import Counter
from agent.instructions.changes import changed_paths
from agent.instructions.discovery import Place, discover, discover_nested, system_prompt_files
from agent.instructions.item import InstructionItem, warnings
from agent.instructions.lint import lint
from agent.instructions.nested import folders_of
from agent.instructions.project_files import Survey, survey
from agent.instructions.report import Finding, InstructionsReport, as_conditional, has_errors
from agent.instructions.surfaced import Standing, head
from agent.permissions.configured import configured_rules
from agent.permissions.consents import Consents
from agent.permissions.path_pattern import PathScope
from agent.store import sessions
from agent.store.schema import SchemaError
from agent.transcript import Transcript
from agent.window import Window
from tui.launch.startup import Startup
from tui.sanitize import clean, spelled_json
from tui.subcommands.instruction_tree import NOTHING, finding_text, tree_rows

_NAMES = ("agents", "claude", "instructions")
_RULE_FOLDERS = ("/.claude/", "/.claw/")
_SINCE = "since the newest session began"


def show_instructions(startup: Startup) -> int:
    """The exit code: of `lint` 1 if there are errors; else 0."""
    place = _place(startup)
    seen = survey(startup.project)
    there = _look(startup, place, seen)
    as_json = startup.arguments.as_json
    if startup.arguments.action == "lint":
        files = (*there.items, *there.nested)
        return _show_findings(lint(files, place, startup.loaded.config.instructions, seen), as_json)
    counter = Counter()
    counter.load()
    window, standing = _newest(startup)
    items = (*there.system, *there.items, *there.nested)
    report = InstructionsReport(
        items,
        tuple(counter.count(item.text) for item in items),
        changed=changed_paths(window.prefix.instruction_files, there.items) if window.prefix.sections else (),
        told=tuple(index for index, first in enumerate(there.heads) if first in standing.told),
    )
    if as_json:
        print(spelled_json(json.dumps({"files": _files(report), "warnings": list(warnings(items))})))
        return 0
    if not items:
        print(NOTHING)
        return 0
    for row in tree_rows(report, _SINCE):
        print(row.text)
    for warning in warnings(items):
        print(f"warning: {clean(warning)}")
    return 0


def _place(startup: Startup) -> Place:
    """Where a session would run that was started here with the same words."""
    permissions = startup.loaded.config.permissions
    folders = (*startup.arguments.add_dirs, *permissions.allowed_directories)
    added = (Path(folder).expanduser().resolve() for folder in folders)
    layer, _ = configured_rules(permissions, PathScope(startup.project, startup.paths.home))
    closing = [rule for rule in (*layer.deny, *layer.ask) if rule.pattern is not None and rule.closes_reading]
    return Place(
        startup.paths,
        startup.project,
        startup.cwd,
        tuple(folder for folder in added if is_trusted(folder, startup.paths)),
        is_trusted(startup.project, startup.paths, this_run=startup.arguments.trust),
        (lambda real: any(rule.covers(real) for rule in closing)) if closing else None,
    )


class _There(Struct, frozen=True):
    """What there is: files for the system prompt, what a session gets at its start, and what lies in other folders."""

    system: tuple[InstructionItem, ...]
    items: tuple[InstructionItem, ...]
    nested: tuple[InstructionItem, ...]
    heads: tuple[str, ...]
    """Of all of them, in this order: the first line of what is told of each."""


def _look(startup: Startup, place: Place, seen: Survey) -> _There:
    config = startup.loaded.config.instructions
    consents = Consents(startup.paths.state_file, startup.project)
    system, items = system_prompt_files(place).sources, discover(place, config, consents=consents)
    nested = [
        (item, folder)
        for folder in _folders(seen, place)
        for item in discover_nested(place, config, folder, consents=consents, known=items)
    ]
    return _There(
        system,
        items,
        tuple(as_conditional(item, folder) for item, folder in nested),
        tuple(head(item) for item in (*system, *items, *(item for item, _ in nested))),
    )


def _folders(seen: Survey, place: Place) -> list[Path]:
    """The folders that are not read at the start and hold what looks like instructions."""
    found: dict[Path, None] = {}
    for file in seen.files:
        if not file.lower().endswith(".md"):
            continue
        folder, name = os.path.split(f"/{file}")
        inside = next((mark for mark in _RULE_FOLDERS if mark in f"{folder}/"), "")
        if inside:
            folder = f"{folder}/".partition(inside)[0]
        elif not name.lower().startswith(_NAMES):
            continue
        path = place.project / folder.lstrip("/")
        if path in folders_of(path, place):
            found[path] = None
    return list(found)


def _newest(startup: Startup) -> tuple[Window, Standing]:
    """The window of the newest session of this project, empty where there is none that can be read."""
    window, standing = Window(), Standing()
    try:
        path = sessions.newest(startup.paths.sessions, startup.project)
        if path is not None:
            transcript = Transcript(sessions.load(path).entries)
            window = Window(transcript.branch)
            standing.look(window, transcript.get)
    except (SchemaError, OSError):
        pass  # `claw sessions list` names what cannot be read
    return window, standing


def _files(report: InstructionsReport) -> list[dict[str, Any]]:
    return [
        {
            "path": item.path,
            "layer": item.layer,
            "reason": item.reason,
            "tokens": report.tokens[place],
            "sha256": item.sha256,
            "loaded": item.is_loaded,
            "skipped_because": item.skipped_because,
            "cut_chars": item.cut_chars,
            "duplicates": list(item.duplicates),
            "condition": item.condition or None,
            "active": report.is_active(place),
            "includes": msgspec.to_builtins(item.includes),
        }
        for place, item in enumerate(report.items)
    ]


def _show_findings(findings: tuple[Finding, ...], as_json: bool) -> int:
    if as_json:
        print(spelled_json(json.dumps(msgspec.to_builtins(findings))))
    else:
        for finding in findings:
            print(finding_text(finding))
        errors = sum(finding.severity == "error" for finding in findings)
        count = f"{len(findings):,} finding{'' if len(findings) == 1 else 's'}, {errors:,} of them errors."
        print(count if findings else "No findings.")
    return 1 if has_errors(findings) else 0

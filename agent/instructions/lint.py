"""What is wrong with the instruction files of a place, for their authors and for CI: it reads them again and changes nothing.

Errors are what silently takes text away or cannot hold at all: dead includes, cycles, bad frontmatter, unusable and cut files,
a directive beside its own negation. What may be meant is a warning; what a budget kept it from finding out is told as such.
"""

import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent.config.reading import UnreadableError, read_small
from agent.config.schema import InstructionsConfig
from agent.instructions.contradictions import Contradiction, SourceText, contradictions
from agent.instructions.item import CONFIG_PATH, Include, InstructionItem, all_includes
from agent.instructions.markdown import code_lines
from agent.instructions.place import VARIABLES, Place
from agent.instructions.project_files import Survey, survey
from agent.instructions.report import Finding, FindingKind, Severity
from agent.instructions.rules import matches_any, split_sections
from agent.instructions.text import NotTextError, read_text, without_comments

_VARIABLE = re.compile(r"(?<![\\$])\$\{(\w+)\}")
_CODE_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_SHOWN_CHARS = 80
_MOST_LINE_CHARS = 2_000
_MOST_BYTES = 1 << 18
"""Of one file: far more than is ever sent of it."""
MATCHING_S = 2.0
"""How long rules may be compared with files, all together."""


def lint(
    items: Sequence[InstructionItem],
    place: Place,
    config: InstructionsConfig | None = None,
    seen: Survey | None = None,
    *,
    matching_s: float = MATCHING_S,
) -> tuple[Finding, ...]:
    """What is wrong, by file and line. `seen` is what a walk through the project found; without it one is made if a rule has
    a condition. `matching_s` bounds how long rules are compared with it. Never raises for what stands on disk.
    """
    config = config or InstructionsConfig()
    findings: list[Finding] = []
    for item in items:
        findings += _of_item(item, config)
        findings += _of_includes(item)
    texts = _texts(items)
    for text in texts:
        findings += _unknown_variables(text)
    findings += (_told(found) for found in contradictions(texts))
    findings += _never_matching(items, place, seen, matching_s)
    unique = {(finding.path, finding.line, finding.kind, finding.message): finding for finding in findings}
    return tuple(sorted(unique.values(), key=lambda finding: (finding.path, finding.line)))


# --------------------------------------------------------------------------- one file


def _of_item(item: InstructionItem, config: InstructionsConfig) -> Iterator[Finding]:
    if item.is_trouble:
        yield Finding(item.path, 0, "unusable", "error", f"not loaded: {item.skipped_because}")
    if item.cut_chars:
        message = f"{item.cut_chars:,} characters were cut off; shorten it, or split it into rules with a condition"
        yield Finding(item.path, 0, "too_long", "error", message)
    elif item.chars > config.max_file_chars:
        message = f"{item.chars:,} characters, more than the {config.max_file_chars:,} that one file may have"
        yield Finding(item.path, 0, "too_long", "warning", message)
    if item.hidden:
        counts = ", ".join(f"{count} {kind}" for kind, count in item.hidden.items())
        yield Finding(
            item.path, 0, "hidden", "warning", f"holds characters that cannot be seen ({counts}); remove them"
        )
    for flaw in item.flaws:
        yield Finding(item.path, flaw.line, "bad_frontmatter", "error", flaw.message)


def _of_includes(item: InstructionItem) -> Iterator[Finding]:
    cycles = list(_cycles(item.path, item.includes, (item.path,)))
    circular = {(finding.path, finding.line) for finding in cycles}
    for file, include in all_includes(item):
        if include.status == "asks":
            yield _include_finding(file, include, "include_asks", "warning", "it waits for your decision")
        elif include.status == "refused" and (file, include.line) not in circular:
            is_dead = not include.path or not Path(include.path).exists()
            kind: FindingKind = "dead_include" if is_dead else "include_refused"
            yield _include_finding(file, include, kind, "error" if is_dead else "warning")
    yield from cycles


def _include_finding(file: str, include: Include, kind: FindingKind, severity: Severity, reason: str = "") -> Finding:
    why = include.reason or reason or "it does not exist"
    return Finding(file, include.line, kind, severity, f"{include.written} is not included: {why}")


def _cycles(file: str, includes: Sequence[Include], chain: tuple[str, ...]) -> Iterator[Finding]:
    """Includes of a file that is being included already; `chain` leads from the item to `file`."""
    for include in includes:
        if include.path in chain:
            way = " → ".join(Path(path).name for path in (*chain[chain.index(include.path) :], include.path))
            yield Finding(file, include.line, "cycle", "error", f"{include.written} includes itself again: {way}")
        elif include.path:
            yield from _cycles(include.path, include.includes, (*chain, include.path))


# --------------------------------------------------------------------------- the texts as they are on disk


def _texts(items: Sequence[InstructionItem]) -> list[SourceText]:
    """The prose of every file that is sent, now or later, each once with the files that it includes."""
    found: dict[tuple[str, str], SourceText] = {}
    for item in items:
        if item.status == "skipped":
            continue
        paths = [item.path, *(include.path for _, include in all_includes(item) if include.status == "followed")]
        for path in paths:
            if (path, item.condition) not in found and (text := _read(item, path)) is not None:
                found[path, item.condition] = text
    return list(found.values())


def _read(item: InstructionItem, path: str) -> SourceText | None:
    if path == CONFIG_PATH:
        return SourceText(path, tuple(_prose(item.text)), item.condition)
    try:
        file = read_small(Path(path), _MOST_BYTES)
        if file is None:
            return None
        clean = read_text(file.data, whole=file.size_bytes <= len(file.data))
    except (UnreadableError, NotTextError):
        return None
    before = clean.first_line - 1
    sections = split_sections(clean.text)
    own = [section for section in sections if path == item.path and before + section.line == item.line]
    shown = {before + section.line + at for section in own or sections for at in range(section.text.count("\n") + 1)}
    lines = [*("" for _ in range(before)), *_prose(clean.text)]
    return SourceText(path, tuple(line if at in shown else "" for at, line in enumerate(lines, 1)), item.condition)


def _prose(text: str) -> list[str]:
    """The lines, those of code and comments left empty."""
    code = code_lines(text)
    bare, _ = without_comments(text)
    return ["" if at in code else line for at, line in enumerate(bare.split("\n"))]


def _unknown_variables(text: SourceText) -> Iterator[Finding]:
    import difflib

    for number, line in enumerate(text.lines, 1):
        if "${" not in line or len(line) > _MOST_LINE_CHARS:
            continue
        for match in _VARIABLE.finditer(_CODE_SPAN.sub("", line)):
            if match[1] not in VARIABLES:
                near = difflib.get_close_matches(match[1], VARIABLES, 1, 0.5)
                meant = (
                    f"did you mean ${{{near[0]}}}?"
                    if near
                    else "known are " + ", ".join(f"${{{v}}}" for v in VARIABLES)
                )
                message = f"${{{match[1]}}} is no variable and stays as it is; {meant}"
                yield Finding(text.path, number, "unknown_variable", "warning", message)


def _told(found: Contradiction) -> Finding:
    where = f"{found.other_path}:{found.other_line}"
    said, other = _shown(found.said), _shown(found.other_said)
    if found.key:
        message = f"{said} stands against {other} in {where}; keep one"
        return Finding(found.path, found.line, "contradiction", "warning", message)
    return Finding(found.path, found.line, "contradiction", "error", f"{said} contradicts {other} in {where}")


def _shown(said: str) -> str:
    return repr(said if len(said) <= _SHOWN_CHARS else f"{said[: _SHOWN_CHARS - 1]}…")


# --------------------------------------------------------------------------- rules


def _never_matching(
    items: Sequence[InstructionItem], place: Place, seen: Survey | None, seconds: float
) -> Iterator[Finding]:
    rules = [item for item in items if item.patterns and item.status == "conditional"]
    if not rules:
        return
    seen = seen if seen is not None else survey(place.project)
    end_s = time.monotonic() + seconds
    for item in rules:
        verdict = _matches_any(item, place, seen, end_s)
        if verdict is None:
            message = f"cannot tell whether {item.condition} matches anything: there is too much to look at"
            yield Finding(item.path, item.line, "cannot_tell", "info", message)
        elif not verdict and (not item.base or Path(item.base).is_relative_to(place.project)):
            message = f"{item.condition} matches no file of the project, so it is never told"
            yield Finding(item.path, item.line, "never_matches", "warning", message)


def _matches_any(item: InstructionItem, place: Place, seen: Survey, end_s: float) -> bool | None:
    """Whether a rule matches a file of the project; None: there was no room or time to find out."""
    base = Path(item.base)
    if place.project.is_relative_to(base):
        above = "" if base == place.project else f"{place.project.relative_to(base).as_posix()}/"
        names = (above + file for file in seen.files)
    else:
        beneath = f"{os.path.relpath(base, place.project)}/"
        names = (file[len(beneath) :] for file in seen.files if file.startswith(beneath))
    for number, is_match in enumerate(matches_any(item, names)):
        if is_match:
            return True
        if number % 256 == 0 and time.monotonic() > end_s:
            return None
    return False if seen.complete else None

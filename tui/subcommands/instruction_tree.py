"""The instruction files of a session as a tree of rows: folder, file, and under it what became of it. Pure; the screen and
the command line show the same rows. What comes from files and paths is cleaned here.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from agent.instructions.item import CONFIG_PATH, Include, InstructionItem
from agent.instructions.report import Finding, InstructionsReport
from tui.exact import Row
from tui.sanitize import clean, one_line

NOTHING = "No instruction files apply here."
_GUIDE = "│   "
_MOST_CHARS = 400


def tree_rows(report: InstructionsReport, since: str) -> list[Row]:
    """`since` names the moment that a file is compared with, for instance "since this session began"."""
    if not report.items:
        return [Row(NOTHING, "dim")]
    rows: list[Row] = []
    folder = ""
    for place, item in enumerate(report.items):
        home = "config.toml" if item.path == CONFIG_PATH else str(Path(item.path).parent)
        if home != folder:
            folder = home
            rows.append(Row(_line(home), "title"))
        rows += _item_rows(report, place, item, since)
    total = sum(tokens for place, tokens in enumerate(report.tokens) if report.is_active(place))
    rows += [Row(""), Row(f"{total:,} tokens in force", "dim")]
    return rows


def finding_rows(findings: Iterable[Finding]) -> list[Row]:
    return [Row(finding_text(finding), "warning" if finding.severity == "error" else "text") for finding in findings]


def finding_text(finding: Finding) -> str:
    """One line: where, how bad, what."""
    where = f"{finding.path}:{finding.line}" if finding.line else finding.path
    return f"{_line(where)}: {finding.severity}: {_line(finding.message)} [{finding.kind}]"


def _item_rows(report: InstructionsReport, place: int, item: InstructionItem, since: str) -> Iterator[Row]:
    name = item.path if item.path == CONFIG_PATH else Path(item.path).name
    name += f":{item.line}" if item.line > 1 else ""
    state = {"loaded": "loaded", "skipped": f"skipped: {item.skipped_because}", "conditional": "conditional"}[
        item.status
    ]
    facts = [state, item.layer, item.reason]
    if item.status != "skipped":
        facts += [
            f"{report.tokens[place]:,} token{'' if report.tokens[place] == 1 else 's'}",
            f"sha256 {item.sha256[:8]}",
        ]
    kind = "warning" if item.is_trouble else "dim" if item.status == "skipped" else "text"
    yield Row(f"├ {_line(name)}  ({_line('; '.join(facts))})", kind)
    for text, style in _details(report, place, item, since):
        yield Row(f"{_GUIDE}{_line(text)}", style)
    yield from _include_rows(item.includes, _GUIDE)


def _details(report: InstructionsReport, place: int, item: InstructionItem, since: str) -> Iterator[tuple[str, str]]:
    if item.path in report.changed:
        yield f"changed on disk {since}", "warning"
    if item.condition:
        state = "active now" if report.is_active(place) else "not active: nothing that it names was touched"
        yield f"condition: {item.condition} ({state})", "dim"
    if item.cut_chars:
        yield f"cut: {item.cut_chars:,} characters were left out", "warning"
    if item.hidden:
        yield "hidden characters removed: " + ", ".join(f"{n} {kind}" for kind, n in item.hidden.items()), "warning"
    for other in item.duplicates:
        yield f"the same as {other}", "dim"


def _include_rows(includes: Iterable[Include], guide: str) -> Iterator[Row]:
    for include in includes:
        size = f", {include.chars:,} characters" if include.status == "followed" else ""
        why = f": {include.reason}" if include.reason else ""
        text = f"line {include.line}: {include.written} → {include.path or 'no path'} ({include.status}{size}{why})"
        yield Row(f"{guide}{_line(text)}", "dim" if include.status == "followed" else "warning")
        yield from _include_rows(include.includes, f"{guide}  ")


def _line(text: str) -> str:
    """Foreign text on one line, of a bounded length."""
    if len(text) > _MOST_CHARS:
        return one_line(text, _MOST_CHARS)
    return clean(text.replace("\n", "␊").replace("\t", " "))

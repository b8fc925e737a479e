"""`claw doctor`: what claw finds of itself and its surroundings, a line each, with what to do about it."""

import asyncio
import shutil
import sys
import textwrap
from collections.abc import Iterator

import msgspec

from agent.recorder import storable
from tui.launch.startup import Startup
from tui.sanitize import clean, spelled_json
from tui.subcommands import doctor_checks
from tui.subcommands.doctor_checks import Finding

EXIT_FINE, EXIT_FAILING = 0, 1
_CHECKS = (
    doctor_checks.versions,
    doctor_checks.terminal,
    doctor_checks.folders,
    doctor_checks.configuration,
    doctor_checks.keys,
    doctor_checks.tokenizer,
    doctor_checks.sdk,
    doctor_checks.programs,
)
_SERVER_PATIENCE_S = 10.0


def doctor(startup: Startup) -> int:
    """Run every check and write what was found; 1 if something does not work."""
    findings: list[Finding] = []
    for finding in _findings(startup):
        findings.append(finding)
        if not startup.arguments.as_json:
            sys.stdout.write(_line(finding))
            sys.stdout.flush()
    failing = any(finding.status == "fail" for finding in findings)
    if startup.arguments.as_json:
        shown = [{name: storable(value) for name, value in msgspec.to_builtins(found).items()} for found in findings]
        sys.stdout.write(spelled_json(msgspec.json.encode({"ok": not failing, "checks": shown}).decode()) + "\n")
    return EXIT_FAILING if failing else EXIT_FINE


def _findings(startup: Startup) -> Iterator[Finding]:
    for check in _CHECKS:
        try:
            yield from check(startup)
        except Exception as error:  # the other checks are wanted all the more then
            yield Finding(check.__name__, "fail", f"cannot be checked: {type(error).__name__}: {error}")
    if startup.arguments.online:
        yield from asyncio.run(doctor_checks.ask_servers(startup, _SERVER_PATIENCE_S))


def _line(finding: Finding) -> str:
    text = _row(f"{finding.status:<5} {finding.name:<16}", finding.detail)
    return text + (_row(f"{'':<22} →", finding.remedy) if finding.remedy else "")


def _row(head: str, text: str) -> str:
    """One line; on a terminal as many as its width takes, with words whole."""
    words = " ".join(clean(text).split())
    if not sys.stdout.isatty():
        return f"{head} {words}\n"
    width = max(40, shutil.get_terminal_size().columns)
    indent = " " * (len(head) + 1)
    return (
        textwrap.fill(words, width, initial_indent=f"{head} ", subsequent_indent=indent, break_on_hyphens=False) + "\n"
    )

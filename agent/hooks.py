"""Runs the user's own commands before and after a compaction, through the session's spawner.

A command line of `[hooks] PreCompact` or `PostCompact` goes to `sh` in the folder claw was started in, with one JSON object
on standard input: `event`, `session_id`, `trigger`, `tokens`, `cwd`. Before a compaction: exit 0 adds standard output to
what the summary looks after, exit 2 refuses it with standard error as the reason, anything else warns and goes on. After
one, only a failure is told. Decisions: hooks run one after the other; the first refusal ends it; at most 16,000 characters
of what a hook says are used.
"""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from agent.events import Emit, Notice
from agent.processes import CommandNotStartedError, Spawner, SpawnerError

_TIMEOUT_S = 60.0
_MOST_CHARS = 16_000
_MOST_REASON_CHARS = 400
_REFUSED = 2
# The spawner gives a command no standard input of its own and joins what it says. No file that a hook writes becomes
# larger than 256 MiB, so that one that never stops talking does not fill the disk.
_WRAPPER = 'ulimit -f 524288; exec <"$1" >"$2" 2>"$3"; exec /bin/sh -c "$4"'


class HookFacts(Struct, frozen=True):
    """What a hook is told."""

    session_id: str
    trigger: Literal["auto", "manual", "overflow"]
    tokens: int
    """Of the window before the compaction, or after it."""


class Agreed(Struct, frozen=True):
    """The compaction may go on."""

    focus: str
    """What the summary should look after besides; empty: nothing."""


class HookRefused(Struct, frozen=True):
    reason: str


class _Ran(Struct, frozen=True):
    exit_code: int | None
    """None: it was ended, or did not start."""
    said: str
    """Standard output."""
    complaint: str
    """Standard error, or what went wrong."""


class CompactionHooks:
    """The hooks around compactions of one session."""

    def __init__(
        self,
        spawner: Spawner,
        cwd: Path,
        emit: Emit,
        before: Sequence[str] = (),
        after: Sequence[str] = (),
        timeout_s: float = _TIMEOUT_S,
        without_secrets: Callable[[str], str] = str,
    ) -> None:
        """`without_secrets`: what becomes of a text that a hook says."""
        self._without_secrets = without_secrets
        self._spawner = spawner
        self._cwd = cwd
        self._emit = emit
        self._before = tuple(before)
        self._after = tuple(after)
        self._timeout_s = timeout_s

    async def before(self, facts: HookFacts) -> Agreed | HookRefused:
        """Run the PreCompact hooks; a cancellation ends the one that runs and goes through."""
        focus: list[str] = []
        for command in self._before:
            ran = await self._run(command, "PreCompact", facts)
            if ran.exit_code == _REFUSED:
                return HookRefused(_one_line(ran.complaint, _MOST_REASON_CHARS) or "no reason was given")
            if ran.exit_code != 0:
                self._warn("PreCompact", command, ran)
            elif ran.said:
                focus.append(ran.said)
        return Agreed("\n\n".join(focus))

    async def after(self, facts: HookFacts) -> None:
        """Run the PostCompact hooks."""
        for command in self._after:
            ran = await self._run(command, "PostCompact", facts)
            if ran.exit_code != 0:
                self._warn("PostCompact", command, ran)

    def _warn(self, event: str, command: str, ran: _Ran) -> None:
        why = f"exit code {ran.exit_code}" if ran.exit_code is not None else "it did not end by itself"
        said = f": {_one_line(ran.complaint, _MOST_REASON_CHARS)}" if ran.complaint else ""
        text = f"The {event} hook `{_one_line(command, 200)}` failed ({why}){said}. The work goes on."
        self._emit(Notice("warning", text, "The commands stand under [hooks] in config.toml."))

    async def _run(self, command: str, event: str, facts: HookFacts) -> _Ran:
        told = {
            "event": event,
            "session_id": facts.session_id,
            "trigger": facts.trigger,
            "tokens": facts.tokens,
            "cwd": str(self._cwd),
        }
        try:
            folder = await asyncio.to_thread(_folder_with, await self._spawner.folder(), json.dumps(told))
        except (SpawnerError, OSError) as error:
            return _Ran(None, "", str(error))
        files = [str(folder / name) for name in ("in", "out", "err")]
        try:
            outcome = await self._spawner.run(
                ["/bin/sh", "-c", _WRAPPER, "claw-hook", *files, command], cwd=self._cwd, timeout_s=self._timeout_s
            )
            said, complaint = map(self._without_secrets, await asyncio.to_thread(_read_both, folder))
        except (CommandNotStartedError, SpawnerError, OSError) as error:
            return _Ran(None, "", str(error))
        finally:
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))
        if outcome.status == "timeout":
            complaint = f"it took longer than {self._timeout_s:g} s. {complaint}".strip()
        return _Ran(outcome.exit_code if outcome.status == "exited" else None, said, complaint)


def _one_line(text: str, most_chars: int) -> str:
    line = " ".join(text[: 4 * most_chars].split())
    return line if len(line) <= most_chars else f"{line[: most_chars - 1]}…"


def _folder_with(place: Path, text: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="hook-", dir=place))
    (folder / "in").write_text(text + "\n")
    return folder


def _read_both(folder: Path) -> tuple[str, str]:
    return _read(folder / "out"), _read(folder / "err")


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_CHARS * 4).decode("utf-8", "replace").strip()[:_MOST_CHARS]
    except FileNotFoundError:
        return ""

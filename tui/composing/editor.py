"""A text in the user's own editor: which one that is, and what comes back. The terminal is the application's to give.

The editor is what $VISUAL or $EDITOR says, found by absolute entries of PATH, else one of the usual ones; never a program
that lies in the project. It runs in a private folder, so that no file of the project configures it.
"""

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.spawner.tree import below

END_S = 0.3
"""How long an editor that must end has to save what can be recovered."""
MOST_BYTES = 16 * 1024 * 1024
_USUAL = ("nano", "vim", "vi", "emacs")
_USUAL_PLACES = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/bin")


class EditorError(Exception):
    """The text was not edited; why, and what to do."""


def find_editor(env: Mapping[str, str], project: Path, usual_places: Sequence[str] = _USUAL_PLACES) -> list[str]:
    """The command to which a file's name is added.

    Raises:
        EditorError: none can be used.
    """
    for variable in ("VISUAL", "EDITOR"):
        if wanted := env.get(variable, "").strip():
            return _named(wanted, variable, env, project)
    for name in _USUAL:
        for place in usual_places:
            if os.access(f"{place}/{name}", os.X_OK):
                return [f"{place}/{name}"]
    raise EditorError("No editor was found. Set VISUAL or EDITOR, for instance to nano.")


def _named(wanted: str, variable: str, env: Mapping[str, str], project: Path) -> list[str]:
    try:
        name, *arguments = shlex.split(wanted)
    except ValueError as error:
        raise EditorError(f"${variable} cannot be read as a command ({error}): {wanted}") from None
    if "/" in name and not name.startswith("/"):
        raise EditorError(
            f"${variable} is {name}, a path that depends on the folder. Give an absolute path, or a name."
        )
    folders = [place for place in env.get("PATH", os.defpath).split(os.pathsep) if place.startswith("/")]
    found = shutil.which(name, path=os.pathsep.join(folders)) if "/" not in name else name
    if found is None or not os.access(found, os.X_OK):
        raise EditorError(f"${variable} is {name}, and there is no such program.")
    top = project.resolve()
    at_home = Path(env.get("HOME") or "/").resolve().is_relative_to(top)  # where the user's own programs lie
    if not at_home and (Path(found).resolve().is_relative_to(top) or Path(found).is_relative_to(top)):
        raise EditorError(
            f"${variable} is {found}, which lies in the project; a project's programs are not run for this."
        )
    return [found, *arguments]


async def edit_text(command: Sequence[str], text: str) -> str:
    """Let the editor change the text, and wait for its end. Cancelled, it is ended, and what it would have written is lost.

    Raises:
        EditorError: it failed, or what it left cannot be used.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="claw-edit-") as folder:
            path = Path(folder) / "message.md"
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(text.encode("utf-8", "replace"))
            process = await asyncio.create_subprocess_exec(*command, str(path), cwd=folder)
            try:
                code = await process.wait()
            finally:
                if process.returncode is None:
                    await asyncio.shield(_end(process))
            if code:
                how = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
                raise EditorError(f"{command[0]} {how}, so the text stays as it was.")
            return await asyncio.to_thread(_read, path)
    except OSError as error:
        raise EditorError(f"{command[0]} cannot be used: {error}.") from None


async def _end(process: asyncio.subprocess.Process) -> None:
    """End an editor and what it started: TERM, on which editors save what can be recovered, a moment, KILL."""
    pids = [process.pid, *below(process.pid)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), END_S)


def _read(path: Path) -> str:
    with contextlib.closing(path.open("rb")) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise EditorError(f"The text has more than {MOST_BYTES:,} bytes, so it stays as it was.")
    return data.decode("utf-8", "replace").removesuffix("\n")

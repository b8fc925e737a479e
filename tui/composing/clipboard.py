"""An image on the system's clipboard, read by the program the system has for that; never one from the project or by PATH."""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
import weakref
from pathlib import Path

from agent.command_environment import without_secrets

MOST_BYTES = 64 * 1024 * 1024
_PATIENCE_S = 3.0
_PLACES = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/local/bin")
_READERS = (
    ("wl-paste", ("--no-newline", "--type", "image/png"), "WAYLAND_DISPLAY"),
    ("xclip", ("-selection", "clipboard", "-target", "image/png", "-out"), "DISPLAY"),
    ("pngpaste", ("-",), ""),
)
"""Program, arguments, and the variable without which it has nothing to read."""
_PNG = b"\x89PNG\r\n\x1a\n"
HINT = "No image on the clipboard can be read: install wl-paste, xclip or pngpaste."


def image_reader(places: tuple[str, ...] = _PLACES) -> list[str] | None:
    """The command that writes the clipboard's image to its output; None if there is no such program."""
    for name, arguments, variable in _READERS:
        if variable and not os.environ.get(variable):
            continue
        for place in places:
            if os.access(path := f"{place}/{name}", os.X_OK):
                return [path, *arguments]
    return None


async def read_image(command: list[str]) -> bytes | None:
    """The image as PNG; None if there is none, or it does not come in time."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd="/",
            env=without_secrets(os.environ),
            start_new_session=True,
        )
    except OSError:
        return None
    assert process.stdout is not None
    data = bytearray()
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while len(data) <= MOST_BYTES and (piece := await process.stdout.read(1 << 16)):
                data += piece
    except TimeoutError:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        while await process.stdout.read(1 << 16):  # the pipe has to be empty before it closes
            pass
        await process.wait()
    return bytes(data) if data.startswith(_PNG) and len(data) <= MOST_BYTES else None


class PastedImages:
    """A private folder for images from the clipboard, for as long as claw runs: a message takes them in when it is sent."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._count = 0

    def keep(self, data: bytes) -> Path:
        """
        Raises:
            OSError: it cannot be written.
        """
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="claw-pasted-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._count += 1
        path = self._folder / f"image-{self._count}.png"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
        return path

"""The messages that were sent before, for Up and Down in the composer. One JSON string a line in one file (0600).

Several claws may write at once: under a lock a line is appended whole, or not at all, and put on the disk; the file is cut to
its bound by replacing it. A file that cannot be used (missing rights, a device, a damaged line) costs the history, never the
session.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from agent.config.paths import ensure_private_dir
from agent.config.private_file import BusyFileError, locked, make_private, replace_private

MAX_ENTRIES = 500
MAX_ENTRY_CHARS = 20_000
"""A longer message is remembered until claw ends, and not written."""
MAX_FILE_BYTES = 2_000_000


class PromptHistory:
    """What was sent, oldest first. `read` and `save` touch the disk and belong in a thread; the rest is memory."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._texts: list[str] = []
        self._place = 0
        """Index of the entry shown; the length of the list while it is the draft."""
        self._draft = ""

    def keep_in(self, path: Path | None) -> None:
        """From now on what is sent is kept there."""
        self._path = path

    def read(self) -> list[str]:
        """What the file holds; hand it to `prepend`."""
        return _read(self._path) if self._path is not None else []

    def prepend(self, texts: list[str]) -> None:
        """Put older messages before what was sent since the start."""
        at_draft = self._place == len(self._texts)
        self._texts[:0] = texts
        self._place = len(self._texts) if at_draft else self._place + len(texts)

    def add(self, text: str) -> bool:
        """Remember a message that was sent and go back to the draft. False if it repeats the newest one."""
        new = bool(text.strip()) and (not self._texts or self._texts[-1] != text)
        if new:
            self._texts.append(text)
            del self._texts[:-MAX_ENTRIES]
        self._place = len(self._texts)
        self._draft = ""
        return new

    def newest_first(self) -> list[str]:
        """Everything that is remembered, each text once."""
        return list(dict.fromkeys(reversed(self._texts)))

    def older(self, current: str) -> str | None:
        """The entry before the one shown, or None at the oldest. `current` is kept as the draft when leaving it."""
        if self._place == 0:
            return None
        if self._place == len(self._texts):
            self._draft = current
        self._place -= 1
        return self._texts[self._place]

    def newer(self) -> str | None:
        """The entry after the one shown, at last the draft; None if the draft is shown already."""
        if self._place >= len(self._texts):
            return None
        self._place += 1
        return self._draft if self._place == len(self._texts) else self._texts[self._place]

    def save(self, text: str) -> None:
        """Append one message to the file."""
        if self._path is None or len(text) > MAX_ENTRY_CHARS:
            return
        import json

        line = json.dumps(text).encode() + b"\n"
        with contextlib.suppress(OSError, BusyFileError), _locked(self._path):
            _append(self._path, line)
            if self._path.stat().st_size > MAX_FILE_BYTES:
                _cut(self._path)


def _read(path: Path) -> list[str]:
    import json  # not needed for the first frame

    texts: list[str] = []
    with contextlib.suppress(OSError), _opened(path, os.O_RDONLY) as descriptor:
        size = os.fstat(descriptor).st_size
        os.lseek(descriptor, max(0, size - MAX_FILE_BYTES), os.SEEK_SET)
        for line in os.read(descriptor, MAX_FILE_BYTES).splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                text = json.loads(line)
                if isinstance(text, str) and text.strip():
                    texts.append(text)
    return texts[-MAX_ENTRIES:]


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    """A descriptor of a regular file; made with mode 0600 where `flags` say so.

    Raises:
        OSError: also for a link, a folder or a device.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file")
        make_private(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    ensure_private_dir(path.parent)
    with locked(path):
        yield


def _append(path: Path, line: bytes) -> None:
    with _opened(path, os.O_RDWR | os.O_CREAT | os.O_APPEND) as descriptor:
        end = os.lseek(descriptor, 0, os.SEEK_END)
        if end and os.pread(descriptor, 1, end - 1) != b"\n":
            line = b"\n" + line  # a line that was cut off must not swallow this one
        if os.write(descriptor, line) < len(line):  # a full disk took some of it
            os.ftruncate(descriptor, end)
        os.fdatasync(descriptor)


def _cut(path: Path) -> None:
    """Keep the newest entries; the file is replaced, so a crash leaves the old one."""
    import json

    kept = b"".join(json.dumps(text).encode() + b"\n" for text in _newest_within(_read(path), MAX_FILE_BYTES // 2))
    replace_private(path, kept)


def _newest_within(texts: list[str], size_bytes: int) -> list[str]:
    total = 0
    for index in range(len(texts) - 1, -1, -1):
        total += 6 * len(texts[index])  # at worst, as JSON
        if total > size_bytes:
            return texts[index + 1 :]
    return texts

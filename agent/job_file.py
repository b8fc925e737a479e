"""The file with a job's output that others may read: a copy without secrets of what its supervisor writes in private.

The copy follows the job at a short distance. Its memory is bounded, and a full disk costs the copy, not the job.
"""

import contextlib
import os
import threading
from pathlib import Path

from agent.redaction_stream import RedactionStream

_WINDOW_BYTES = 64 * 1024


class JobFile:
    def __init__(self, raw: Path, path: Path, stream: RedactionStream) -> None:
        """`raw`: what the supervisor writes, from its beginning on, and only at its end."""
        self.path = path
        self._raw = raw
        self._stream = stream
        self._read_bytes = 0
        self._is_made = False
        self._working = threading.Lock()

    def catch_up(self, *, to_the_end: bool = False) -> None:
        """Copy what is new; `to_the_end`: nothing comes behind it. Blocks; several threads may ask."""
        with self._working, contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            target = os.open(self.path, flags | (0 if self._is_made else os.O_CREAT | os.O_EXCL), 0o600)
            self._is_made = True
            with os.fdopen(target, "wb") as copy:
                with contextlib.suppress(FileNotFoundError), self._raw.open("rb") as raw:
                    raw.seek(self._read_bytes)
                    while data := raw.read(_WINDOW_BYTES):
                        self._read_bytes += len(data)
                        copy.write(self._stream.feed(data.decode("latin-1")).encode("latin-1"))
                if to_the_end:
                    copy.write(self._stream.finish().encode("latin-1"))

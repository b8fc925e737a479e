"""A process that counts tokens (o200k.py), as seen from here: started, asked, ended. Knows nothing of messages."""

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

from agent.context.o200k import HEADER_BYTES, TokenizerUnavailableError

_START_PATIENCE_S = 60.0
_PATIENCE_S = 20.0
"""For one count; what is counted of the longest text takes a tenth of a second."""
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from agent.context.o200k import serve; serve(sys.argv[2])"
)


class CountingProcess:
    """Counts texts one at a time, for any thread. The process ends with this object, or with claw, however that ends."""

    def __init__(self, ranks_file: Path | None = None) -> None:
        """Starts it and waits until it can count, without holding the interpreter.

        Raises:
            TokenizerUnavailableError: it cannot.
        """
        root = str(Path(__file__).resolve().parents[2])
        paths = json.dumps([root, *(path for path in sys.path if path != root)])
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOT, paths, str(ranks_file or "")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                env={"MALLOC_TRIM_THRESHOLD_": "65536"},  # give back what only loading needed
                start_new_session=True,
            )
        except OSError as error:
            raise TokenizerUnavailableError(f"the counting process cannot be started: {error}") from error
        self._lock = threading.Lock()
        self._finish = weakref.finalize(self, _end, self._process, self._lock)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        self._await_ready()

    def _await_ready(self) -> None:
        said = bytearray()
        try:
            while not said.endswith(b"\n"):
                said += self._receive(1, time.monotonic() + _START_PATIENCE_S)
        except (OSError, TimeoutError) as error:
            self.close()
            raise TokenizerUnavailableError(f"the counting process does not answer: {error}") from error
        if reason := said.decode("utf-8", "replace").strip():
            self.close()
            raise TokenizerUnavailableError(reason)

    @property
    def pid(self) -> int:
        return self._process.pid

    def count(self, text: str) -> int:
        """
        Raises:
            OSError: the process is gone, or does not answer (TimeoutError).
        """
        data = text.encode("utf-8", "surrogatepass")
        with self._lock:
            deadline = time.monotonic() + _PATIENCE_S
            self._send(len(data).to_bytes(HEADER_BYTES, "little") + data, deadline)
            return int.from_bytes(self._receive(HEADER_BYTES, deadline), "little")

    def close(self) -> None:
        """End the process."""
        self._finish()

    def _send(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._input, rest) :]
            except BlockingIOError:
                _wait(self._input, select.POLLOUT, deadline)

    def _receive(self, size: int, deadline: float) -> bytes:
        data = b""
        while len(data) < size:
            _wait(self._output, select.POLLIN, deadline)
            piece = os.read(self._output, size - len(data))
            if not piece:
                raise BrokenPipeError("it has ended")
            data += piece
        return data


def _wait(descriptor: int, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise TimeoutError("it does not answer in time")


def _end(process: "subprocess.Popen[bytes]", lock: threading.Lock) -> None:
    with contextlib.suppress(OSError):
        process.kill()
    with lock:  # who waits for a count finds the end of the output, and no longer uses the pipes
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
    process.wait()

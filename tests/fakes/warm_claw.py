"""claw for the price of a fork: a process that has everything loaded becomes `claw …`.

For tests that use the program and do not test how Python starts it. One such process serves a whole run of tests. Run as a
module it is that process: over the socket on standard input it is given one JSON object a message, with a descriptor on which
it answers with the new process's id and, in the end, its wait status, and up to three for the standard streams.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_LOADED = (
    "openai", "anthropic", "tiktoken", "genai_prices.data_snapshot", "tui.app", "tui.launch.screen_mode", "tui.screens.approval",
    "tui.headless.one_task", "tui.subcommands.reports", "agent.session", "agent.tools.bash",
)  # fmt: skip
_MOST_BYTES = 1 << 17
_OF_PYTHON = ("PYTHON", "LC_", "LANG", "LD_")
"""Variables that count when Python starts, so not after a fork."""


class Started:
    """A process that was started. Its parent waits for it and tells how it ended."""

    def __init__(self, status: socket.socket) -> None:
        self.status: int | None = None
        """The exit code, negative for a signal; None while it runs."""
        self.told = status
        """Can be read when the process has ended."""
        self.pid = int(status.recv(32))

    def ended(self) -> bool:
        if self.status is None and select.select([self.told], [], [], 0)[0]:
            self.wait()
        return self.status is not None

    def wait(self) -> int:
        """The exit code, when there is one."""
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(int(self.told.recv(32)))
            self.told.close()
        return self.status

    def send_signal(self, number: int) -> None:
        """As `Popen` does it: nothing when it has ended."""
        if not self.ended():
            os.kill(self.pid, number)


class WarmClaw:
    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asking = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                cwd=Path(__file__).parents[2],
                env={"PATH": os.environ["PATH"], "PYTHONWARNINGS": "error", "TEXTUAL_ANIMATIONS": "none"},
                stdin=theirs.fileno(),
                start_new_session=True,
            )

    def start(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        *,
        streams: Sequence[int] = (),
        terminal: str = "",
        ignored: Sequence[int] = (),
        umask: int = -1,
    ) -> Started:
        """Start `claw …` in a session of its own, on this terminal or with these three streams. `ignored`: signals that it is
        started with as ignored, as `nohup` does."""
        asked = {
            "argv": argv, "cwd": str(cwd), "env": dict(env), "terminal": terminal, "ignored": list(ignored), "umask": umask,
        }  # fmt: skip
        # Each answer by itself: one that ends at once may give both before the first is read.
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._asking:
            socket.send_fds(self._control, [json.dumps(asked).encode()], [theirs.fileno(), *streams])
        return Started(ours)

    def end(self) -> None:
        self._control.close()
        self._process.wait(30)


_of_this_process: list[WarmClaw] = []
_starting = threading.Lock()


def warm_claw() -> WarmClaw:
    """The one of this process, started when it is first wanted. `end_warm_claw` ends it."""
    with _starting:
        if not _of_this_process:
            _of_this_process.append(WarmClaw())
        return _of_this_process[0]


def end_warm_claw() -> None:
    while _of_this_process:
        _of_this_process.pop().end()


def can_be_warm(env: Mapping[str, str]) -> bool:
    """Whether claw in these surroundings is the same when it is forked. Elsewhere than on Linux a fork is not safe."""
    return sys.platform == "linux" and not any(name.startswith(_OF_PYTHON) and name != "PYTHONWARNINGS" for name in env)


def _serve() -> None:
    for name in _LOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # nobody looks for garbage in what all have in common, so it is not copied either
    with socket.socket(fileno=os.dup(0)) as control:
        _take_orders(control)


def _take_orders(control: socket.socket) -> None:
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, _MOST_BYTES, 4)
        if not data:
            return
        if os.fork() == 0:
            control.close()
            _wait_for_claw(json.loads(data), descriptors)
        for each in descriptors:
            os.close(each)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # those that waited for claw, and what that cost
                pass


def _wait_for_claw(asked: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    answer, *streams = descriptors
    if (pid := os.fork()) == 0:
        os.close(answer)
        _become_claw(asked, streams)
    for number in (0, 1, 2, *streams):  # or nobody would see that claw has closed them
        os.close(number)
    os.write(answer, b"%d" % pid)
    _, status = os.waitpid(pid, 0)
    os.write(answer, b"%d" % status)
    os._exit(0)


def _become_claw(asked: Mapping[str, Any], streams: Sequence[int]) -> None:
    from tui.cli import run

    os.setsid()
    if asked["terminal"]:
        streams = [os.open(asked["terminal"], os.O_RDWR)] * 3  # opening it makes it control the session
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in set(streams):
        os.close(stream)
    _renew_streams()
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    for number in asked["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    if asked["umask"] >= 0:
        os.umask(asked["umask"])
    sys.argv[:] = ["claw", *asked["argv"]]
    del sys.path[0]  # the folder that this process was started in
    code = run(asked["argv"])
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # to take everything apart would copy all that was shared


def _renew_streams() -> None:
    """What Python makes of the three descriptors when it starts with no locale."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        errors = "backslashreplace" if name == "stderr" else "surrogateescape"
        stream = os.fdopen(number, mode, 1 if number == 2 else -1, encoding="utf-8", errors=errors, closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    _serve()

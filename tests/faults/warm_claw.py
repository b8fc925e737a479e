"""The real program in a pseudo-terminal for the price of a fork: a process that has everything loaded becomes `claw …`.

For gates that start it hundreds of times. Run as a module it is that process: over the socket on standard input it is given
one JSON object a message, {cwd, env, argv, terminal, ignored}, with a descriptor on which it answers with the new process's
id and, in the end, its wait status.
"""

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fakes.claw_process import environment
from tests.fakes.session_kit import Desk
from tests.tui.program import Program

_LOADED = (
    "openai", "tiktoken", "genai_prices.data_snapshot", "tui.app", "tui.launch.screen_mode", "tui.screens.approval",
    "agent.session", "agent.tools.bash",
)  # fmt: skip
_MOST_BYTES = 1 << 16


class WarmClaw:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._asking = threading.Lock()

    def start(self, line: Mapping[str, Any]) -> tuple[int, socket.socket]:
        """The new process's id, and where its wait status will come from."""
        ours, theirs = socket.socketpair()
        with theirs, self._asking:
            socket.send_fds(self._control, [json.dumps(line).encode()], [theirs.fileno()])
        ours.settimeout(30)
        return int(ours.recv(32)), ours


class WarmProgram(Program):
    """One run of claw, forked from what is warm."""

    def __init__(
        self, warm: WarmClaw, desk: Desk, *arguments: str, ignored: Sequence[int] = (), **options: Any
    ) -> None:
        """`ignored`: signals that it is started with as ignored, as `nohup` does."""
        self._warm = warm
        self._ignored = tuple(ignored)
        self._status: socket.socket | None = None
        super().__init__(desk, *arguments, **options)

    def spawn(self, argv: Sequence[str], terminal: str, cwd: Path, env: Mapping[str, str]) -> int:
        line = {"cwd": str(cwd), "env": dict(env), "argv": argv[3:], "terminal": terminal, "ignored": self._ignored}
        pid, self._status = self._warm.start(line)
        return pid

    def ended(self) -> bool:
        if self.status is None and self._status is not None and select.select([self._status], [], [], 0)[0]:
            self.status = os.waitstatus_to_exitcode(int(self._status.recv(32)))
            self._status.close()
        return self.status is not None

    def close(self) -> None:
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            assert self._status is not None
            self._status.recv(32)
            self._status.close()
            self.status = -signal.SIGKILL
        self.hang_up()

    def hang_up(self) -> None:
        """Take the terminal away."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@contextmanager
def warm_claw(desk: Desk) -> Iterator[WarmClaw]:
    """The desk only lends its environment."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                cwd=Path(__file__).parents[2],
                env=environment(desk),
                stdin=theirs.fileno(),
            )
        try:
            yield WarmClaw(ours)
        finally:
            ours.close()
            process.wait(30)


def _serve() -> None:
    for name in _LOADED:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those who wait for claw are not waited for
    with socket.socket(fileno=os.dup(0)) as control:
        _take_orders(control)


def _take_orders(control: socket.socket) -> None:
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, _MOST_BYTES, 1)
        if not data:
            return
        if os.fork() == 0:
            control.close()
            os.close(0)
            _wait_for_claw(json.loads(data), descriptors[0])
        os.close(descriptors[0])


def _wait_for_claw(asked: Mapping[str, Any], answer: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if (pid := os.fork()) == 0:
        os.close(answer)
        _become_claw(asked)
    os.write(answer, b"%d" % pid)
    _, status = os.waitpid(pid, 0)
    os.write(answer, b"%d" % status)
    os._exit(0)


def _become_claw(asked: Mapping[str, Any]) -> None:
    from tui.cli import run

    os.setsid()
    os.open(asked["terminal"], os.O_RDWR)  # takes the number that standard input had, and controls the session
    for number in (1, 2):
        os.dup2(0, number)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = os.fdopen(("stdin", "stdout", "stderr").index(name), mode, encoding="utf-8", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    for number in asked["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    sys.exit(run(asked["argv"]))


if __name__ == "__main__":
    _serve()
